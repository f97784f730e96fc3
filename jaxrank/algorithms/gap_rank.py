"""GapRank: finds the boundaries by itself, where the gaps between items are widest."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxrank.algorithms._critical_items import about_critical
from jaxrank.core import checks, ranks, tally
from jaxrank.core.batch_axis import gather, row_indices, set_rows
from jaxrank.core.prng import permutation
from jaxrank.core.protocol import Number, Query
from jaxrank.core.pytrees import leaf, pytree_dataclass, static
from jaxrank.core.tally import Tally
from jaxrank.stats import gaps
from jaxrank.stats.families import Bernoulli, Family
from jaxrank.stats.gaps import Clusters, Limits, Sizes
from jaxrank.stats.numerics import TIE
from jaxrank.stats.sequences import ConfidenceSequence, Design, ExplorationRate, Mixture
from jaxrank.stats.tracked_bounds import Bounds, no_bounds, tracked_bounds


class GapRankState(NamedTuple):
    """Where a run stands."""

    rounds: Int[Array, "*T"]
    """0 until every item was sampled once, then 1, 2, ..."""
    tally: Tally
    priority: Int[Array, "K *T"]
    """A random permutation that breaks ties, drawn once per trial."""
    bounds: Bounds
    leader: Clusters
    """The clustering with the widest gaps for sure, and how wide they are on average at least."""
    rival: Clusters
    """Among all others the one that may be better by most; its value is for comparison with the leader's only."""
    active: Bool[Array, "D *T"]
    """Boundaries still sampled: first the leader's, then the rival's."""
    critical: Int[Array, "D 2 *T"]
    """The two items whose bounds limit what is known of each boundary's gap."""


class Clustering(NamedTuple):
    """What is known of where the widest gaps are."""

    boundaries: Int[Array, "C *T"]
    """The best clustering so far, as ranks after which a cluster ends; K fills up."""
    certified: Bool[Array, "*T"]
    """Whether it holds with the guarantee."""
    gap_lower: Float[Array, "C *T"]
    """Bounds on the gap at each of its boundaries: at 0 or below, its two sides are not told apart."""
    gap_upper: Float[Array, "C *T"]
    average_lower: Float[Array, "*T"]
    rival: Int[Array, "C *T"]
    """The clustering that comes closest."""
    rival_upper: Float[Array, "*T"]
    """How wide the rival's gaps may be on average; -inf if no other clustering is allowed."""
    possible: Bool[Array, "k *T"]
    """For every rank but the last, whether the best clustering may have a boundary after it."""
    ambiguous: Bool[Array, "*T"]
    """Whether another clustering may be better, even if by less than epsilon, or the clusters are not told apart."""


