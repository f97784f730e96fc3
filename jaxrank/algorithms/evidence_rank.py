"""EvidenceRank: a proof for every pair of items from different clusters, and samples where proof is hardest."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Integer, Key
from numpy.typing import ArrayLike

from jaxrank.algorithms._critical_items import CriticalItems
from jaxrank.algorithms._pair_evidence import (
    STRONG_PAIR_DISCOUNT,
    Certificate,
    Pairs,
    certificate_of,
    critical_pairs,
    is_weak,
    test_pairs,
    weak_boundaries,
)
from jaxrank.core import checks, prng, ranks
from jaxrank.core.batch_axis import expand_items, gather, row_indices, set_pairs
from jaxrank.core.boundaries import as_given, cut_points, require_gaps
from jaxrank.core.compiled import compiled
from jaxrank.core.protocol import Query
from jaxrank.core.pytrees import pytree_dataclass, set_fields, static
from jaxrank.core.tally import Tally
from jaxrank.stats.evidence import BERNOULLI, EvidenceFamily, log_evidence, transport_costs
from jaxrank.stats.numerics import log_inverse

FIRST_LEVEL_SHARE = 0.6
"""Share of delta for statements about neighbours at the true boundaries, with two levels."""
MIN_OVERHEAD = 1.8
"""By how much, as a first guess, the evidence for a pair is behind its cost: the mixture's price."""
MAX_FEW_ITEMS = 24
ROUNDS_PER_UPDATE = {True: 16, False: 8}
"""Rounds with the same critical pairs: with few items, each has many answers, and more of them change little."""


class EvidenceRankState(NamedTuple):
    """Where a run of `EvidenceRank` stands.

    Attributes:
      rounds: 0 until every item was sampled once, then 1, 2, ...
      tally: all answers so far.
      priority: a random permutation that breaks ties, drawn once per trial, shape (K,).
      rank: rank of every item by its empirical mean, from 0, best first; shape (K,).
      cost: transport cost of every pair, shape (K, K): the log-likelihood lost if the two were in the wrong order.
      due: cost from which "the row's item is above the column's" is tested next, infinite once it has reached the last
        level; shape (K, K).
      level: how many levels the evidence for that has reached, shape (K, K).
      active: clusters, but for the last, with pairs still to be proven against lower ones; shape (C,).
      critical: the cheapest such pair of each, which is sampled next; shape (C, 2).

    Example:
      >>> jr.EvidenceRank(num_items=3, boundaries=(1,), delta=0.1).init(jax.random.key(0)).tally.pulls.tolist()
      [0, 0, 0]
    """

    rounds: Int[Array, "*T"]
    tally: Tally
    priority: Int[Array, "K *T"]
    rank: Int[Array, "K *T"]
    cost: Float[Array, "K K *T"]
    due: Float[Array, "K K *T"]
    level: Integer[Array, "K K *T"]
    active: Bool[Array, "C *T"]
    critical: Int[Array, "C 2 *T"]


