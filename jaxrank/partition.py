"""Cluster boundaries, and which items stand above them.

Boundaries are the paper's kappa: (3, 12) of 15 items means ranks 1-3, 4-12 and 13-15. The last one, which always
equals the number of items, may be left out.
"""

import dataclasses
from collections.abc import Callable, Sequence
from itertools import pairwise

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from jaxrank import _checks
from jaxrank.trials import pick, places, put


@dataclasses.dataclass(frozen=True)
class Cut:
    """A rule that gives the boundaries once the number of items is known, such as `quantiles(5)`."""

    name: str
    rule: Callable[[int], tuple[int, ...]] = dataclasses.field(repr=False)


Boundaries = Sequence[int] | Cut


def top(m: int) -> Cut:
    """Two clusters: the best m items and the rest."""
    m = _checks.whole("m", m, low=1)
    return Cut(f"top({m})", lambda num_items: (m,))


def quantiles(c: int) -> Cut:
    """C clusters of nearly equal size: kappa_i = round(i K / c)."""
    c = _checks.whole("c", c, low=2)

    def rule(num_items: int) -> tuple[int, ...]:
        _checks.require(c <= num_items, "c", f"must be at most the number of items, {num_items}", c)
        return tuple(round(i * num_items / c) for i in range(1, c))

    return Cut(f"quantiles({c})", rule)


def sizes(*counts: int) -> Cut:
    """Clusters of these sizes, best first; they must add up to the number of items."""
    checked = [_checks.whole("sizes", count, low=1) for count in counts]

    def rule(num_items: int) -> tuple[int, ...]:
        _checks.require(sum(checked) == num_items, "sizes", f"must add up to {num_items} items", tuple(checked))
        return tuple(sum(checked[: i + 1]) for i in range(len(checked)))

    return Cut(f"sizes{tuple(checked)}", rule)


def complete() -> Cut:
    """Every item its own cluster: a full ranking."""
    return Cut("complete()", lambda num_items: tuple(range(1, num_items)))


def cut_points(num_items: int, boundaries: Boundaries) -> tuple[int, ...]:
    """The checked boundaries kappa_1 < ... < kappa_{c-1} < K as a tuple, without the final K."""
    num_items = _checks.whole("num_items", num_items, low=2)
    if isinstance(boundaries, Cut):
        name, points = boundaries.name, boundaries.rule(num_items)
    else:
        name = "boundaries"
        if isinstance(boundaries, str) or not hasattr(boundaries, "__iter__"):
            raise ValueError(f"boundaries must be a sequence of whole numbers or a cut rule, got {boundaries!r}")
        points = tuple(_checks.whole("boundaries", point, low=1) for point in boundaries)
    if points and points[-1] == num_items:
        points = points[:-1]
    _checks.require(len(points) > 0, name, "must cut the items into at least two clusters", tuple(points))
    _checks.require(
        all(a < b for a, b in pairwise(points)),
        name,
        "must be strictly increasing",
        points,
    )
    _checks.require(points[-1] < num_items, name, f"must not exceed the number of items, {num_items}", points)
    return points


def tied_boundary(
    means: Float[ArrayLike, "*I K"], points: tuple[int, ...], strict: Bool[ArrayLike, "*I"] = True
) -> tuple[int, float] | None:
    """A boundary whose two means are equal, and that mean; None if there is none, or the means are traced.

    Only instances with `strict` are looked at. Gaps below the rounding of the means themselves count as well: they
    would take more samples than can be counted.
    """
    values, matters = _checks.concrete(means), _checks.concrete(strict)
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
    tolerance = _checks.concrete(epsilon)
    tie = None if tolerance is None else tied_boundary(means, points, tolerance == 0)
    if tie is not None:
        point, value = tie
        rule = f"must be above 0, or max_samples given, where the items at boundary {point} are tied"
        _checks.require(False, "epsilon", rule, f"0 with both means {value:g}")


def ranks(scores: Float[Array, "K *T"], priority: Int[Array, "K *T"]) -> Int[Array, "K *T"]:
    """Rank of every item from 0, best first; among equal scores the lower priority number comes first.

    Counts who beats whom: at the sizes an inner loop meets, XLA's sort on a CPU is an order of magnitude slower.
    """
    if scores.shape[0] > 256:
        return jnp.argsort(jnp.lexsort((priority, -scores), axis=0), axis=0).astype(priority.dtype)
    beats = scores[:, None] > scores[None]
    ties = (scores[:, None] == scores[None]) & (priority[:, None] < priority[None])
    return jnp.sum(beats | ties, axis=0, dtype=priority.dtype)


def updated_ranks(
    rank: Int[Array, "K *T"], scores: Float[Array, "K *T"], priority: Int[Array, "K *T"], changed: Int[Array, "B *T"]
) -> Int[Array, "K *T"]:
    """`ranks(scores, priority)`, given the ranks before the scores of the `changed` items moved: O(B K), not O(K^2).

    An item that did not move passes every mover that overtook it and falls behind every one it overtook; a mover is
    counted anew. Items may be listed twice, and may be listed without having moved.
    """
    if changed.shape[0] >= min(rank.shape[0], 256):
        return ranks(scores, priority)
    mover_rank, mover_score, mover_priority = (pick(table, changed) for table in (rank, scores, priority))
    slot = places(changed.shape, changed.dtype)
    repeated = jnp.any((changed[:, None] == changed[None]) & (slot[:, None] < slot[None]), axis=0)

    # Rows are movers, columns items: whether the item stands before the mover now, and whether it did.
    now = (scores[None] > mover_score[:, None]) | (
        (scores[None] == mover_score[:, None]) & (priority[None] < mover_priority[:, None])
    )
    new_rank = jnp.sum(now, axis=1, dtype=rank.dtype)
    passed = ((rank[None] < mover_rank[:, None]).astype(rank.dtype) - now.astype(rank.dtype)) * (
        1 - repeated[:, None].astype(rank.dtype)
    )
    moved = rank + jnp.sum(passed, axis=0, dtype=rank.dtype)
    return put(moved, changed, new_rank)


def above(rank: Int[Array, "K *T"], points: tuple[int, ...]) -> Bool[Array, "C K *T"]:
    """Which items stand above each boundary: the paper's J_i."""
    return rank[None] < jnp.asarray(points, rank.dtype).reshape(-1, *[1] * rank.ndim)


def cluster_of_rank(rank: Int[Array, "..."], points: tuple[int, ...]) -> Int[Array, "..."]:
    """Cluster, from 0, of a rank from 0: g = min{i : rank <= kappa_i} in the paper's counting from 1."""
    return jnp.sum(~above(rank, points), axis=0, dtype=rank.dtype)


def first(candidates: Bool[Array, "C K *T"], priority: Int[Array, "K *T"]) -> Int[Array, "C *T"]:
    """The candidate with the lowest priority number in every row."""
    winner = jnp.min(jnp.where(candidates, priority[None], priority.shape[0]), axis=1)
    everyone = places(priority.shape, priority.dtype)
    return jnp.sum(jnp.where(priority[None] == winner[:, None], everyone[None], 0), axis=1, dtype=priority.dtype)
