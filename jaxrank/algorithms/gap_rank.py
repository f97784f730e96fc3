"""GapRank: finds the boundaries by itself, where the gaps between items are widest."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key
from numpy.typing import ArrayLike

from jaxrank.algorithms._critical_items import ByConfidenceBounds
from jaxrank.core import checks, ranks
from jaxrank.core.batch_axis import gather, row_indices
from jaxrank.core.compiled import compiled
from jaxrank.core.prng import permutation
from jaxrank.core.protocol import Query
from jaxrank.core.pytrees import pytree_dataclass, set_fields, static
from jaxrank.core.tally import Tally
from jaxrank.stats import gaps
from jaxrank.stats.families import Bernoulli
from jaxrank.stats.gaps import Clusters, Limits, Sizes
from jaxrank.stats.numerics import TIE
from jaxrank.stats.sequences import ConfidenceSequence, Design, ExplorationRate, Mixture
from jaxrank.stats.tracked_bounds import Bounds, no_bounds

DEFAULT_CONFIDENCE = Mixture()
"""The confidence sequence where none is given and rewards lie in [0, 1]."""


class GapRankState(NamedTuple):
    """Where a run of `GapRank` stands.

    Attributes:
      rounds: 0 until every item was sampled once, then 1, 2, ...
      tally: all answers so far.
      priority: a random permutation that breaks ties, drawn once per trial, shape (K,).
      bounds: confidence bounds of all items, `lower` and `upper`, shape (K,), and their `threshold`.
      leader: the clustering with the largest lower bound on its average gap, and that bound.
      rival: of all others, the one that may exceed the leader by most; its value only serves to compare the two.
      active: boundaries still sampled, first the leader's, then the rival's; shape (D,).
      critical: the two items whose bounds limit what is known of each boundary's gap, shape (D, 2).

    Example:
      >>> state = jr.GapRank(num_items=3, num_clusters=2, delta=0.1).init(jax.random.key(0))
      >>> int(state.rounds), state.tally.pulls.tolist()
      (0, [0, 0, 0])
    """

    rounds: Int[Array, "*T"]
    tally: Tally
    priority: Int[Array, "K *T"]
    bounds: Bounds
    leader: Clusters
    rival: Clusters
    active: Bool[Array, "D *T"]
    critical: Int[Array, "D 2 *T"]


class Clustering(NamedTuple):
    """What is known of where the widest gaps are.

    Attributes:
      boundaries: the best clustering so far, as ranks after which a cluster ends, shape (C,), padded with K.
      certified: whether it holds with the guarantee.
      gap_lower: lower bound on the gap at each of its boundaries, shape (C,): at 0 or below, its two sides are not told
        apart.
      gap_upper: upper bound on the same, shape (C,).
      average_lower: lower bound on its average gap.
      rival: the clustering that comes closest, shape (C,).
      rival_upper: how wide the rival's gaps may be on average; -inf if no other clustering is allowed.
      possible: for every rank but the last, whether the best clustering may have a boundary after it, shape (K-1,).
      ambiguous: whether another clustering may be better, even if by less than epsilon, or two clusters are not told
        apart.

    Example:
      >>> algorithm = jr.GapRank(num_items=3, num_clusters=2, delta=0.1)
      >>> found = algorithm.clustering(algorithm.init(jax.random.key(0)))
      >>> bool(found.certified), found.possible.tolist()  # nothing is known yet
      (False, [True, True])
    """

    boundaries: Int[Array, "C *T"]
    certified: Bool[Array, "*T"]
    gap_lower: Float[Array, "C *T"]
    gap_upper: Float[Array, "C *T"]
    average_lower: Float[Array, "*T"]
    rival: Int[Array, "C *T"]
    rival_upper: Float[Array, "*T"]
    possible: Bool[Array, "k *T"]
    ambiguous: Bool[Array, "*T"]


@pytree_dataclass
class GapRank(ByConfidenceBounds[GapRankState]):
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

    Example:
      >>> arms = jr.BernoulliArms(means=[0.9, 0.85, 0.2, 0.15])
      >>> algorithm = jr.GapRank(num_items=4, num_clusters=2, delta=0.1)
      >>> jr.run(jax.random.key(0), algorithm, arms).found_boundaries.tolist()
      [2]
    """

    num_clusters: int | None = static(default=None)
    smallest: Sizes = static(default=1)
    largest: Sizes | None = static(default=None)
    confidence: ConfidenceSequence = DEFAULT_CONFIDENCE

    def __post_init__(self) -> None:
        """Check the limits, and choose the confidence sequence for the family."""
        gaps.limits(self.num_items, self.num_clusters, self.smallest, self.largest)
        sizes = {name: gaps.plain(getattr(self, name)) for name in ("num_clusters", "smallest", "largest")}
        set_fields(self, **sizes)
        if self.confidence is DEFAULT_CONFIDENCE and not isinstance(self.family, Bernoulli):
            set_fields(self, confidence=ExplorationRate())

    @property
    def limits(self) -> Limits:
        """Which clusterings are allowed."""
        return gaps.limits(self.num_items, self.num_clusters, self.smallest, self.largest)

    @property
    def design(self) -> Design:
        """What the confidence sequence needs to know: in a round an item may be sampled for every boundary."""
        pulls = self.pulls_per_item * (1 if self.sample_once else 2 * self.limits.most)
        return Design(self.num_items, 2 * self.limits.most, pulls, single_pulls=pulls == 1)

    def check_stops(self, means: Float[ArrayLike, "K"]) -> None:
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

    def init(self, key: Key[Array, "*T"]) -> GapRankState:
        """See `Algorithm`."""
        answers = Tally.empty((self.num_items, *key.shape))
        rounds = jnp.zeros(key.shape, answers.pulls.dtype)
        bounds = no_bounds(answers.sums, self.family, self.threshold(answers, rounds))
        return self._state_from_bounds(rounds, answers, permutation(key, self.num_items), bounds)

    def tell(self, state: GapRankState, query: Query, reward: Float[Array, "B *T"]) -> GapRankState:
        """Bound all gaps anew, find the leader and its rival, and what to sample to tell them apart."""
        answers, rounds, asked = self.count(state, query, reward)
        if query.item.shape[0] > 4 * self.limits.most * self.pulls_per_item:
            bounds = self.bounds_by_bisection(answers, rounds)
        else:
            everyone = row_indices(answers.pulls.shape, query.item.dtype)
            bounds = self.next_bounds(state.bounds, answers, rounds, asked, everyone)
        return self._state_from_bounds(rounds, answers, state.priority, bounds)

    def with_tally(self, state: GapRankState, tally: Tally) -> GapRankState:
        """See `Algorithm`."""
        if not self.takes_any_questions:
            return super().with_tally(state, tally)
        rounds = self.rounds_with(state, tally)
        bounds = self.bounds_by_bisection(tally, rounds)
        return self._state_from_bounds(rounds, tally, state.priority, bounds)

    def _state_from_bounds(self, rounds, answers: Tally, priority, bounds: Bounds) -> GapRankState:
        """Leader and rival by these bounds, and what to sample to tell them apart."""
        lower, upper = (
            gather(bound, ranks.order_of(ranks.ranks(bound, priority))) for bound in (bounds.lower, bounds.upper)
        )
        lowest, highest = gaps.gap_bounds(lower, upper)
        leader = gaps.best_clustering(lowest, self.limits)
        leader = leader._replace(value=gaps.average_gap(lowest, leader.boundaries))
        rival = gaps.best_rival(lowest, highest, self.limits, leader.boundaries)
        apart = gaps.gaps_at(lowest, leader.boundaries) > 0
        decided = leader.value >= rival.value - jnp.asarray(self.epsilon, lowest.dtype)
        # Within the tolerance another clustering may still be better, and be separated where this one is not.
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

    def found_boundaries(self, state: GapRankState) -> Int[Array, "C *T"]:
        """See `Algorithm`."""
        return state.leader.boundaries

    def best_boundaries(self, means: Float[ArrayLike, "K"]) -> tuple[int, ...]:
        """The boundaries to be found on items with these true means."""
        step = jnp.asarray(np.diff(np.sort(-np.asarray(means))), float)
        return tuple(int(cut) for cut in gaps.best_clustering(step, self.limits).boundaries if cut < self.num_items)

    def clusters(self, state: GapRankState) -> Int[Array, "K *T"]:
        """The cluster, from 0, in which every item stands now."""
        rank = ranks.ranks(state.tally.means, state.priority)
        return jnp.sum(state.leader.boundaries[:, None] <= rank[None], axis=0, dtype=rank.dtype)

    @compiled
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