@pytree_dataclass
class GapRank:
    """Coarse ranking with boundaries that are found, not given: the clustering with the widest gaps.

    It looks for the boundaries, within the limits, at which the gap between neighbouring items is widest on average.
    With probability at least 1 - delta every item is in its true cluster when it stops, and no other clustering within
    the limits has gaps wider by more than epsilon on average. Confidence bounds of all items bound all gaps at once;
    samples go to the boundaries in which the best clustering by lower bounds and the best other one by upper bounds
    differ.

    Args:
      num_items: K.
      num_clusters: how many; if not given, as many as give the widest gaps on average within the limits, which
        without `largest` is two.
      delta: probability of a wrong result, at most.
      epsilon: how much wider, on average, the gaps of another clustering may be. It forgives clusterings that are
        nearly as good, not items on a wrong side.
      smallest, largest: limits on the size of every cluster, or a sequence with one number for each, best first.
      confidence: a confidence sequence; by default `Mixture` for rewards in [0, 1] and the paper's rate for others.
      family: the rewards' family; the default holds for any reward in [0, 1].
      sample_once: sample an item that is critical at several boundaries once, not once per boundary.
      pulls_per_item: samples of each critical item per round (many raters).
    """

    num_items: int = static()
    num_clusters: int | None = static()
    delta: Number = leaf(0)
    epsilon: Number = leaf(0)
    smallest: int | tuple[int, ...] = static()
    largest: int | tuple[int, ...] | None = static()
    confidence: ConfidenceSequence
    family: Family
    sample_once: bool = static()
    pulls_per_item: int = static()

    asks_pairs = False

    def __init__(
        self,
        *,
        num_items: int,
        num_clusters: int | None = None,
        delta: Number,
        epsilon: Number = 0.0,
        smallest: Sizes = 1,
        largest: Sizes | None = None,
        confidence: ConfidenceSequence | None = None,
        family: Family | None = None,
        sample_once: bool = False,
        pulls_per_item: int = 1,
    ):
        family = Bernoulli() if family is None else family
        if confidence is None:
            confidence = Mixture() if isinstance(family, Bernoulli) else ExplorationRate()
        gaps.limits(num_items, num_clusters, smallest, largest)
        fields = {
            "num_items": int(num_items),
            "num_clusters": gaps.plain(num_clusters),
            "delta": checks.real(delta),
            "epsilon": checks.real(epsilon),
            "smallest": gaps.plain(smallest),
            "largest": gaps.plain(largest),
            "confidence": confidence,
            "family": family,
            "sample_once": bool(sample_once),
            "pulls_per_item": checks.whole("pulls_per_item", pulls_per_item, low=1),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def limits(self) -> Limits:
        """Which clusterings are allowed."""
        return gaps.limits(self.num_items, self.num_clusters, self.smallest, self.largest)

    @property
    def design(self) -> Design:
        """What the confidence sequence needs to know: in a round an item may be sampled for every boundary."""
        times = 1 if self.sample_once else 2 * self.limits.most
        return Design(self.num_items, 2 * self.limits.most, times * self.pulls_per_item, sample_once=True)

    def check(self) -> None:
        """See `Algorithm`."""
        checks.inside("delta", self.delta, 0, 1, closed=(False, False))
        checks.inside("epsilon", self.epsilon, 0, float("inf"), closed=(True, False))
        self.confidence.check(self.design, self.family)

    def check_stops(self, means) -> None:
        """Equal items at the best boundaries are never told apart; nor, with epsilon = 0, clusterings equally good."""
        values, tolerance = checks.concrete(means), checks.concrete(self.epsilon)
        if values is None or tolerance is None:
            return
        with jax.ensure_compile_time_eval():
            step = jnp.asarray(np.moveaxis(np.diff(np.sort(-values)), -1, 0), float)
            best = gaps.best_clustering(step, self.limits)
            second = gaps.best_clustering(step, self.limits, best.boundaries)
            apart = bool(jnp.all(gaps.gaps_at(step, best.boundaries) > 1e-6))
            tied = bool(jnp.any((best.value - second.value <= 1e-6) & jnp.asarray(tolerance == 0)))
        checks.require(apart, "max_samples", "must be given where items at the best boundaries are tied", None)
        checks.require(not tied, "epsilon", "must be above 0, or max_samples given, where clusterings are tied", 0)

    def init(self, key) -> GapRankState:
        """See `Algorithm`."""
        answers = tally.empty((self.num_items, *key.shape))
        rounds = jnp.zeros(key.shape, answers.pulls.dtype)
        bounds = no_bounds(answers.sums, self.family, self._threshold(answers, rounds))
        return self._standing(rounds, answers, permutation(key, self.num_items), bounds)

    def ask(self, key, state) -> Query:
        """Both critical items of every active boundary; before the first round, items never sampled."""
        del key
        return about_critical(state, self.pulls_per_item, self.sample_once)

    def tell(self, state, query, reward) -> GapRankState:
        """Bound all gaps anew, find the leader and its rival, and what to sample to tell them apart."""
        answers = tally.add(state.tally, query, reward, self.family.low, self.family.high)
        asked = jnp.any(query.mask, axis=0)
        opening = jnp.any(answers.pulls == 0, axis=0)
        rounds = jnp.where(opening, 0, state.rounds + asked.astype(state.rounds.dtype))
        everyone = row_indices(answers.pulls.shape, query.item.dtype)
        bounds = tracked_bounds(
            state.bounds, answers.means, answers.pulls, self._threshold(answers, rounds), self.family, everyone
        )
        bounds = jax.tree.map(lambda new, old: jnp.where(asked[None], new, old), bounds, state.bounds)
        return self._standing(rounds, answers, state.priority, bounds)

    def _standing(self, rounds, answers: Tally, priority, bounds: Bounds) -> GapRankState:
        """Leader and rival by these bounds, and what to sample to tell them apart."""
        lower, upper = (gather(bound, _sorted(bound, priority)) for bound in (bounds.lower, bounds.upper))
        lowest, highest = gaps.gap_bounds(lower, upper)
        leader = gaps.best_clustering(lowest, self.limits)
        leader = leader._replace(value=gaps.average_gap(lowest, leader.boundaries))
        rival = gaps.best_rival(lowest, highest, self.limits, leader.boundaries)
        apart = gaps.gaps_at(lowest, leader.boundaries) > 0
        decided = leader.value >= rival.value - jnp.asarray(self.epsilon, lowest.dtype)
        # Within the tolerance another clustering may still be better, and have what this one lacks: sides that part.
        decided &= jnp.all(apart, axis=0) | (leader.value >= rival.value)
        # What both have cancels, unless it is a share of two averages of different length.
        alike = gaps.num_boundaries(leader.boundaries, self.num_items) == gaps.num_boundaries(
            rival.boundaries, self.num_items
        )
        mine, others = (
            (cuts.boundaries < self.num_items) & ~(gaps.is_among(cuts.boundaries, rest.boundaries) & alike[None])
            for cuts, rest in ((leader, rival), (rival, leader))
        )
        active = jnp.concatenate([(mine & ~decided[None]) | ~apart, others & ~decided[None]])
        cuts = jnp.concatenate([leader.boundaries, rival.boundaries])
        above = ranks.ranks(answers.means, priority)[None] < cuts[:, None]
        critical = [
            _uncertain(above, -bounds.lower, -bounds.upper, priority),
            _uncertain(~above, bounds.upper, bounds.lower, priority),
        ]
        return GapRankState(
            rounds=rounds,
            tally=answers,
            priority=priority,
            bounds=bounds,
            leader=leader,
            rival=rival,
            active=active | (rounds == 0)[None],
            critical=jnp.stack(critical, axis=1),
        )

    def _threshold(self, answers: Tally, rounds):
        means = answers.means
        delta = jnp.asarray(self.delta, means.dtype)
        return self.confidence.threshold(
            means=means, pulls=answers.pulls, rounds=rounds, delta=delta, design=self.design
        )

    def done(self, state):
        """See `Algorithm`."""
        return (state.rounds > 0) & ~jnp.any(state.active, axis=0)

    def order(self, state):
        """By empirical means."""
        return _sorted(state.tally.means, state.priority)

    def found(self, state) -> Int[Array, "C *T"]:
        """See `Algorithm`."""
        return state.leader.boundaries

    def clusters(self, state: GapRankState) -> Int[Array, "K *T"]:
        """The cluster, from 0, in which every item stands now."""
        rank = ranks.ranks(state.tally.means, state.priority)
        return jnp.sum(state.leader.boundaries[:, None] <= rank[None], axis=0, dtype=rank.dtype)

    def clustering(self, state: GapRankState) -> Clustering:
        """What is known of the widest gaps, and what else is possible."""
        lowest, highest = gaps.gap_bounds(
            *(-jnp.sort(-bound, axis=0) for bound in (state.bounds.lower, state.bounds.upper))
        )
        leader = state.leader
        has = gaps.is_among(row_indices(lowest.shape, int) + 1, leader.boundaries)
        beyond = ~has & (gaps.best_through_each(lowest, highest, self.limits, leader.boundaries) >= leader.value[None])
        gap_lower, rival = gaps.gaps_at(lowest, leader.boundaries), state.rival
        open_end = (rival.value > leader.value) | (state.rounds == 0)
        return Clustering(
            boundaries=leader.boundaries,
            certified=self.done(state),
            gap_lower=gap_lower,
            gap_upper=gaps.gaps_at(highest, leader.boundaries),
            average_lower=leader.value,
            rival=rival.boundaries,
            rival_upper=gaps.average_gap(highest, rival.boundaries),
            possible=has | beyond,
            ambiguous=jnp.any(beyond, axis=0) | jnp.any(gap_lower <= 0, axis=0) | open_end,
        )


def _sorted(scores: Float[Array, "K *T"], priority: Int[Array, "K *T"]) -> Int[Array, "K *T"]:
    """The items, largest score first."""
    rank = ranks.ranks(scores, priority)
    everyone = row_indices(rank.shape, rank.dtype)
    return set_rows(everyone, rank, everyone)


def _uncertain(
    side: Bool[Array, "D K *T"], reach: Float[Array, "K *T"], sure: Float[Array, "K *T"], priority: Int[Array, "K *T"]
) -> Int[Array, "D *T"]:
    """Of the items on one side of each boundary, the one that leaves most open where the nearest mean is.

    Two items limit it: the one that may reach farthest across the boundary, and the one that is closest to it for sure.
    Of these two, the one whose bounds are farther apart.
    """
    tie = TIE[reach.dtype.itemsize]

    def extreme(bound):
        masked = jnp.where(side, bound[None], -jnp.inf)
        most = jnp.max(masked, axis=1, keepdims=True)
        near = jnp.where(jnp.isfinite(most), tie * jnp.abs(most), 0)
        return ranks.first(side & (masked >= most - near), priority)

    farthest, closest = extreme(reach), extreme(sure)
    width, other = (gather(reach - sure, item) for item in (farthest, closest))
    return jnp.where(width >= (1 - tie) * other, farthest, closest)
