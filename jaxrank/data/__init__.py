"""Pairwise answers: reading them from files and tables, counting them, and how they link the items."""
