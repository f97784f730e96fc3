"""Scores from pairwise answers: likelihood, solvers, results, diagnostics."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules=["diagnostics"])
