"""The paper's bounds as functions, and the sharp lower bound beside them.

Plain numbers are worked out in 64 bit whatever JAX's setting is, and come back as NumPy's. Traced ones (under `jit`,
`vmap`, `grad`) keep the caller's precision. Means may come in any order; results about items keep it.
"""

from jaxrank.theory.allocation import Allocation, characteristic_time
from jaxrank.theory.bounds import Hardness, c0, hardness, k1, lower_bound, sharp_lower_bound, upper_bound
from jaxrank.theory.distances import (
    borda_scores,
    boundary_distances,
    chernoff_information,
    complete_ranking_hardness,
    divergence,
    kl_distances,
)

__all__ = [
    "Allocation",
    "Hardness",
    "borda_scores",
    "boundary_distances",
    "c0",
    "characteristic_time",
    "chernoff_information",
    "complete_ranking_hardness",
    "divergence",
    "hardness",
    "k1",
    "kl_distances",
    "lower_bound",
    "sharp_lower_bound",
    "upper_bound",
]
