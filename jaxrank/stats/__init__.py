"""Reward families, pairwise models, confidence bounds and sequences, evidence, gaps."""
