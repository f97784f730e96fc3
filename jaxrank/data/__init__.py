"""Pairwise answers: files and tables as they come, what they mean, and how items hang together."""
