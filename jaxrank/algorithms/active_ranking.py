"""Active Ranking (Heckel, Shah, Ramchandran, Wainwright): successive elimination into clusters."""

from typing import Literal, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key
from numpy.typing import ArrayLike

from jaxrank.core import checks, ranks
from jaxrank.core.batch_axis import row_indices
from jaxrank.core.boundaries import as_given, cut_points, tied_boundary
from jaxrank.core.prng import permutation
from jaxrank.core.protocol import ANYONE, Algorithm, Number, Query
from jaxrank.core.pytrees import leaf, pytree_dataclass, set_fields, static
from jaxrank.core.tally import Tally
from jaxrank.stats.numerics import log, log_inverse

FACTORS = {"proven": 4.0, "code": 1.0}
"""Multiples of the confidence width: that of the published analysis, and that of its authors' public code."""


class ActiveRankingState(NamedTuple):
    """Where a run of `ActiveRanking` stands.

    Attributes:
      rounds: rounds so far.
      tally: all answers so far.
      priority: a random permutation that breaks ties, drawn once per trial, shape (K,).
      settled: the cluster, from 0, that an item was put in for good; -1 while it is still sampled. Shape (K,).
      cuts: boundaries among the items still sampled, shape (C,): lowered by one for every item that left above.

    Example:
      >>> state = jr.ActiveRanking(num_items=3, boundaries=(1,), delta=0.1).init(jax.random.key(0))
      >>> int(state.rounds), state.tally.pulls.tolist()
      (0, [0, 0, 0])
    """

    rounds: Int[Array, "*T"]
    tally: Tally
    priority: Int[Array, "K *T"]
    settled: Int[Array, "K *T"]
    cuts: Int[Array, "C *T"]


@pytree_dataclass
class ActiveRanking(Algorithm[ActiveRankingState]):
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

    Example:
      >>> algorithm = jr.ActiveRanking(num_items=4, boundaries=(2,), delta=0.1, factor="code")
      >>> result = jr.run(jax.random.key(0), algorithm, jr.BernoulliArms(means=[0.1, 0.9, 0.2, 0.8]))
      >>> bool(result.done), sorted(result.order[:2].tolist())
      (True, [1, 3])
    """

    num_items: int = static(converter=checks.whole_number("num_items", low=2))
    boundaries: tuple[int, ...] = static(converter=as_given)
    delta: Number = leaf(0)
    factor: Number | Literal["proven", "code"] = leaf(0, default="proven")

    batched = True

    def __post_init__(self) -> None:
        """Resolve the boundaries and the factor."""
        set_fields(self, boundaries=cut_points(self.num_items, self.boundaries))
        if isinstance(self.factor, str):
            known = self.factor in FACTORS
            checks.require(known, "factor", "must be 'proven', 'code' or a number", repr(self.factor))
            set_fields(self, factor=FACTORS[self.factor])

    def check(self) -> None:
        """See `Algorithm`."""
        checks.risk("delta", self.delta)
        checks.positive("factor", self.factor)

    def check_stops(self, means: Float[ArrayLike, "K"]) -> None:
        """Two equal means at a boundary are never told apart."""
        tie = tied_boundary(means, self.boundaries)
        if tie is not None:
            point, value = tie
            rule = f"must be given where the items at boundary {point} are tied"
            checks.fail("max_samples", rule, f"none with both means {value:g}")

    def init(self, key: Key[Array, "*T"]) -> ActiveRankingState:
        """See `Algorithm`."""
        answers = Tally.empty((self.num_items, *key.shape))
        priority = permutation(key, self.num_items)
        cuts = jnp.asarray(self.boundaries, priority.dtype).reshape(-1, *[1] * key.ndim)
        return ActiveRankingState(
            rounds=jnp.zeros(key.shape, answers.pulls.dtype),
            tally=answers,
            priority=priority,
            settled=jnp.full_like(priority, -1),
            cuts=jnp.broadcast_to(cuts, (len(self.boundaries), *key.shape)),
        )

    def ask(self, key: Key[Array, "*T"], state: ActiveRankingState) -> Query:
        """Every item that is not settled, in random order so that a budget cuts a round fairly."""
        del key
        item = state.priority
        open_places = jnp.any(
            (row_indices(item.shape, item.dtype)[None] == item[:, None]) & (state.settled < 0)[None], axis=1
        )
        return Query(item=item, opponent=jnp.full_like(item, ANYONE), mask=open_places)

    def tell(self, state: ActiveRankingState, query: Query, reward: Float[Array, "B *T"]) -> ActiveRankingState:
        """Count, and settle what is clear; a round cut short by the budget settles nothing."""
        answers = state.tally.add(query, reward)
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
        inner = log(125 * self.num_items * log(1.12 * t)) + log_inverse(jnp.asarray(self.delta, dtype))
        factor = jnp.asarray(self.factor, dtype)
        width = factor * jnp.sqrt(jnp.maximum(inner, 0) / t)
        return jnp.where((inner > 0) & (factor > 0), width, jnp.inf)[None]

    def done(self, state: ActiveRankingState) -> Bool[Array, "*T"]:
        """All items are settled."""
        return ~jnp.any(state.settled < 0, axis=0)

    def order(self, state: ActiveRankingState) -> Int[Array, "K *T"]:
        """Cluster by cluster, and inside by empirical means."""
        rank = ranks.ranks(state.tally.means, state.priority)
        active = state.settled < 0
        among = ranks.ranks(jnp.where(active, state.tally.means, -jnp.inf), state.priority)
        now = jnp.sum(among[None] >= state.cuts[:, None], axis=0, dtype=rank.dtype)
        place = jnp.where(active, now, state.settled) * self.num_items + rank
        return jnp.argsort(place, axis=0).astype(rank.dtype)
