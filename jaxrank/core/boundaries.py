"""Cluster boundaries, and which items stand above them.

Boundaries are the paper's kappa: (3, 12) of 15 items means ranks 1-3, 4-12 and 13-15. The last one, which always
equals the number of items, may be left out.
"""

import dataclasses
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from jaxrank.core import checks


@dataclasses.dataclass(frozen=True)
class Cut:
    """A rule that gives the boundaries once the number of items is known, such as `quantiles(5)`."""

    name: str
    rule: Callable[[int], tuple[int, ...]] = dataclasses.field(repr=False)


Boundaries = Sequence[int] | Cut


def top(m: int) -> Cut:
    """Two clusters: the best m items and the rest.

    Args:
      m: how many items are at the top.

    Returns:
      A rule to give as `boundaries`.

    Example:
      >>> jr.cut_points(10, jr.top(3))
      (3,)
    """
    m = checks.whole("m", m, low=1)
    return Cut(f"top({m})", lambda num_items: (m,))


def quantiles(c: int) -> Cut:
    """Clusters of nearly equal size: kappa_i = round(i K / c).

    Args:
      c: how many clusters.

    Returns:
      A rule to give as `boundaries`.

    Example:
      >>> jr.cut_points(10, jr.quantiles(5))
      (2, 4, 6, 8)
    """
    c = checks.whole("c", c, low=2)

    def rule(num_items: int) -> tuple[int, ...]:
        checks.require(c <= num_items, "c", f"must be at most the number of items, {num_items}", c)
        return tuple(round(i * num_items / c) for i in range(1, c))

    return Cut(f"quantiles({c})", rule)


def sizes(*counts: int) -> Cut:
    """Clusters of these sizes.

    Args:
      *counts: size of every cluster, best first; they must add up to the number of items.

    Returns:
      A rule to give as `boundaries`.

    Example:
      >>> jr.cut_points(15, jr.sizes(3, 9, 3))
      (3, 12)
    """
    checked = [checks.whole("sizes", count, low=1) for count in counts]

    def rule(num_items: int) -> tuple[int, ...]:
        checks.require(sum(checked) == num_items, "sizes", f"must add up to {num_items} items", tuple(checked))
        return tuple(sum(checked[: i + 1]) for i in range(len(checked)))

    return Cut(f"sizes{tuple(checked)}", rule)


def complete() -> Cut:
    """Every item its own cluster: a full ranking.

    Returns:
      A rule to give as `boundaries`.

    Example:
      >>> jr.cut_points(4, jr.complete())
      (1, 2, 3)
    """
    return Cut("complete()", lambda num_items: tuple(range(1, num_items)))


def cut_points(num_items: int, boundaries: Boundaries) -> tuple[int, ...]:
    """The ranks after which a cluster ends: kappa_1 < ... < kappa_{c-1} < K, checked.

    Args:
      num_items: K.
      boundaries: these ranks, with or without the final K, or a rule such as `quantiles(5)`.

    Returns:
      The ranks, without the final K.

    Raises:
      ValueError: if they are not increasing, or not between 1 and K.

    Example:
      >>> jr.cut_points(15, (3, 12, 15))
      (3, 12)
    """
    num_items = checks.whole("num_items", num_items, low=2)
    if isinstance(boundaries, Cut):
        name, points = boundaries.name, boundaries.rule(num_items)
    else:
        name = "boundaries"
        if isinstance(boundaries, str) or not hasattr(boundaries, "__iter__"):
            raise ValueError(f"boundaries must be a sequence of whole numbers or a cut rule, got {boundaries!r}")
        points = tuple(checks.whole("boundaries", point, low=1) for point in boundaries)
    if points and points[-1] == num_items:
        points = points[:-1]
    checks.require(len(points) > 0, name, "must cut the items into at least two clusters", tuple(points))
    checks.require(all(a < b for a, b in pairwise(points)), name, "must be strictly increasing", points)
    checks.require(points[-1] < num_items, name, f"must not exceed the number of items, {num_items}", points)
    return points


def as_given(boundaries: Boundaries | None) -> Any:
    """A field converter that changes nothing, as the number of items is not known yet; `__post_init__` resolves them.

    It is there for type checkers: the field accepts the argument's type and has the return type.
    """
    return boundaries


def tied_boundary(
    means: Float[ArrayLike, "*I K"], points: tuple[int, ...], strict: Bool[ArrayLike, "*I"] = True
) -> tuple[int, float] | None:
    """A boundary whose two means are equal, and that mean; None if there is none, or the means are traced.

    Only instances with `strict` are looked at. Gaps below the rounding of the means themselves count as well: they
    would take more samples than can be counted.
    """
    values, matters = checks.concrete(means), checks.concrete(strict)
    if values is None or matters is None:
        return None
    ranked = -np.sort(-values, axis=-1)
    for point in points:
        below = ranked[..., point]
        tied = (ranked[..., point - 1] - below <= 1e-6 * np.maximum(1, abs(below))) & matters
        if tied.any():
            return point, float(np.atleast_1d(below)[np.argmax(np.atleast_1d(tied))])
    return None


def require_gaps(means: Float[ArrayLike, "*I K"], points: tuple[int, ...], epsilon: ArrayLike) -> None:
    """Raise `ValueError` where epsilon = 0 and two equal means at a boundary can never be told apart."""
    tolerance = checks.concrete(epsilon)
    tie = None if tolerance is None else tied_boundary(means, points, tolerance == 0)
    if tie is not None:
        point, value = tie
        rule = f"must be above 0, or max_samples given, where the items at boundary {point} are tied"
        checks.fail("epsilon", rule, f"0 with both means {value:g}")
