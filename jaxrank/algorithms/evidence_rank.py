"""EvidenceRank: a proof for every pair of items from different clusters, and samples where proof is hardest."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key
from numpy.typing import ArrayLike

from jaxrank.algorithms._critical_items import CriticalItems
from jaxrank.core import checks, ranks
from jaxrank.core.batch_axis import argmax_rows, expand_items, gather, row_indices, set_entry, set_pairs, set_rows
from jaxrank.core.boundaries import as_given, cut_points, require_gaps
from jaxrank.core.prng import permutation
from jaxrank.core.protocol import Query
from jaxrank.core.pytrees import pytree_dataclass, set_fields, static
from jaxrank.core.tally import Tally
from jaxrank.stats.evidence import log_evidence, transport_costs
from jaxrank.stats.families import Bernoulli
from jaxrank.stats.numerics import TIE, log

PULLS_BETWEEN_TESTS = 32
"""Pulls of a critical item between two tests of the pairs: a test costs as much as several rounds."""
MIN_EVIDENCE_LAG = 2.0
"""By how much, at least, the evidence for a pair is behind its cost: the mixture's price."""
RETEST_SHARE = 0.8
"""Share of the evidence still missing by which a pair's cost must grow before it is tested again."""


class EvidenceRankState(NamedTuple):
    """Where a run of `EvidenceRank` stands.

    Attributes:
      rounds: 0 until every item was sampled once, then 1, 2, ...
      tally: all answers so far.
      priority: a random permutation that breaks ties, drawn once per trial, shape (K,).
      rank: rank of every item by its empirical mean, from 0, best first, when the pairs were last updated; shape (K,).
      cost: transport cost of every pair, shape (K, K): the log-likelihood lost if the two were in the wrong order.
      due: cost from which "the row's item is above the column's" is tested next, shape (K, K); infinite once proven.
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
    active: Bool[Array, "C *T"]
    critical: Int[Array, "C 2 *T"]

    @property
    def proven(self) -> Bool[Array, "K K *T"]:
        """Whether the row's item is proven to be above the column's."""
        return jnp.isinf(self.due)


class Certificate(NamedTuple):
    """What is proven and what is not, pair by pair; entry (a, b) is about "item a is above item b".

    Attributes:
      needed: pairs of different clusters as they stand now, all of which must be proven; shape (K, K).
      proven: pairs that are proven, shape (K, K).
      log_evidence: evidence now, shape (K, K); it may have been larger when the pair was proven.
      threshold: evidence that proves a pair, log(M / delta).
      more_samples: estimate of the samples of the two items that a needed pair will still take, shape (K, K).

    Example:
      >>> algorithm = jr.EvidenceRank(num_items=3, boundaries=(1,), delta=0.1)
      >>> certificate = algorithm.certificate(algorithm.init(jax.random.key(0)))
      >>> int(certificate.needed.sum()), int(certificate.proven.sum())
      (2, 0)
    """

    needed: Bool[Array, "K K *T"]
    proven: Bool[Array, "K K *T"]
    log_evidence: Float[Array, "K K *T"]
    threshold: Float[Array, "*T"]
    more_samples: Float[Array, "K K *T"]


@pytree_dataclass
class EvidenceRank(CriticalItems[EvidenceRankState]):
    r"""Coarse ranking by certificates for pairs: the guarantee of `LUCBRank` from fewer samples.

    It stops when every item is proven to be above (by more than -epsilon) every item of a lower cluster, each pair by
    an e-process of its own (`jaxrank.evidence`). If clusters of the right sizes are wrong, some pair from adjacent true
    clusters stands the wrong way round, so a union bound over these $M = \sum_i n_i n_{i+1}$ pairs keeps the risk below
    delta, under any sampling rule. Samples go, for every cluster, to the pair of it and a lower one that is not proven
    yet and is the cheapest to be wrong about.

    Args:
      num_items: K.
      boundaries: such as `(3, 12)`, or a rule such as `jaxrank.quantiles(5)`.
      delta: probability of a wrong result, at most.
      epsilon: how far, in mean reward, an item may stand on the wrong side of a boundary.
      family: the rewards' family; only Bernoulli, which holds for any reward in [0, 1].
      sample_once: sample an item that is critical for several clusters once, not once for each.
      pulls_per_item: samples of each critical item per round (many raters); the guarantee does not depend on it.

    Example:
      >>> algorithm = jr.EvidenceRank(num_items=4, boundaries=(2,), delta=0.1, epsilon=0.1)
      >>> result = jr.run(jax.random.key(0), algorithm, jr.BernoulliArms(means=[0.1, 0.9, 0.2, 0.8]))
      >>> bool(result.done), sorted(result.order[:2].tolist())
      (True, [1, 3])
    """

    boundaries: tuple[int, ...] = static(converter=as_given)

    def __post_init__(self) -> None:
        """Resolve the boundaries."""
        set_fields(self, boundaries=cut_points(self.num_items, self.boundaries))

    @property
    def takes_any_questions(self) -> bool:
        """Yes: the evidence is valid however the questions were chosen."""
        return True

    def check(self) -> None:
        """See `Algorithm`."""
        checks.probability("delta", self.delta)
        checks.inside("epsilon", self.epsilon, 0, 1, "[)")
        rule = "must be Bernoulli (any rewards in [0, 1]): EvidenceRank has no evidence for others; use LUCBRank"
        checks.require(isinstance(self.family, Bernoulli), "family", rule, type(self.family).__name__)

    def check_stops(self, means: Float[ArrayLike, "K"]) -> None:
        """With epsilon = 0, two equal means at a boundary are never told apart."""
        require_gaps(means, self.boundaries, self.epsilon)

    def threshold(self) -> Float[Array, "*T"]:
        """Evidence that proves a pair, log(M / delta)."""
        sizes = np.diff((0, *self.boundaries, self.num_items))
        adjacent = int((sizes[:-1] * sizes[1:]).sum())
        every = int((sizes.sum() ** 2 - (sizes**2).sum()) // 2)
        # With a tolerance, an inverted pair need not be one of adjacent clusters.
        pairs = jnp.where(jnp.asarray(self.epsilon, float) > 0, float(every), float(adjacent))
        return log(pairs / jnp.asarray(self.delta, float))

    def init(self, key: Key[Array, "*T"]) -> EvidenceRankState:
        """See `Algorithm`."""
        answers = Tally.empty((self.num_items, *key.shape))
        priority = permutation(key, self.num_items)
        square, count = (self.num_items, self.num_items, *key.shape), len(self.boundaries)
        return EvidenceRankState(
            rounds=jnp.zeros(key.shape, answers.pulls.dtype),
            tally=answers,
            priority=priority,
            rank=priority,
            cost=jnp.zeros(square, float),
            due=jnp.broadcast_to(self.threshold() + MIN_EVIDENCE_LAG, square),
            active=jnp.ones((count, *key.shape), bool),
            critical=jnp.zeros((count, 2, *key.shape), priority.dtype),
        )

    def tell(self, state: EvidenceRankState, query: Query, reward: Float[Array, "B *T"]) -> EvidenceRankState:
        """Count; now and then update ranks and costs, test pairs, and find the critical pairs anew."""
        answers, rounds, asked = self.count(state, query, reward)
        # Answers about other items than the critical ones: the costs of all pairs are computed anew.
        critical = state.critical.reshape(-1, *state.rounds.shape)
        own = jnp.any(query.item[:, None] == critical[None], axis=1)
        foreign = jnp.any(query.mask & ~own, axis=0) & (state.rounds > 0)
        state = state._replace(tally=answers, rounds=rounds)
        # Rounds 1, 1 + q, 1 + 2q, ...: in between the same pairs are sampled.
        now = asked & (rounds > 0) & (((rounds - 1) % self._cycle == 0) | foreign)
        if self._cycle == 1:
            return self._update_pairs(state, now, foreign)
        return jax.lax.cond(jnp.any(now), lambda: self._update_pairs(state, now, foreign), lambda: state)

    def with_tally(self, state: EvidenceRankState, tally: Tally) -> EvidenceRankState:
        """See `Algorithm`: pairs that were proven stay proven."""
        due = jnp.where(state.proven, jnp.inf, self.threshold() + MIN_EVIDENCE_LAG)
        state = state._replace(tally=tally, rounds=self.rounds_with(state, tally), due=due)
        complete = state.rounds > 0
        return self._update_pairs(state, complete, complete)

    @property
    def _cycle(self) -> int:
        """Rounds between two updates of the pairs, of which there are K^2: an update costs as much as many rounds."""
        return max(1, self.num_items // 25)

    def _update_pairs(self, state: EvidenceRankState, now, foreign) -> EvidenceRankState:
        """The state with everything but the answers brought up to date, in the trials marked by `now`.

        Trials marked by `foreign` have answers about items that are not critical.
        """
        answers = state.tally

        def follow(before, changed, where):
            rank = ranks.updated_ranks(before[0], answers.means, state.priority, changed)
            rank = jnp.where(where[None], rank, before[0])
            # Behind a condition the costs are worked out once; else XLA does so for every pair they are written to.
            fresh = jax.lax.cond(
                jnp.any(where),
                lambda: transport_costs(answers, rank, changed, self.epsilon, self.family),
                lambda: jnp.zeros((changed.shape[0], *rank.shape), state.cost.dtype),
            )
            return rank, set_pairs(before[1], jnp.where(where[None], changed, self.num_items), fresh)

        everyone = row_indices(state.rank.shape, state.critical.dtype)
        critical, first = state.critical.reshape(-1, *state.rounds.shape), now & ((state.rounds == 1) | foreign)
        some = follow((state.rank, state.cost), critical, now & ~first)
        # Skipped where no trial needs all its pairs; the others keep what they have, whoever is in the batch.
        rank, cost = jax.lax.cond(jnp.any(first), lambda: follow(some, everyone, first), lambda: some)
        cluster = ranks.cluster_of_rank(rank, self.boundaries)
        pause = self._cycle * max(1, PULLS_BETWEEN_TESTS // (self._cycle * self.pulls_per_item))
        test = now & (((state.rounds - 1) % pause == 0) | foreign)
        due = jax.lax.cond(
            jnp.any(test), lambda: self._test_pairs(answers, cluster, cost, state.due, test), lambda: state.due
        )
        active, critical = self._critical(answers, cluster, cost, due, state.priority)
        return state._replace(
            rank=rank,
            cost=cost,
            due=due,
            active=jnp.where(now[None], active, state.active),
            critical=jnp.where(now[None, None], critical, state.critical),
        )

    def _test_pairs(self, answers: Tally, cluster, cost, due, now) -> Float[Array, "K K *T"]:
        """When to test each pair next, after testing all that may have become provable, one at a time."""
        means, pulls = answers.means, answers.pulls
        threshold, epsilon = expand_items(self.threshold()), expand_items(jnp.asarray(self.epsilon, means.dtype))
        everyone = row_indices(cluster.shape, cluster.dtype)

        def lead(row_cluster, row_cost, row_due, cluster, now):
            """By how much a pair's test is overdue, -1 if it is not due."""
            return jnp.where((row_cluster < cluster) & (row_cost >= row_due) & now, row_cost - row_due, -1)

        def test(carry):
            due, most = carry
            a, waiting = argmax_rows(most), jnp.max(most, axis=0)[None] >= 0
            costs, dues = (gather(table, jnp.broadcast_to(a, everyone.shape), everyone) for table in (cost, due))
            ahead = lead(gather(cluster, a), costs, dues, cluster, now[None])
            b = argmax_rows(ahead)
            # A trial without a pair to test needs nothing, and is done with at once.
            needed = jnp.where(waiting, threshold, jnp.inf)
            missing = threshold - log_evidence(
                gather(means, a), gather(pulls, a), gather(means, b), gather(pulls, b), epsilon, needed
            )
            later = gather(cost, a, b) + jnp.maximum(RETEST_SHARE * missing, 0.05)
            later = jnp.where(missing <= 0, jnp.inf, later)
            due = set_entry(due, a, b, jnp.where(waiting, later, gather(due, a, b)))
            return due, set_rows(most, a, jnp.max(jnp.where(everyone == b, -1, ahead), axis=0)[None])

        most = jnp.max(lead(cluster[:, None], cost, due, cluster[None], now[None, None]), axis=1)
        return jax.lax.while_loop(lambda carry: jnp.any(carry[1] >= 0), test, (due, most))[0]

    def _critical(self, answers: Tally, cluster, cost, due, priority):
        """For every cluster whether it has pairs to prove, and the one that is the cheapest to be wrong about."""
        bonus = log(jnp.maximum(answers.pulls, 1).astype(cost.dtype))
        everyone = row_indices(cluster.shape, cluster.dtype)

        def price(row_cost, row_due, row_cluster, row_bonus, cluster=cluster, bonus=bonus):
            open_pair = (row_cluster < cluster) & (row_due < jnp.inf)
            return jnp.where(open_pair, row_cost + (row_bonus + bonus), jnp.inf)

        best = jnp.min(price(cost, due, cluster[:, None], bonus[:, None], cluster[None], bonus[None]), axis=1)
        active, pairs = [], []
        for number in range(len(self.boundaries)):
            mine = jnp.where(cluster == number, best, jnp.inf)
            least = jnp.min(mine, axis=0)
            nearly = (1 + TIE[cost.dtype.itemsize]) * least[None]
            a = ranks.first((mine <= nearly)[None], priority)
            costs, dues = (gather(table, jnp.broadcast_to(a, everyone.shape), everyone) for table in (cost, due))
            prices = price(costs, dues, gather(cluster, a), gather(bonus, a))
            b = ranks.first((prices <= nearly)[None], priority)
            active.append(jnp.isfinite(least))
            pairs.append(jnp.concatenate([a, b]))
        return jnp.stack(active), jnp.stack(pairs)

    def clusters(self, state: EvidenceRankState) -> Int[Array, "K *T"]:
        """The cluster, from 0, in which every item stands now."""
        return ranks.cluster_of_rank(ranks.ranks(state.tally.means, state.priority), self.boundaries)

    def certificate(self, state: EvidenceRankState) -> Certificate:
        """What is proven so far, at what evidence, and what the rest will take."""
        cluster, means, pulls = self.clusters(state), state.tally.means, state.tally.pulls
        rank, shape = ranks.ranks(means, state.priority), state.cost.shape
        cost = transport_costs(state.tally, rank, row_indices(rank.shape, rank.dtype), self.epsilon, self.family)
        (mean_a, pulls_a), (mean_b, pulls_b) = (
            [jnp.broadcast_to(jnp.expand_dims(table, axis), shape) for table in (means, pulls)] for axis in (1, 0)
        )
        epsilon = expand_items(expand_items(jnp.asarray(self.epsilon, means.dtype)))
        evidence = log_evidence(mean_a, pulls_a, mean_b, pulls_b, epsilon)
        needed, threshold = cluster[:, None] < cluster[None], self.threshold()
        missing = jnp.where(needed & ~state.proven, jnp.maximum(expand_items(expand_items(threshold)) - evidence, 0), 0)
        rate = cost / jnp.maximum(pulls_a + pulls_b, 1).astype(means.dtype)
        return Certificate(
            needed=needed,
            proven=state.proven,
            log_evidence=evidence,
            threshold=jnp.broadcast_to(threshold, state.rounds.shape),
            more_samples=jnp.where(missing > 0, missing / rate, 0),
        )
