"""LUCBRank: Algorithm 1 of Katariya, Jain, Sengupta, Evans and Nowak (AISTATS 2018)."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from jaxrank.algorithms._critical_items import about_critical
from jaxrank.core import checks, ranks, tally
from jaxrank.core.batch_axis import expand_items, row_indices
from jaxrank.core.boundaries import Boundaries, cut_points, require_gaps
from jaxrank.core.prng import permutation
from jaxrank.core.protocol import Number, Query
from jaxrank.core.pytrees import leaf, pytree_dataclass, static
from jaxrank.core.tally import Tally
from jaxrank.stats.families import Bernoulli, Family
from jaxrank.stats.numerics import TIE
from jaxrank.stats.sequences import ConfidenceSequence, Design, ExplorationRate
from jaxrank.stats.tracked_bounds import Bounds, no_bounds, tracked_bounds


class LUCBRankState(NamedTuple):
    """Where a run stands; every field can be read at any time."""

    rounds: Int[Array, "*T"]
    """The paper's t: 0 until every item was sampled once, then 1, 2, ..."""
    tally: Tally
    priority: Int[Array, "K *T"]
    """A random permutation that breaks ties, drawn once per trial."""
    rank: Int[Array, "K *T"]
    """Rank of every item by its empirical mean, from 0, best first."""
    bounds: Bounds
    active: Bool[Array, "C *T"]
    """Boundaries still to be settled: the paper's set C."""
    critical: Int[Array, "C 2 *T"]
    """At each boundary the item above it with the least lower bound, and the one below with the largest upper."""


