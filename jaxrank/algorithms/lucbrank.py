"""LUCBRank: Algorithm 1 of Katariya, Jain, Sengupta, Evans and Nowak (AISTATS 2018)."""

import dataclasses
from typing import Literal, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key
from numpy.typing import ArrayLike

from jaxrank.algorithms._critical_items import PAPERS_RATE, ByConfidenceBounds
from jaxrank.core import checks, ranks
from jaxrank.core.batch_axis import expand_items
from jaxrank.core.boundaries import as_given, cut_points, require_gaps
from jaxrank.core.prng import permutation
from jaxrank.core.protocol import Number, Query
from jaxrank.core.pytrees import pytree_dataclass, set_fields, static
from jaxrank.core.tally import Tally
from jaxrank.stats.numerics import TIE
from jaxrank.stats.sequences import Design, ExplorationRate
from jaxrank.stats.tracked_bounds import Bounds, no_bounds


class LUCBRankState(NamedTuple):
    """Where a run of `LUCBRank` stands; every field can be read at any time.

    Attributes:
      rounds: the paper's t: 0 until every item was sampled once, then 1, 2, ...
      tally: all answers so far.
      priority: a random permutation that breaks ties, drawn once per trial, shape (K,).
      rank: rank of every item by its empirical mean, from 0, best first; shape (K,).
      bounds: confidence bounds of all items, `lower` and `upper`, shape (K,), and their `threshold`.
      active: boundaries still to be settled, the paper's set C; shape (C,).
      critical: at each boundary the item above it with the least lower bound, and the one below it with the largest
        upper bound; shape (C, 2).

    Example:
      >>> state = jr.LUCBRank(num_items=3, boundaries=(1,), delta=0.1).init(jax.random.key(0))
      >>> int(state.rounds), state.tally.pulls.tolist()
      (0, [0, 0, 0])
    """

    rounds: Int[Array, "*T"]
    tally: Tally
    priority: Int[Array, "K *T"]
    rank: Int[Array, "K *T"]
    bounds: Bounds
    active: Bool[Array, "C *T"]
    critical: Int[Array, "C 2 *T"]


