"""Pairs of items from different clusters: which are tested next, which are sampled next, and what is proven."""

from collections.abc import Collection
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Integer

from jaxrank.core import ranks
from jaxrank.core.batch_axis import (
    expand_items,
    gather,
    gather_rows,
    row_indices,
    set_one_per_row,
)
from jaxrank.core.protocol import Number
from jaxrank.core.tally import Tally
from jaxrank.stats.evidence import EvidenceFamily, log_evidence
from jaxrank.stats.numerics import TIE, log

STRONG_PAIR_DISCOUNT = 0.75
"""Factor of the cost of pairs that must reach the second level, when the pair to sample is chosen."""
MAX_RETEST_STEP = 4.0
"""The most by which a cost must grow before the next test."""
RETEST_SHARE = 0.8
"""Share of the evidence still missing by which a pair's cost must grow before it is tested again."""
LEAD_UNITS = 64.0
"""Units, in one nat, in which it is counted how long a pair is overdue."""
SEARCH_STEPS = 5
"""Steps of the search in a test. Evidence that comes out too small is tested again later."""


class Pairs(NamedTuple):
    """Three tables of the state of EvidenceRank."""

    cost: Float[Array, "K K *T"]
    due: Float[Array, "K K *T"]
    level: Integer[Array, "K K *T"]


def weak_boundaries(boundaries: tuple[int, ...]) -> list[int]:
    """Boundaries at which the last item above and the first below make a weak pair: in order, no item twice."""
    chosen: list[int] = []
    for cut in boundaries:
        if not chosen or cut > chosen[-1] + 1:
            chosen.append(cut)
    return chosen


def is_weak(rank: Int[Array, "K *T"], weak_boundaries: Collection[int]) -> Bool[Array, "K K *T"]:
    """Pairs for which the first level is enough."""
    upper = jnp.zeros_like(rank, bool)
    for cut in weak_boundaries:
        upper |= rank == cut - 1
    return upper[:, None] & (rank[:, None] + 1 == rank[None])


