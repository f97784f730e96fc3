"""Ranking by a fitted model: an aggregation that any algorithm asking duels can have."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key
from numpy.typing import ArrayLike

from jaxrank.core import checks, ranks
from jaxrank.core.batch_axis import add_rows
from jaxrank.core.prng import bits, fold_in, other_item, permutation
from jaxrank.core.protocol import ANYONE, Algorithm, Number, Query
from jaxrank.core.pytrees import leaf, pytree_dataclass, set_fields, static
from jaxrank.core.tally import Tally
from jaxrank.fitting.likelihood import WinMatrix
from jaxrank.fitting.solver import maximise
from jaxrank.stats.links import BTL

TOLERANCE = 1e-4
"""Largest error of a score: about a hundredth of its standard error after a million duels among a hundred items."""


class ByLikelihoodState(NamedTuple):
    """Where a run of `ByLikelihood` stands.

    Attributes:
      inner: state of the algorithm that asks.
      wins: entry i K + j says how often item i beat item j, shape (K*K,).
      scores: those of the last fit, where the next one starts, shape (K,).
      priority: a random permutation that breaks ties, drawn once per trial, shape (K,).

    Example:
      >>> state = jr.ByLikelihood(algorithm=jr.Uniform(num_items=3, pairs=True)).init(jax.random.key(0))
      >>> int(state.rounds), state.tally.pulls.tolist()
      (0, [0, 0, 0])
    """

    inner: Any
    wins: Float[Array, "K*K *T"]
    scores: Float[Array, "K *T"]
    priority: Int[Array, "K *T"]

    @property
    def rounds(self) -> Int[Array, "*T"]:
        """See `State`."""
        return self.inner.rounds

    @property
    def tally(self) -> Tally:
        """See `State`."""
        return self.inner.tally


@pytree_dataclass
class ByLikelihood(Algorithm[ByLikelihoodState]):
    """An algorithm whose questions are asked as duels, and whose order is by BTL scores fitted to all answers so far.

    The paper's UniformParam is `ByLikelihood(algorithm=Uniform(num_items=K, pairs=True))`, its QSParam
    `ByLikelihood(algorithm=Quicksort(num_items=K, boundaries=..., repeats=None))`. What is asked, what the algorithm
    itself learns and when it stops are as they were: only the order differs, and the guarantee, if there was one, is
    about the algorithm's own order. Opponents that were left open are drawn here, so that they are known to the fit.

    Args:
      algorithm: what asks.
      prior: precision of a Gaussian prior on the scores; a small one keeps them finite while few duels are known.

    Example:
      >>> algorithm = jr.ByLikelihood(algorithm=jr.Uniform(num_items=3, pairs=True))
      >>> jr.run(jax.random.key(0), algorithm, jr.Duels.btl([0.0, 4.0, 8.0]), max_samples=300).order.tolist()
      [2, 1, 0]
    """

    algorithm: Algorithm[Any]
    prior: Number = leaf(0, default=0.1)
    num_items: int = static(init=False)

    batched = True

    def __post_init__(self) -> None:
        """As many items as the algorithm has."""
        set_fields(self, num_items=self.algorithm.num_items)

    @property
    def asks_pairs(self) -> bool:
        """Yes: a fit needs to know who beat whom."""
        return True

    def check(self) -> None:
        """See `Algorithm`."""
        self.algorithm.check()
        checks.positive("prior", self.prior)

    def check_stops(self, means: Float[ArrayLike, "K"]) -> None:
        """See `Algorithm`."""
        self.algorithm.check_stops(means)

    def init(self, key: Key[Array, "*T"]) -> ByLikelihoodState:
        """See `Algorithm`."""
        items = self.num_items
        return ByLikelihoodState(
            inner=self.algorithm.init(key),
            wins=jnp.zeros((items**2, *key.shape), float),
            scores=jnp.zeros((items, *key.shape), float),
            priority=permutation(fold_in(key, jnp.ones(key.shape, int)), items),
        )

    def ask(self, key: Key[Array, "*T"], state: ByLikelihoodState) -> Query:
        """What the algorithm asks, every item with an opponent."""
        query = self.algorithm.ask(key, state.inner)
        word = bits(fold_in(key, jnp.ones(key.shape, int)), query.item.shape[0])
        someone = other_item(query.item, word, self.num_items)
        return query._replace(opponent=jnp.where(query.opponent == ANYONE, someone, query.opponent))

    def tell(self, state: ByLikelihoodState, query: Query, reward: Float[Array, "B *T"]) -> ByLikelihoodState:
        """Tell the algorithm, and note who beat whom."""
        # One place per answer, that of the winner; a tie, or any other reward, is shared out between both.
        place = jnp.concatenate(
            [query.item * self.num_items + query.opponent, query.opponent * self.num_items + query.item]
        )
        share = jnp.where(jnp.concatenate([query.mask, query.mask]), jnp.concatenate([reward, 1 - reward]), 0)
        return state._replace(
            inner=self.algorithm.tell(state.inner, query, reward), wins=add_rows(state.wins, place, share)
        )

    def done(self, state: ByLikelihoodState) -> Bool[Array, "*T"]:
        """When the algorithm is."""
        return self.algorithm.done(state.inner)

    def order(self, state: ByLikelihoodState) -> Int[Array, "K *T"]:
        """By fitted scores."""
        return ranks.order_of(ranks.ranks(self._fit(state), state.priority))

    def prepare_order(self, state: ByLikelihoodState) -> ByLikelihoodState:
        """See `Algorithm`: the scores, for the next fit to start from."""
        return state._replace(scores=self._fit(state))

    def _fit(self, state) -> Float[Array, "K *T"]:
        def one(wins, start, prior):
            table = WinMatrix(wins=wins.reshape(self.num_items, self.num_items))
            return jnp.asarray(maximise(table, BTL(), prior, start, jnp.asarray(TOLERANCE, start.dtype)).scores)

        prior = jnp.asarray(self.prior, state.scores.dtype)
        if state.scores.ndim == 1:
            return one(state.wins, state.scores, prior)
        prior_axis = None if prior.ndim == 0 else 0
        return jax.vmap(one, in_axes=(-1, -1, prior_axis), out_axes=-1)(state.wins, state.scores, prior)
