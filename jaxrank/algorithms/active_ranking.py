"""Active Ranking (Heckel, Shah, Ramchandran, Wainwright): successive elimination into clusters."""

from typing import Literal, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxrank.core import checks, ranks, tally
from jaxrank.core.batch_axis import row_indices
from jaxrank.core.boundaries import Boundaries, cut_points, tied_boundary
from jaxrank.core.prng import permutation
from jaxrank.core.protocol import ANYONE, Query
from jaxrank.core.pytrees import leaf, pytree_dataclass, static
from jaxrank.core.tally import Tally
from jaxrank.stats.numerics import log

FACTORS = {"proven": 4.0, "code": 1.0}
"""Multiples of the confidence width: that of the published analysis, and that of its authors' public code."""


class ActiveRankingState(NamedTuple):
    """Where a run stands."""

    rounds: Int[Array, "*T"]
    tally: Tally
    priority: Int[Array, "K *T"]
    """A random permutation that breaks ties, drawn once per trial."""
    settled: Int[Array, "K *T"]
    """The cluster, from 0, that an item was put in for good; -1 while it is still sampled."""
    cuts: Int[Array, "C *T"]
    """Boundaries among the items still sampled: each is lowered by one for every item that left above it."""


@pytree_dataclass
class ActiveRanking:
    """Sample every item that is not settled once per round; settle those that stand clear of both their boundaries.

    An item is clear of a boundary if its empirical mean is further than a width w from that of the next item beyond
    it, with w = factor sqrt(log(125 K log(1.12 t) / delta) / t) in round t. It stops when all items are settled.

    Args:
      num_items: K.
      boundaries: as for `LUCBRank`.
      delta: probability of a wrong result, at most, with the proven factor.
      factor: "proven" (4, as in the published analysis), "code" (1, as in the authors' code, unproven) or a number.
        With the proven factor nothing is settled for so long that over the range people plot the order is that of
        `Uniform`: on the paper's Experiment 1 it stops after some 1.7 million samples, with "code" after 106,000.
    """

    num_items: int = static()
    boundaries: tuple[int, ...] = static()
    delta: Float[Array, ""] | float = leaf(0)
    factor: Float[Array, ""] | float = leaf(0)

    asks_pairs = False

    def __init__(
        self,
        *,
        num_items: int,
        boundaries: Boundaries,
        delta: Float[Array, ""] | float,
        factor: Float[Array, ""] | float | Literal["proven", "code"] = "proven",
    ):
        if isinstance(factor, str):
            checks.require(factor in FACTORS, "factor", "must be 'proven', 'code' or a number", repr(factor))
            factor = FACTORS[factor]
        fields = {
            "num_items": checks.whole("num_items", num_items, low=2),
            "boundaries": cut_points(num_items, boundaries),
            "delta": delta,
            "factor": float(factor) if isinstance(factor, int) else factor,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def check(self) -> None:
        """See `Algorithm`."""
        checks.inside("delta", self.delta, 0, 1, closed=(False, False))
        checks.inside("factor", self.factor, 0, float("inf"), closed=(False, False))

    def check_stops(self, means) -> None:
        """Two equal means at a boundary are never told apart."""
        tie = tied_boundary(means, self.boundaries)
        if tie is not None:
            point, value = tie
            rule = f"must be given where the items at boundary {point} are tied"
            checks.require(False, "max_samples", rule, f"none with both means {value:g}")

    def init(self, key) -> ActiveRankingState:
        """See `Algorithm`."""
        answers = tally.empty((self.num_items, *key.shape))
        priority = permutation(key, self.num_items)
        cuts = jnp.asarray(self.boundaries, priority.dtype).reshape(-1, *[1] * key.ndim)
        return ActiveRankingState(
            rounds=jnp.zeros(key.shape, answers.pulls.dtype),
            tally=answers,
            priority=priority,
            settled=jnp.full_like(priority, -1),
            cuts=jnp.broadcast_to(cuts, (len(self.boundaries), *key.shape)),
        )

    def ask(self, key, state) -> Query:
        """Every item that is not settled, in random order so that a budget cuts a round fairly."""
        del key
        item = state.priority
        open_places = jnp.any(
            (row_indices(item.shape, item.dtype)[None] == item[:, None]) & (state.settled < 0)[None], axis=1
        )
        return Query(item=item, opponent=jnp.full_like(item, ANYONE), mask=open_places)

    def tell(self, state, query, reward) -> ActiveRankingState:
        """Count, and settle what is clear; a round cut short by the budget settles nothing."""
        answers = tally.add(state.tally, query, reward)
        asked = jnp.sum(query.mask, axis=0, dtype=state.cuts.dtype)
        rounds = state.rounds + (asked > 0).astype(state.rounds.dtype)
        active = state.settled < 0
        size = jnp.sum(active, axis=0, dtype=asked.dtype)
        cluster, leaves = self._clear(answers.means, state.priority, active, size, state.cuts, rounds)
        leaves &= ((asked == size) & (size > 0))[None]
        boundary = row_indices(state.cuts.shape, state.cuts.dtype)
        left_above = jnp.sum(leaves[None] & (cluster[None] <= boundary[:, None]), axis=1, dtype=asked.dtype)
        return ActiveRankingState(
            rounds=rounds,
            tally=answers,
            priority=state.priority,
            settled=jnp.where(leaves, cluster, state.settled),
            cuts=state.cuts - left_above,
        )

    def _clear(self, means, priority, active, size, cuts, rounds):
        """The cluster of every item as it stands, and whether it is clear of both its boundaries."""
        rank = ranks.ranks(jnp.where(active, means, -jnp.inf), priority)
        cluster = jnp.sum(rank[None] >= cuts[:, None], axis=0, dtype=rank.dtype)
        # Empirical means of the items just above and just below every boundary.
        last = jnp.sum(jnp.where(rank[None] == cuts[:, None] - 1, means[None], 0), axis=1)
        first = jnp.sum(jnp.where(rank[None] == cuts[:, None], means[None], 0), axis=1)
        width = self._width(rounds, means.dtype)
        boundary = row_indices(cuts.shape, cuts.dtype)[:, None]
        # Where a boundary has nobody beyond it there is nothing to be clear of.
        below = (cuts == 0)[:, None] | (last[:, None] - means[None] > width[None])
        above = (cuts == size[None])[:, None] | (means[None] - first[:, None] > width[None])
        clear = jnp.all(((boundary != cluster[None] - 1) | below) & ((boundary != cluster[None]) | above), axis=0)
        return cluster, active & clear

    def _width(self, rounds, dtype):
        t = jnp.maximum(rounds, 1).astype(dtype)
        inner = 125 * self.num_items * log(1.12 * t) / jnp.asarray(self.delta, dtype)
        some = inner > 1
        width = jnp.sqrt(log(jnp.where(some, inner, 2)) / t)
        return jnp.where(some, jnp.asarray(self.factor, dtype) * width, jnp.inf)[None]

    def done(self, state):
        """All items are settled."""
        return ~jnp.any(state.settled < 0, axis=0)

    def order(self, state):
        """Cluster by cluster, and inside by empirical means."""
        rank = ranks.ranks(state.tally.means, state.priority)
        active = state.settled < 0
        among = ranks.ranks(jnp.where(active, state.tally.means, -jnp.inf), state.priority)
        now = jnp.sum(among[None] >= state.cuts[:, None], axis=0, dtype=rank.dtype)
        place = jnp.where(active, now, state.settled) * self.num_items + rank
        return jnp.argsort(place, axis=0).astype(rank.dtype)