def overdue_pairs(
    pairs: Pairs, cluster: Int[Array, "K *T"], count: int
) -> tuple[Int[Array, "n *T"], Int[Array, "n *T"], Bool[Array, "n *T"]]:
    """Pairs to be tested: of every group of upper items, as many groups as tests, the one longest overdue.

    Returns:
      The upper items, the lower items, and where there is no such pair, False.
    """
    size = cluster.shape[0]
    # How long overdue, and the column, in one whole number: its maximum is found in one pass.
    waiting = jnp.clip(LEAD_UNITS * (pairs.cost - pairs.due), 0, 2**31 // size - 2).astype(jnp.int32)
    column = jax.lax.broadcasted_iota(jnp.int32, pairs.cost.shape, 1)
    overdue = (cluster[:, None] < cluster[None]) & (pairs.cost >= pairs.due)
    code = jnp.max(jnp.where(overdue, waiting * size + column, -1), axis=1)
    rows = -(-size // count)
    groups = jnp.pad(code, [(0, rows * count - size), *[(0, 0)] * (code.ndim - 1)], constant_values=-1)
    groups = groups.reshape(rows, count, *code.shape[1:])
    best = jnp.max(groups, axis=0)
    row = jnp.argmax(groups, axis=0).astype(cluster.dtype) * count + row_indices(best.shape, cluster.dtype)
    return jnp.minimum(row, size - 1), jnp.maximum(best, 0).astype(cluster.dtype) % size, best >= 0


def test_pairs(
    pairs: Pairs,
    tally: Tally,
    cluster: Int[Array, "K *T"],
    thresholds: Float[Array, "L *#T"],
    epsilon: Number,
    family: EvidenceFamily,
    count: int,
    now: Bool[Array, "*T"],
) -> tuple[Float[Array, "K K *T"], Integer[Array, "K K *T"]]:
    """Test a number of pairs that are overdue, in the trials marked by `now`.

    Returns:
      When pairs are due next, and the levels they have reached.
    """
    means = tally.means
    tolerance, levels = expand_items(jnp.asarray(epsilon, means.dtype)), thresholds.shape[0]
    first, last = (expand_items(thresholds[place]) for place in (0, -1))

    def test(pair: tuple[Int[Array, "*T"], Int[Array, "*T"]]):
        a, b = pair[0][None], pair[1][None]
        level, cost = (gather(pairs.level, a, b), gather(pairs.cost, a, b))
        mean_a, mean_b = (gather(means, a), gather(means, b))
        pulls_a, pulls_b = (gather(tally.pulls, a), gather(tally.pulls, b))
        evidence = log_evidence(mean_a, pulls_a, mean_b, pulls_b, tolerance, 1 + level, family, SEARCH_STEPS)
        passed = evidence >= jnp.where(level == 0, first, last)
        # With a tolerance there is one threshold, and all levels are reached at once.
        above = jnp.where(tolerance > 0, levels, level + 1).astype(level.dtype)
        level = jnp.where(passed, above, level)
        missing = RETEST_SHARE * (jnp.where(level == 0, first, last) - evidence)
        later = jnp.where(level == levels, jnp.inf, cost + jnp.clip(missing, 0.05, MAX_RETEST_STEP))
        return later[0], level[0]

    a, b, due = overdue_pairs(pairs, cluster, count)
    # One after the other: the numbers of a single test stay close at hand.
    later, level = jax.lax.map(test, (a, b))
    due &= now[None]
    return set_one_per_row(pairs.due, a, b, later, due), set_one_per_row(pairs.level, a, b, level, due)


def critical_pairs(
    pairs: Pairs,
    pulls: Int[Array, "K *T"],
    rank: Int[Array, "K *T"],
    priority: Int[Array, "K *T"],
    boundaries: tuple[int, ...],
    weak_boundaries: Collection[int],
    levels: int,
    strong_factor: Float[Array, "*#T"],
) -> tuple[Bool[Array, "C *T"], Int[Array, "C 2 *T"]]:
    """For every cluster but the last, whether it has pairs to prove, and the one cheapest to be wrong about.

    The price of a pair is its transport cost, times `strong_factor` unless the pair is weak, and the logarithms of both
    items' pulls.
    """
    kind, cluster = pairs.cost.dtype, ranks.cluster_of_rank(rank, boundaries)
    everyone, bonus = row_indices(rank.shape, rank.dtype), log(jnp.maximum(pulls, 1).astype(kind))
    strong_factor, most = expand_items(expand_items(strong_factor)), float(jnp.finfo(kind).max / 4)
    partner = jnp.full_like(rank, -1)  # the other item of each item's weak pair
    for cut in weak_boundaries:
        partner = jnp.where(rank == cut - 1, jnp.sum(jnp.where(rank == cut, everyone, 0), axis=0)[None], partner)
    partner = partner.astype(rank.dtype)

    def price(cost, level, cluster_a, partner_a, bonus_a) -> Float[Array, "n K *T"]:
        weak = partner_a[:, None] == jax.lax.broadcasted_iota(rank.dtype, cost.shape, 1)
        unproven = (cluster_a[:, None] < cluster[None]) & (level < jnp.where(weak, 1, levels).astype(level.dtype))
        logs = bonus_a[:, None] + bonus[None]
        total = jnp.where(weak, cost, strong_factor * cost) + logs
        # Finite for every pair that is not proven, whatever its cost: infinite means that there is none.
        return jnp.where(unproven, jnp.where(total < most, total, most), jnp.inf)

    best = jnp.min(price(pairs.cost, pairs.level, cluster, partner, bonus), axis=1)
    mine = jnp.stack([jnp.where(cluster == number, best, jnp.inf) for number in range(len(boundaries))])
    least = jnp.min(mine, axis=1)
    nearly = ((1 + TIE[kind.itemsize]) * least)[:, None]
    a = ranks.first(mine <= nearly, priority)
    cost, level = (gather_rows(pairs.cost, a), gather_rows(pairs.level, a))
    cluster_a, partner_a, bonus_a = (gather(table, a) for table in (cluster, partner, bonus))
    b = ranks.first(price(cost, level, cluster_a, partner_a, bonus_a) <= nearly, priority)
    return jnp.isfinite(least), jnp.stack([a, b], axis=1)


class Certificate(NamedTuple):
    """What is proven and what is not, pair by pair; entry (a, b) is about "item a is above item b".

    Attributes:
      needed: pairs of different clusters as they stand now, all of which must be proven; shape (K, K).
      weak: pairs for which the first level is enough, one per boundary at most; shape (K, K).
      level: how many levels the evidence has reached, shape (K, K).
      proven: pairs that have reached the level they must, shape (K, K).
      log_evidence: evidence now by each level's mixture, shape (L, K, K); it may have been larger before.
      thresholds: evidence that each level asks for, shape (L,).
      more_samples: estimate of the samples of the two items that a needed pair will still take, shape (K, K).

    Example:
      >>> algorithm = jr.EvidenceRank(num_items=3, boundaries=(1,), delta=0.1)
      >>> certificate = algorithm.certificate(algorithm.init(jax.random.key(0)))
      >>> int(certificate.needed.sum()), int(certificate.weak.sum()), int(certificate.proven.sum())
      (2, 1, 0)
    """

    needed: Bool[Array, "K K *T"]
    weak: Bool[Array, "K K *T"]
    level: Integer[Array, "K K *T"]
    proven: Bool[Array, "K K *T"]
    log_evidence: Float[Array, "L K K *T"]
    thresholds: Float[Array, "L *T"]
    more_samples: Float[Array, "K K *T"]


def certificate_of(
    pulls: Int[Array, "K *T"],
    cost: Float[Array, "K K *T"],
    level: Integer[Array, "K K *T"],
    needed: Bool[Array, "K K *T"],
    weak: Bool[Array, "K K *T"],
    evidence: Float[Array, "L K K *T"],
    thresholds: Float[Array, "L *T"],
) -> Certificate:
    """The certificate, with an estimate of what is missing: evidence grows as the transport cost does."""
    levels = thresholds.shape[0]
    proven = needed & (level >= jnp.where(weak, 1, levels).astype(level.dtype))
    place = row_indices(evidence.shape, level.dtype)
    to_reach = (place >= level[None]) & ~(weak[None] & (place > 0)) & (needed & ~proven)[None]
    missing = jnp.maximum(thresholds[:, None, None] - evidence, jnp.finfo(evidence.dtype).eps)
    missing = jnp.max(jnp.where(to_reach, missing, 0), axis=0)
    rate = cost / jnp.maximum(pulls[:, None] + pulls[None], 1).astype(cost.dtype)
    return Certificate(
        needed=needed,
        weak=weak,
        level=level,
        proven=proven,
        log_evidence=evidence,
        thresholds=thresholds,
        more_samples=jnp.where(missing > 0, missing / rate, 0),
    )
