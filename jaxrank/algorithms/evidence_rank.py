"""EvidenceRank: a proof for every pair of items from different clusters, and samples where proof is hardest."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxrank.algorithms._critical_items import about_critical
from jaxrank.core import checks, ranks, tally
from jaxrank.core.batch_axis import argmax_rows, expand_items, gather, row_indices, set_entry, set_pairs, set_rows
from jaxrank.core.boundaries import Boundaries, cut_points, require_gaps
from jaxrank.core.prng import permutation
from jaxrank.core.protocol import Number, Query
from jaxrank.core.pytrees import leaf, pytree_dataclass, static
from jaxrank.core.tally import Tally
from jaxrank.stats.evidence import log_evidence, transport_costs
from jaxrank.stats.families import Bernoulli, Family
from jaxrank.stats.numerics import TIE, log

PULLS_BETWEEN_TESTS = 32
"""Pulls of a critical item between two tests of the pairs: a test costs as much as several rounds."""
MIN_EVIDENCE_LAG = 2.0
"""By how much, at least, the evidence for a pair is behind its cost: the mixture's price."""
RETEST_SHARE = 0.8
"""Share of the evidence still missing by which a pair's cost must grow before it is tested again."""


class EvidenceRankState(NamedTuple):
    """Where a run stands."""

    rounds: Int[Array, "*T"]
    """0 until every item was sampled once, then 1, 2, ..."""
    tally: Tally
    priority: Int[Array, "K *T"]
    """A random permutation that breaks ties, drawn once per trial."""
    rank: Int[Array, "K *T"]
    """Rank of every item by its empirical mean, from 0, best first, when the pairs were last looked at."""
    cost: Float[Array, "K K *T"]
    """Transport cost of every pair: the log-likelihood that is lost if the two were in the wrong order."""
    due: Float[Array, "K K *T"]
    """Cost from which "the row's item is above the column's" is tested next; infinite once that is proven, for good."""
    active: Bool[Array, "C *T"]
    """Clusters, but for the last, with pairs still to be proven against lower ones."""
    critical: Int[Array, "C 2 *T"]
    """The cheapest such pair of each, which is sampled next."""

    @property
    def proven(self) -> Bool[Array, "K K *T"]:
        """Whether the row's item is proven to be above the column's."""
        return jnp.isinf(self.due)


class Certificate(NamedTuple):
    """What is proven and what is not, pair by pair; entry (a, b) is about "item a is above item b"."""

    needed: Bool[Array, "K K *T"]
    """Pairs of different clusters as they stand now: all must be proven."""
    proven: Bool[Array, "K K *T"]
    log_evidence: Float[Array, "K K *T"]
    """Now; it may have been larger when the pair was proven."""
    threshold: Float[Array, "*T"]
    """Evidence that proves a pair, log(M / delta)."""
    more_samples: Float[Array, "K K *T"]
    """Samples of the two items that a needed pair will still take, roughly: at the rate at which its cost has grown."""


@pytree_dataclass
class EvidenceRank:
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
    """

    num_items: int = static()
    boundaries: tuple[int, ...] = static()
    delta: Number = leaf(0)
    epsilon: Number = leaf(0)
    family: Family
    sample_once: bool = static()
    pulls_per_item: int = static()

    asks_pairs = False

    def __init__(
        self,
        *,
        num_items: int,
        boundaries: Boundaries,
        delta: Number,
        epsilon: Number = 0.0,
        family: Family | None = None,
        sample_once: bool = False,
        pulls_per_item: int = 1,
    ):
        fields = {
            "num_items": checks.whole("num_items", num_items, low=2),
            "boundaries": cut_points(num_items, boundaries),
            "delta": checks.real(delta),
            "epsilon": checks.real(epsilon),
            "family": Bernoulli() if family is None else family,
            "sample_once": bool(sample_once),
            "pulls_per_item": checks.whole("pulls_per_item", pulls_per_item, low=1),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def check(self) -> None:
        """See `Algorithm`."""
        checks.inside("delta", self.delta, 0, 1, closed=(False, False))
        checks.inside("epsilon", self.epsilon, 0, 1, closed=(True, False))
        rule = "must be Bernoulli (any rewards in [0, 1]): EvidenceRank has no evidence for others; use LUCBRank"
        checks.require(isinstance(self.family, Bernoulli), "family", rule, type(self.family).__name__)

    def check_stops(self, means) -> None:
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

    def init(self, key) -> EvidenceRankState:
        """See `Algorithm`."""
        answers = tally.empty((self.num_items, *key.shape))
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

    def ask(self, key, state) -> Query:
        """Both items of every cluster's critical pair; before the first round, items never sampled."""
        del key
        return about_critical(state, self.pulls_per_item, self.sample_once)

    def tell(self, state, query, reward) -> EvidenceRankState:
        """Count; now and then update ranks and costs, test pairs, and find the critical pairs anew."""
        answers = tally.add(state.tally, query, reward, self.family.low, self.family.high)
        asked = jnp.any(query.mask, axis=0)
        opening = jnp.any(answers.pulls == 0, axis=0)
        rounds = jnp.where(opening, 0, state.rounds + asked.astype(state.rounds.dtype))
        state = state._replace(tally=answers, rounds=rounds)
        # Rounds 1, 1 + q, 1 + 2q, ...: in between the same pairs are sampled.
        now = asked & (rounds > 0) & ((rounds - 1) % self._cycle == 0)
        if self._cycle == 1:
            return self._update_pairs(state, now)
        return jax.lax.cond(jnp.any(now), lambda: self._update_pairs(state, now), lambda: state)

    @property
    def _cycle(self) -> int:
        """Rounds between two updates of the pairs, of which there are K^2: an update costs as much as many rounds."""
        return max(1, self.num_items // 25)

    def _update_pairs(self, state: EvidenceRankState, now) -> EvidenceRankState:
        """The state with everything but the answers brought up to date, in the trials marked by `now`."""
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
        critical, first = state.critical.reshape(-1, *state.rounds.shape), now & (state.rounds == 1)
        some = follow((state.rank, state.cost), critical, now & ~first)
        # Skipped where no trial is in its first round; the others keep what they have, whoever is in the batch.
        rank, cost = jax.lax.cond(jnp.any(first), lambda: follow(some, everyone, first), lambda: some)
        cluster = ranks.cluster_of_rank(rank, self.boundaries)
        pause = self._cycle * max(1, PULLS_BETWEEN_TESTS // (self._cycle * self.pulls_per_item))
        test = now & ((state.rounds - 1) % pause == 0)
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

    def done(self, state):
        """See `Algorithm`."""
        return (state.rounds > 0) & ~jnp.any(state.active, axis=0)

    def order(self, state):
        """By empirical means."""
        rank = ranks.ranks(state.tally.means, state.priority)
        return jnp.argsort(rank, axis=0).astype(rank.dtype)

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