@pytree_dataclass
class LUCBRank(ByConfidenceBounds[LUCBRankState]):
    """(epsilon, delta)-PAC coarse ranking by lower and upper confidence bounds.

    In every round it samples, at every active boundary, the two items most likely to stand on the wrong side: the
    one above it with the least lower bound and the one below it with the largest upper bound. A boundary is settled
    once these two bounds overlap by less than epsilon.

    Args:
      num_items: K.
      boundaries: the paper's kappa, such as `(3, 12)`, or a rule such as `jaxrank.quantiles(5)`.
      delta: probability of a wrong result, at most.
      epsilon: how far, in mean reward, an item may stand on the wrong side of a boundary.
      alpha: exponent of the paper's exploration rate; see `ExplorationRate`.
      k1: factor of the paper's exploration rate.
      confidence: another confidence sequence in place of the paper's rate.
      family: the rewards' family; the default holds for any reward in [0, 1].
      variant: "literal" never revisits a settled boundary, as in Algorithm 1 as printed. "provable" recomputes
        the active set in every round and stops when all boundaries are settled at once, as the proof assumes.
      bounds: "bisection" computes every bound anew in every round, as Algorithm 1 reads. "tracked" starts from the
        bounds of the round before and is faster. Both make the same pulls in 64 bit. In 32 bit last bits may decide
        otherwise, most often in the first rounds and with a small delta, when many upper bounds are nearly 1.
      sample_once: sample an item that is critical at several boundaries once, not once per boundary.
      pulls_per_item: samples of each critical item per round (many raters); k1 rises to keep the guarantee.

    Example:
      >>> algorithm = jr.LUCBRank(num_items=4, boundaries=(2,), delta=0.1, epsilon=0.1)
      >>> result = jr.run(jax.random.key(0), algorithm, jr.BernoulliArms(means=[0.1, 0.9, 0.2, 0.8]))
      >>> bool(result.done), sorted(result.order[:2].tolist())
      (True, [1, 3])
    """

    boundaries: tuple[int, ...] = static(converter=as_given)
    variant: Literal["literal", "provable"] = static(
        default="literal", converter=checks.one_of("variant", "literal", "provable")
    )
    bounds: Literal["tracked", "bisection"] = static(
        default="tracked", converter=checks.one_of("bounds", "tracked", "bisection")
    )
    alpha: dataclasses.InitVar[Number | None] = None
    k1: dataclasses.InitVar[Number | None] = None

    def __post_init__(self, alpha: Number | None, k1: Number | None) -> None:
        """Resolve the boundaries and the paper's rate."""
        set_fields(self, boundaries=cut_points(self.num_items, self.boundaries))
        rate = {name: value for name, value in (("alpha", alpha), ("k1", k1)) if value is not None}
        if rate:
            if self.confidence is not PAPERS_RATE:
                raise ValueError("alpha and k1 belong to the paper's rate: give them or confidence, not both")
            set_fields(self, confidence=ExplorationRate(**rate))

    @property
    def design(self) -> Design:
        """What the confidence sequence needs to know of the sampling rule."""
        count, pulls = len(self.boundaries), self.pulls_per_item
        return Design(self.num_items, count, pulls * (1 if self.sample_once else count), single_pulls=pulls == 1)

    def check_stops(self, means: Float[ArrayLike, "K"]) -> None:
        """With epsilon = 0, two equal means at a boundary are never told apart."""
        require_gaps(means, self.boundaries, self.epsilon)

    def init(self, key: Key[Array, "*T"]) -> LUCBRankState:
        """See `Algorithm`."""
        answers = Tally.empty((self.num_items, *key.shape))
        priority = permutation(key, self.num_items)
        count = len(self.boundaries)
        rounds = jnp.zeros(key.shape, answers.pulls.dtype)
        return LUCBRankState(
            rounds=rounds,
            tally=answers,
            priority=priority,
            rank=priority,
            bounds=no_bounds(answers.sums, self.family, self.threshold(answers, rounds)),
            active=jnp.ones((count, *key.shape), bool),
            critical=jnp.zeros((count, 2, *key.shape), priority.dtype),
        )

    def tell(self, state: LUCBRankState, query: Query, reward: Float[Array, "B *T"]) -> LUCBRankState:
        """Lines 17-25 of Algorithm 1: update, find the critical items anew, settle boundaries."""
        answers, rounds, asked = self.count(state, query, reward)
        if self.bounds == "bisection" or query.item.shape[0] != self._width:
            bounds = self.bounds_by_bisection(answers, rounds)
            rank = ranks.ranks(answers.means, state.priority)
        else:
            bounds = self.next_bounds(state.bounds, answers, rounds, asked, query.item)
            rank = ranks.updated_ranks(state.rank, answers.means, state.priority, query.item)
        return self._settle(state._replace(rounds=rounds, tally=answers, rank=rank, bounds=bounds))

    def with_tally(self, state: LUCBRankState, tally: Tally) -> LUCBRankState:
        """See `Algorithm`: with "literal", settled boundaries stay settled."""
        if not self.takes_any_questions:
            return super().with_tally(state, tally)
        rounds = self.rounds_with(state, tally)
        bounds = self.bounds_by_bisection(tally, rounds)
        rank = ranks.ranks(tally.means, state.priority)
        return self._settle(state._replace(rounds=rounds, tally=tally, rank=rank, bounds=bounds))

    @property
    def _width(self) -> int:
        """Questions of a round."""
        return 2 * len(self.boundaries) * self.pulls_per_item

    def _settle(self, state: LUCBRankState) -> LUCBRankState:
        """Critical items and active boundaries, by the state's bounds and ranks."""
        bounds = state.bounds
        above = ranks.above(state.rank, self.boundaries)
        low, high = jnp.where(above, bounds.lower[None], jnp.inf), jnp.where(above, -jnp.inf, bounds.upper[None])
        least, most = jnp.min(low, axis=1), jnp.max(high, axis=1)
        overlap = most - least
        # Items with the same answers have the same bounds up to rounding; priority, not rounding, picks among them.
        near = jnp.where(jnp.isfinite(overlap), TIE[overlap.dtype.itemsize] * jnp.abs(overlap), 0)
        last_above = ranks.first(low <= (least + near)[:, None], state.priority)
        first_below = ranks.first(high >= (most - near)[:, None], state.priority)
        settled = (overlap < expand_items(jnp.asarray(self.epsilon, overlap.dtype))) & (state.rounds > 1)[None]
        return state._replace(
            active=~settled & state.active if self.variant == "literal" else ~settled,
            critical=jnp.stack([last_above, first_below], axis=1),
        )

    def order(self, state: LUCBRankState) -> Int[Array, "K *T"]:
        """By empirical means."""
        return ranks.order_of(state.rank)

    def clusters(self, state: LUCBRankState) -> Int[Array, "K *T"]:
        """The cluster, from 0, in which every item stands now.

        Args:
          state: of one trial or many.

        Returns:
          One number per item, 0 for the best cluster.
        """
        return ranks.cluster_of_rank(state.rank, self.boundaries)
