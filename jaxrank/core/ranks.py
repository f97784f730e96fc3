"""Ranks of items, and which items stand above a boundary."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxrank.core.batch_axis import gather, row_indices, set_rows


def ranks(scores: Float[Array, "K *T"], priority: Int[Array, "K *T"]) -> Int[Array, "K *T"]:
    """Rank of every item from 0, best first; among equal scores the lower priority number comes first, and NaN is last.

    Counts who beats whom: at the sizes an inner loop meets, XLA's sort on a CPU is an order of magnitude slower.
    """
    scores = _without_nan(scores)
    if scores.shape[0] > 256:
        return jnp.argsort(jnp.lexsort((priority, -scores), axis=0), axis=0).astype(priority.dtype)
    beats = scores[:, None] > scores[None]
    ties = (scores[:, None] == scores[None]) & (priority[:, None] < priority[None])
    return jnp.sum(beats | ties, axis=0, dtype=priority.dtype)


def updated_ranks(
    rank: Int[Array, "K *T"], scores: Float[Array, "K *T"], priority: Int[Array, "K *T"], changed: Int[Array, "B *T"]
) -> Int[Array, "K *T"]:
    """`ranks(scores, priority)`, given the ranks before the scores of the `changed` items moved: O(B K), not O(K^2).

    An item that did not move drops one rank for every mover that overtook it and gains one for every mover that fell
    behind it; a mover's rank is counted anew. Items may be listed twice, and may be listed without having moved.
    """
    if changed.shape[0] >= min(rank.shape[0], 256):
        return ranks(scores, priority)
    scores = _without_nan(scores)
    mover_rank, mover_score, mover_priority = (gather(table, changed) for table in (rank, scores, priority))
    slot = row_indices(changed.shape, changed.dtype)
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
    return set_rows(moved, changed, new_rank)


def _without_nan(scores: Float[Array, "K *T"]) -> Float[Array, "K *T"]:
    """Scores of which any two can be compared, so that ranks are a permutation whatever was answered."""
    return jnp.where(scores == scores, scores, -jnp.inf)


def order_of(rank: Int[Array, "K *T"]) -> Int[Array, "K *T"]:
    """The items in the order of their ranks, best first: the inverse permutation."""
    everyone = row_indices(rank.shape, rank.dtype)
    return set_rows(everyone, rank, everyone)


def above(rank: Int[Array, "K *T"], points: tuple[int, ...]) -> Bool[Array, "C K *T"]:
    """Which items stand above each boundary: the paper's J_i."""
    return rank[None] < jnp.asarray(points, rank.dtype).reshape(-1, *[1] * rank.ndim)


def cluster_of_rank(rank: Int[Array, "..."], points: tuple[int, ...]) -> Int[Array, "..."]:
    """Cluster, from 0, of a rank from 0: g = min{i : rank <= kappa_i} in the paper's counting from 1."""
    return jnp.sum(~above(rank, points), axis=0, dtype=rank.dtype)


def first(candidates: Bool[Array, "C K *T"], priority: Int[Array, "K *T"]) -> Int[Array, "C *T"]:
    """The candidate with the lowest priority number in every row."""
    winner = jnp.min(jnp.where(candidates, priority[None], priority.shape[0]), axis=1)
    everyone = row_indices(priority.shape, priority.dtype)
    return jnp.sum(jnp.where(priority[None] == winner[:, None], everyone[None], 0), axis=1, dtype=priority.dtype)