@pytree_dataclass
class LUCBRank:
    """(epsilon, delta)-PAC coarse ranking by lower and upper confidence bounds.

    In every round it samples, at every active boundary, the two items most likely to stand on the wrong side: the
    one above it with the least lower bound and the one below it with the largest upper bound. A boundary is settled
    once these two bounds overlap by less than epsilon.

    Args:
      num_items: K.
      boundaries: the paper's kappa, such as `(3, 12)`, or a rule such as `jaxrank.quantiles(5)`.
      delta: probability of a wrong result, at most.
      epsilon: how far, in mean reward, an item may stand on the wrong side of a boundary.
      alpha, k1: constants of the paper's exploration rate; see `jaxrank.ExplorationRate`.
      confidence: another confidence sequence in place of the paper's rate.
      family: the rewards' family; the default holds for any reward in [0, 1].
      variant: "literal" never looks again at a settled boundary, as Algorithm 1 is printed. "provable" recomputes
        the active set in every round and stops when all boundaries are settled at once, as the proof assumes.
      sample_once: sample an item that is critical at several boundaries once, not once per boundary.
      pulls_per_item: samples of each critical item per round (many raters); k1 rises to keep the guarantee.
    """

    num_items: int = static()
    boundaries: tuple[int, ...] = static()
    delta: Number = leaf(0)
    epsilon: Number = leaf(0)
    confidence: ConfidenceSequence
    family: Family
    variant: Literal["literal", "provable"] = static()
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
        alpha: Number | None = None,
        k1: Number | None = None,
        confidence: ConfidenceSequence | None = None,
        family: Family | None = None,
        variant: Literal["literal", "provable"] = "literal",
        sample_once: bool = False,
        pulls_per_item: int = 1,
    ):
        if confidence is None:
            rate = {"alpha": alpha, "k1": k1}
            confidence = ExplorationRate(**{name: checks.real(v) for name, v in rate.items() if v is not None})
        elif alpha is not None or k1 is not None:
            raise ValueError("alpha and k1 belong to the paper's rate: give them or confidence, not both")
        checks.require(variant in ("literal", "provable"), "variant", "must be 'literal' or 'provable'", variant)
        fields = {
            "num_items": checks.whole("num_items", num_items, low=2),
            "boundaries": cut_points(num_items, boundaries),
            "delta": checks.real(delta),
            "epsilon": checks.real(epsilon),
            "confidence": confidence,
            "family": Bernoulli() if family is None else family,
            "variant": variant,
            "sample_once": bool(sample_once),
            "pulls_per_item": checks.whole("pulls_per_item", pulls_per_item, low=1),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def design(self) -> Design:
        """What the confidence sequence needs to know of the sampling rule."""
        return Design(self.num_items, len(self.boundaries), self.pulls_per_item, self.sample_once)

    def check(self) -> None:
        """See `Algorithm`."""
        checks.inside("delta", self.delta, 0, 1, closed=(False, False))
        checks.inside("epsilon", self.epsilon, 0, float("inf"), closed=(True, False))
        self.confidence.check(self.design, self.family)

    def check_stops(self, means) -> None:
        """With epsilon = 0, two equal means at a boundary are never told apart."""
        require_gaps(means, self.boundaries, self.epsilon)

    def init(self, key) -> LUCBRankState:
        """See `Algorithm`."""
        answers = tally.empty((self.num_items, *key.shape))
        priority = permutation(key, self.num_items)
        count = len(self.boundaries)
        rounds = jnp.zeros(key.shape, answers.pulls.dtype)
        return LUCBRankState(
            rounds=rounds,
            tally=answers,
            priority=priority,
            rank=priority,
            bounds=no_bounds(answers.sums, self.family, self._threshold(answers, rounds)),
            active=jnp.ones((count, *key.shape), bool),
            critical=jnp.zeros((count, 2, *key.shape), priority.dtype),
        )

    def ask(self, key, state) -> Query:
        """Both critical items of every active boundary; before the first round, items never sampled."""
        del key
        return about_critical(state, self.pulls_per_item, self.sample_once)

    def tell(self, state, query, reward) -> LUCBRankState:
        """Lines 17-25 of Algorithm 1: update, find the critical items anew, settle boundaries."""
        answers = tally.add(state.tally, query, reward, self.family.low, self.family.high)
        means = answers.means
        asked = jnp.any(query.mask, axis=0)
        opening = jnp.any(answers.pulls == 0, axis=0)
        rounds = jnp.where(opening, 0, state.rounds + asked.astype(state.rounds.dtype))
        bounds, rank = self._follow(state, query, answers, self._threshold(answers, rounds))
        bounds = jax.tree.map(lambda new, old: jnp.where(asked[None], new, old), bounds, state.bounds)
        above = ranks.above(rank, self.boundaries)
        low, high = jnp.where(above, bounds.lower[None], jnp.inf), jnp.where(above, -jnp.inf, bounds.upper[None])
        least, most = jnp.min(low, axis=1), jnp.max(high, axis=1)
        overlap = most - least
        # Items with the same answers have the same bounds up to rounding; priority, not rounding, picks among them.
        near = jnp.where(jnp.isfinite(overlap), TIE[means.dtype.itemsize] * jnp.abs(overlap), 0)
        last_above = ranks.first(low <= (least + near)[:, None], state.priority)
        first_below = ranks.first(high >= (most - near)[:, None], state.priority)
        settled = (overlap < expand_items(jnp.asarray(self.epsilon, means.dtype))) & (rounds > 1)[None]
        return LUCBRankState(
            rounds=rounds,
            tally=answers,
            priority=state.priority,
            rank=rank,
            bounds=bounds,
            active=~settled & state.active if self.variant == "literal" else ~settled,
            critical=jnp.stack([last_above, first_below], axis=1),
        )

    def _follow(self, state, query, answers: Tally, threshold):
        """Bounds and ranks after the answers, at the cost of the items whose answers are new."""

        def follow(changed):
            bounds = tracked_bounds(state.bounds, answers.means, answers.pulls, threshold, self.family, changed)
            return bounds, ranks.updated_ranks(state.rank, answers.means, state.priority, changed)

        # Each critical item is asked several times in a row, but every question of an opening round is about another.
        critical = query.item[:: self.pulls_per_item]
        some = follow(critical)
        if self.pulls_per_item == 1:
            return some
        opening = (state.rounds == 0)[None]
        everyone = row_indices(state.rank.shape, critical.dtype)

        def with_openings():
            return jax.tree.map(lambda new, old: jnp.where(opening, new, old), follow(everyone), some)

        # Skipped where no trial opens. Other trials keep what they have, so it never matters who is in the batch.
        return jax.lax.cond(jnp.any(opening), with_openings, lambda: some)

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
        """See `Algorithm`."""
        return jnp.argsort(state.rank, axis=0).astype(state.rank.dtype)

    def clusters(self, state: LUCBRankState) -> Int[Array, "K *T"]:
        """The cluster, from 0, in which every item stands now."""
        return ranks.cluster_of_rank(state.rank, self.boundaries)