@pytree_dataclass
class EvidenceRank(CriticalItems[EvidenceRankState]):
    r"""Coarse ranking by certificates for pairs: the guarantee of `LUCBRank` from fewer samples.

    It stops when every item is proven to be above (by more than -epsilon) every item of a lower cluster, each pair by
    an e-process of its own (`jaxrank.log_evidence`), so that some false statement is proven with probability at most
    delta, under any sampling rule. Samples go, for every cluster, to the pair of it and a lower one that is not proven
    yet and is the cheapest to be wrong about.

    Args:
      num_items: K.
      boundaries: such as `(3, 12)`, or a rule such as `jaxrank.quantiles(5)`.
      delta: probability of a wrong result, at most.
      epsilon: how far, in mean reward, an item may stand on the wrong side of a boundary.
      family: the rewards' family; the default holds for any reward in [0, 1].
      levels: with epsilon = 0, how many thresholds there are. With 2, a pair next to each boundary must reach only the
        lower one, which is best where gaps are even; 1 is best where many items are equal. With nearly as many
        boundaries as items, 1 is used in any case.
      pull: "one" samples one item of each critical pair, more often the one with fewer samples; "both" samples both.
      sample_once: sample an item that is critical for several clusters once, not once for each.
      pulls_per_item: samples of each critical item per round (many raters); the guarantee does not depend on it.

    Example:
      >>> algorithm = jr.EvidenceRank(num_items=4, boundaries=(2,), delta=0.1, epsilon=0.1)
      >>> result = jr.run(jax.random.key(0), algorithm, jr.BernoulliArms(means=[0.1, 0.9, 0.2, 0.8]))
      >>> bool(result.done), sorted(result.order[:2].tolist())
      (True, [1, 3])
    """

    boundaries: tuple[int, ...] = static(converter=as_given)
    family: EvidenceFamily = BERNOULLI
    levels: Literal[1, 2] = static(default=2, converter=checks.one_of("levels", 1, 2))
    pull: Literal["one", "both"] = static(default="one", converter=checks.one_of("pull", "one", "both"))

    def __post_init__(self) -> None:
        """Resolve the boundaries and the number of levels."""
        points = cut_points(self.num_items, self.boundaries)
        set_fields(self, boundaries=points)
        if len(points) >= FIRST_LEVEL_SHARE * (self.num_items - 1):
            set_fields(self, levels=1)  # the lower of two thresholds would be above the single one

    @property
    def takes_any_questions(self) -> bool:
        """Yes: the evidence is valid however the questions were chosen."""
        return True

    def check(self) -> None:
        """See `Algorithm`."""
        rule = "must have exponential supermartingales (jaxrank.EvidenceFamily); use LUCBRank"
        checks.require(isinstance(self.family, EvidenceFamily), "family", rule, type(self.family).__name__)
        super().check()
        checks.inside("epsilon", self.epsilon, 0, self.family.high - max(self.family.low, 0), "[)")

    def check_stops(self, means: Float[ArrayLike, "K"]) -> None:
        """With epsilon = 0, two equal means at a boundary are never told apart."""
        require_gaps(means, self.boundaries, self.epsilon)

    def thresholds(self) -> Float[Array, "L *T"]:
        """Evidence that each level asks for.

        Without a tolerance log((K-1) / delta) with one level. With a tolerance log(M / delta) for both, where M counts
        all pairs of different clusters.
        """
        sizes, count = np.diff((0, *self.boundaries, self.num_items)), len(self.boundaries)
        every = float((sizes.sum() ** 2 - (sizes**2).sum()) // 2)
        nulls = [self.num_items - 1.0]
        if self.levels == 2:
            nulls = [count / FIRST_LEVEL_SHARE, (2 * self.num_items - 3 - count) / (1 - FIRST_LEVEL_SHARE)]
        epsilon, risk = jnp.asarray(self.epsilon, float), log_inverse(jnp.asarray(self.delta, float))
        logs = [jnp.where(epsilon == 0, float(np.log(null)), float(np.log(every))) for null in nulls]
        return jnp.stack([jnp.where(epsilon >= 0, log + risk, jnp.inf) for log in logs])

    @property
    def update_every(self) -> int:
        """See `Algorithm`: rounds between two updates, which test pairs and find the critical ones anew."""
        return max(1, ROUNDS_PER_UPDATE[self.num_items <= MAX_FEW_ITEMS] // self.pulls_per_item)

    @property
    def _weak_boundaries(self) -> list[int]:
        """Boundaries with a weak pair."""
        return weak_boundaries(self.boundaries) if self.levels == 2 else []

    def last_pairs(self) -> list[tuple[int, int, int]]:
        """Pairs that are proven last if all items are sampled alike: two ranks, and the level to reach, all from 0."""
        pairs, weak = [], self._weak_boundaries
        for cut in self.boundaries:
            pairs.append((cut - 1, cut, 0 if cut in weak else self.levels - 1))
            near = [(cut - 2, cut), (cut - 1, cut + 1)] if cut in weak else []
            pairs += [(a, b, 1) for a, b in near if a >= 0 and b < self.num_items]
        return pairs

    @property
    def _tests(self) -> int:
        """Pairs tested in an update."""
        return max(1, self.num_items // (6 if self.num_items <= MAX_FEW_ITEMS else 4))

    @property
    def _width(self) -> int:
        """Questions of a round."""
        return len(self.boundaries) * self.pulls_per_item * (2 if self.pull == "both" else 1)

    def init(self, key: Key[Array, "*T"]) -> EvidenceRankState:
        """See `Algorithm`."""
        answers = Tally.empty((self.num_items, *key.shape))
        priority = prng.permutation(key, self.num_items)
        square, count = (self.num_items, self.num_items, *key.shape), len(self.boundaries)
        return EvidenceRankState(
            rounds=jnp.zeros(key.shape, answers.pulls.dtype),
            tally=answers,
            priority=priority,
            rank=priority,
            cost=jnp.zeros(square, float),
            due=jnp.broadcast_to(self.thresholds()[0] + MIN_OVERHEAD, square),
            level=jnp.zeros(square, jnp.int8),
            active=jnp.ones((count, *key.shape), bool),
            critical=jnp.zeros((count, 2, *key.shape), priority.dtype),
        )

    def ask(self, key: Key[Array, "*T"], state: EvidenceRankState) -> Query:
        """An item of each critical pair, with chances in proportion to the other one's samples, or both."""
        if self.pull == "both":
            return super().ask(key, state)
        pulls = gather(state.tally.pulls, state.critical.reshape(-1, *state.rounds.shape))
        pulls = pulls.reshape(state.critical.shape).astype(state.cost.dtype)
        first = prng.uniform(key, len(self.boundaries)) * (pulls[:, 0] + pulls[:, 1]) < pulls[:, 1]
        return self.questions(state, jnp.where(first, state.critical[:, 0], state.critical[:, 1]), state.active)

    def tell(self, state: EvidenceRankState, query: Query, reward: Float[Array, "B *T"]) -> EvidenceRankState:
        """Count, and every so many rounds test pairs and find the critical ones anew."""
        told, now = self.tell_between_updates(state, query, reward), jnp.any(query.mask, axis=0)
        changed = self._changed(state, query)
        if query.item.shape[0] == self._width:  # what `ask` gave
            now &= (state.rounds % self.update_every == 0) | self.done(state)

        def updated() -> EvidenceRankState:
            costly = self._with_costs(told, changed, now)
            complete = now & (told.rounds > 0)
            return self._with_critical(self._with_tests(costly, complete), complete)

        return jax.lax.cond(now, updated, lambda: told) if now.ndim == 0 else updated()

    def tell_between_updates(
        self, state: EvidenceRankState, query: Query, reward: Float[Array, "B *T"]
    ) -> EvidenceRankState:
        """See `Algorithm`: count."""
        answers, rounds, _ = self.count(state, query, reward)
        return state._replace(tally=answers, rounds=rounds)

    def _changed(self, state: EvidenceRankState, query: Query) -> Int[Array, "n *T"]:
        """Items with answers since the last update: the critical ones, at first those asked about, or any."""
        critical = state.critical.reshape(-1, *state.rounds.shape)
        width = max(self._width, critical.shape[0])
        if query.item.shape[0] != self._width or width >= self.num_items:
            return row_indices(state.rank.shape, critical.dtype)
        asked, critical = (items[np.arange(width) % items.shape[0]] for items in (query.item, critical))
        return jnp.where((state.rounds == 0)[None], asked, critical)

    def with_tally(self, state: EvidenceRankState, tally: Tally) -> EvidenceRankState:
        """See `Algorithm`: pairs that were proven stay proven; all others are tested."""
        rounds = self.rounds_with(state, tally)
        state = state._replace(tally=tally, rounds=rounds)
        everyone, complete = row_indices(state.rank.shape, state.rank.dtype), rounds > 0
        state = self._with_costs(state, everyone, jnp.ones_like(complete))
        needed = jnp.stack([expand_items(expand_items(threshold)) for threshold in self.thresholds()])
        needed = needed.reshape(self.levels, *(needed.shape[1:] or [1] * state.cost.ndim))
        reached = (self._evidence_of_all(state) >= needed) & complete[None, None, None]
        level = jnp.maximum(jnp.sum(jnp.cumprod(reached, axis=0), axis=0, dtype=state.level.dtype), state.level)
        first, last = (expand_items(expand_items(self.thresholds()[place])) for place in (0, -1))
        due = jnp.where(level == 0, first, last) + MIN_OVERHEAD
        state = state._replace(level=level, due=jnp.where(level == self.levels, jnp.inf, due))
        return self._with_critical(state, complete)

    def _with_costs(self, state: EvidenceRankState, changed: Int[Array, "n *T"], now) -> EvidenceRankState:
        """Ranks, and costs computed anew for all pairs of the changed items."""
        rank = jnp.where(now[None], ranks.ranks(state.tally.means, state.priority), state.rank)
        costs = transport_costs(state.tally, rank, changed, self.epsilon, self.family)
        if changed.shape[0] == self.num_items:
            return state._replace(rank=rank, cost=jnp.where(now[None, None], costs, state.cost))
        changed = jnp.where(now[None], changed, self.num_items)
        return state._replace(rank=rank, cost=set_pairs(state.cost, changed, costs))

    def _with_tests(self, state: EvidenceRankState, now: Bool[Array, "*T"]) -> EvidenceRankState:
        """A bounded number of pairs are tested, those longest overdue, at most one for each upper item."""
        cluster = ranks.cluster_of_rank(state.rank, self.boundaries)
        pairs = Pairs(state.cost, state.due, state.level)
        setting = self.thresholds(), self.epsilon, self.family
        due, level = test_pairs(pairs, state.tally, cluster, *setting, self._tests, now)
        return state._replace(due=due, level=level)

    def _with_critical(self, state: EvidenceRankState, now: Bool[Array, "*T"]) -> EvidenceRankState:
        """For every cluster whether it has pairs to prove, and the one that is the cheapest to be wrong about."""
        exact = jnp.asarray(self.epsilon, state.cost.dtype) == 0
        strong_factor = jnp.where(exact & (self.levels == 2), STRONG_PAIR_DISCOUNT, jnp.ones((), state.cost.dtype))
        pairs = Pairs(state.cost, state.due, state.level)
        order = state.rank, state.priority, self.boundaries, self._weak_boundaries
        active, critical = critical_pairs(pairs, state.tally.pulls, *order, self.levels, strong_factor)
        return state._replace(
            active=jnp.where(now[None], active, state.active),
            critical=jnp.where(now[None, None], critical, state.critical),
        )

    def clusters(self, state: EvidenceRankState) -> Int[Array, "K *T"]:
        """The cluster, from 0, in which every item stands now."""
        return ranks.cluster_of_rank(ranks.ranks(state.tally.means, state.priority), self.boundaries)

    def _evidence_of_all(self, state: EvidenceRankState) -> Float[Array, "L K K *T"]:
        means, pulls = state.tally.means, state.tally.pulls
        shape = (self.levels, *state.cost.shape)
        (mean_a, pulls_a), (mean_b, pulls_b) = (
            [jnp.broadcast_to(jnp.expand_dims(table, axis)[None], shape) for table in (means, pulls)] for axis in (1, 0)
        )
        level = 1 + jax.lax.broadcasted_iota(pulls.dtype, (self.levels, *[1] * state.cost.ndim), 0)
        epsilon = jnp.asarray(self.epsilon, means.dtype)
        epsilon = epsilon if epsilon.ndim == 0 else epsilon[None, None, None]
        return log_evidence(mean_a, pulls_a, mean_b, pulls_b, epsilon, level, self.family)

    @compiled
    def certificate(self, state: EvidenceRankState) -> Certificate:
        """What is proven so far, at what evidence, and what the rest will take."""
        everyone = row_indices(state.rank.shape, state.rank.dtype)
        state = self._with_costs(state, everyone, jnp.ones(state.rounds.shape, bool))
        evidence, trials = self._evidence_of_all(state), state.rounds.shape
        thresholds = self.thresholds()
        thresholds = thresholds.reshape(self.levels, *(thresholds.shape[1:] or [1] * len(trials)))
        cluster, weak = self.clusters(state), is_weak(state.rank, self._weak_boundaries)
        needed, thresholds = cluster[:, None] < cluster[None], jnp.broadcast_to(thresholds, (self.levels, *trials))
        return certificate_of(state.tally.pulls, state.cost, state.level, needed, weak, evidence, thresholds)
