"""Newton's method for comparisons that form a narrow band: each item met only its neighbours in some order.

Such graphs (a ladder, a season's schedule, answers about similar items only) are where first-order methods crawl; put
in the right order, the curvature is a band matrix and a Newton step costs next to nothing.
"""

from typing import NamedTuple

import jax
import numpy as np
from scipy.linalg import solveh_banded
from scipy.sparse import csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from jaxrank.data.comparisons import Comparisons
from jaxrank.fitting import solver
from jaxrank.fitting.solver import Solution
from jaxrank.stats.links import Link

MOST_WORK = 10**8
"""Items times the square of the band's width up to which this is worth while: a second of factorising at most."""


class Band(NamedTuple):
    """Different answers and how often each was given, with the items numbered along the band."""

    order: np.ndarray
    """Items along the band."""
    winners: np.ndarray
    """Positions along the band; likewise `losers`."""
    losers: np.ndarray
    weights: np.ndarray
    width: int


def band_of(comparisons: Comparisons) -> Band | None:
    """The comparisons, added up, as a band; None if it is not a narrow one."""
    count = comparisons.num_items
    shape = (count, count)
    graph = csr_array((np.ones(len(comparisons.winners)), (comparisons.winners, comparisons.losers)), shape=shape)
    order = reverse_cuthill_mckee((graph + graph.T).tocsr(), symmetric_mode=True)
    place = np.argsort(order)
    winners, losers = place[comparisons.winners], place[comparisons.losers]
    width = int(np.max(np.abs(winners - losers)))
    if count * width**2 > MOST_WORK:
        return None
    return Band(order, winners, losers, np.asarray(comparisons.weights), width)


def newton_on_band(band: Band, link: Link, prior: float, begun: Solution, tolerance: float) -> Solution:
    """`solver.newton`, on the band."""
    start = np.asarray(begun.scores)
    count = len(start)
    low, high = np.minimum(band.winners, band.losers), np.maximum(band.winners, band.losers)
    entry = (high - low) * count + low
    scores, size, steps = start[band.order], float(begun.error), 0
    while size > tolerance and steps < solver.NEWTON_STEPS:
        gap = scores[band.winners] - scores[band.losers]
        slope, bend = (band.weights * np.asarray(part) for part in _derivatives(link, gap))
        gradient = np.bincount(band.winners, slope, count) - np.bincount(band.losers, slope, count) - prior * scores
        diagonal = np.bincount(band.winners, bend, count) + np.bincount(band.losers, bend, count)
        matrix = -np.bincount(entry, bend, (band.width + 1) * count).reshape(band.width + 1, count)
        matrix[0] = diagonal + prior
        if prior == 0:
            # Constant scores have no curvature: hold the first one still. The gradient adds up to 0.
            gradient -= gradient.mean()
            matrix[0, 0] += diagonal.mean()
        try:
            step = solveh_banded(matrix, gradient, lower=True)
        except np.linalg.LinAlgError:
            # Scores so far apart that the curvature between them is lost to rounding; the result says so.
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
def _derivatives(link: Link, gap):
    return link.slope(gap), link.curvature(gap)
