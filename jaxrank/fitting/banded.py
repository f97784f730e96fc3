"""Newton's method where comparisons form a narrow band: in some order, each item met only its neighbours.

First-order methods are slow on such graphs (a ladder, a season's schedule, answers about similar items only). In the
right order the Fisher information is a band matrix, and a Newton step takes time proportional to the number of items.
"""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.linalg import solveh_banded
from scipy.sparse import csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from jaxrank.data.comparisons import Comparisons
from jaxrank.fitting import solver
from jaxrank.fitting.solver import Solution
from jaxrank.stats.links import Link

MAX_BAND_COST = 10**8
"""Largest number of items times squared band width, the cost of a factorisation, for which the band is used."""


class Band(NamedTuple):
    """Answers with the items renumbered so that opponents are close to each other.

    Attributes:
      order: item at each position along the band (K,).
      winners: position of the item that won each row (R,).
      losers: position of the item that lost each row (R,).
      weights: how often each row's answer was given (R,).
      width: largest distance between opponents, in positions.

    Example:
      >>> from jaxrank.fitting.banded import band_of
      >>> ring = np.arange(10)
      >>> band_of(jr.Comparisons.from_pairs(ring, (ring + 1) % 10)).width
      2
    """

    order: Int[np.ndarray, "K"]
    winners: Int[np.ndarray, "R"]
    losers: Int[np.ndarray, "R"]
    weights: Float[np.ndarray, "R"]
    width: int


def band_of(comparisons: Comparisons) -> Band | None:
    """Arrange the items along a band, by the reverse Cuthill-McKee order.

    Args:
      comparisons: the answers; `added_up` makes fewer rows of them, which are faster.

    Returns:
      The band, or None if it is so wide (`MAX_BAND_COST`) that other solvers are faster.

    Example:
      >>> from jaxrank.fitting.banded import band_of
      >>> ladder = np.arange(99)
      >>> band_of(jr.Comparisons.from_pairs(ladder, ladder + 1)).width
      1
    """
    count = comparisons.num_items
    shape = (count, count)
    graph = csr_array((np.ones(len(comparisons.winners)), (comparisons.winners, comparisons.losers)), shape=shape)
    order = reverse_cuthill_mckee((graph + graph.T).tocsr(), symmetric_mode=True)
    place = np.argsort(order)
    winners, losers = place[comparisons.winners], place[comparisons.losers]
    width = int(np.max(np.abs(winners - losers)))
    if count * width**2 > MAX_BAND_COST:
        return None
    return Band(order, winners, losers, comparisons.row_weights, width)


def newton_on_band(band: Band, link: Link, prior: float, begun: Solution, tolerance: float) -> Solution:
    """Take the Newton steps of `solver.newton` on a band, in NumPy.

    Args:
      band: the answers.
      link: the pairwise model.
      prior: precision of the Gaussian prior on the scores, at least 0.
      begun: where to start; `passes` is handed on.
      tolerance: length of a step at which the search ends.

    Returns:
      The solution, with scores in the order of the items, not of the band.

    Example:
      >>> from jaxrank.fitting.banded import band_of, newton_on_band
      >>> from jaxrank.fitting.solver import Solution
      >>> from jaxrank.stats.links import BTL
      >>> band = band_of(jr.Comparisons.from_pairs([0, 1, 1, 2], [1, 0, 2, 1], weights=[3, 1, 3, 1]))
      >>> begun = Solution(np.zeros(3), *map(np.asarray, (np.inf, 0, 0, False)))
      >>> np.diff(newton_on_band(band, BTL(), 0.0, begun, 1e-4).scores).round(2).tolist()  # log(3) apart
      [-1.1, -1.1]
    """
    start = np.asarray(begun.scores)
    count = len(start)
    low, high = np.minimum(band.winners, band.losers), np.maximum(band.winners, band.losers)
    entry = (high - low) * count + low
    scores, size, steps = start[band.order], float(begun.error), 0
    while size > tolerance and steps < solver.MAX_NEWTON_STEPS:
        gap = scores[band.winners] - scores[band.losers]
        slope, bend = (band.weights * np.asarray(part) for part in _derivatives(link, gap))
        gradient = np.bincount(band.winners, slope, count) - np.bincount(band.losers, slope, count) - prior * scores
        diagonal = np.bincount(band.winners, bend, count) + np.bincount(band.losers, bend, count)
        matrix = -np.bincount(entry, bend, (band.width + 1) * count).reshape(band.width + 1, count)
        matrix[0] = diagonal + prior
        if prior == 0:
            # Constant scores have no curvature. As the gradient adds up to 0, holding one score fixed removes them.
            gradient -= gradient.mean()
            matrix[0, 0] += diagonal.mean()
        try:
            step = solveh_banded(matrix, gradient, lower=True)
        except np.linalg.LinAlgError:
            # Scores are so far apart that rounding destroys the curvature; `converged` will be False.
            break
        if prior == 0:
            step -= step.mean()
        size = float(np.max(np.abs(step)))
        scores = scores + step * min(1, 2 / max(size, 1e-30))
        steps += 1
    scores = scores[np.argsort(band.order)]
    return Solution(
        scores - scores.mean(), np.asarray(size), begun.passes, np.asarray(steps), np.asarray(size <= tolerance)
    )


@jax.jit
def _derivatives(link: Link, gap: Float[Array, "R"]) -> tuple[Float[Array, "R"], Float[Array, "R"]]:
    """Slope and curvature of the log-probability of every row."""
    return link.slope(gap), link.curvature(gap)
