"""Whoever answers: items that give rewards directly, and items that meet in duels."""

from jaxrank.environments import paper
from jaxrank.environments.arms import BernoulliArms, ExponentialArms, GaussianArms, PoissonArms
from jaxrank.environments.duels import Duels, ScoredDuels, borda_scores

__all__ = [
    "BernoulliArms",
    "Duels",
    "ExponentialArms",
    "GaussianArms",
    "PoissonArms",
    "ScoredDuels",
    "borda_scores",
    "paper",
]
