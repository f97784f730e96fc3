"""Uniform sampling: the baseline that every adaptive algorithm has to beat."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key
from numpy.typing import ArrayLike

from jaxrank.core import checks, ranks
from jaxrank.core.prng import bits, other_item, permutation
from jaxrank.core.protocol import ANYONE, Algorithm, Query
from jaxrank.core.pytrees import pytree_dataclass, static
from jaxrank.core.tally import Tally


class UniformState(NamedTuple):
    """Where a run of `Uniform` stands.

    Attributes:
      rounds: rounds so far.
      tally: all answers so far.
      priority: a random permutation that breaks ties, shape (K,). A round asks in its order, so that a budget cuts it
        fairly.

    Example:
      >>> state = jr.Uniform(num_items=3).init(jax.random.key(0))
      >>> int(state.rounds), state.tally.pulls.tolist()
      (0, [0, 0, 0])
    """

    rounds: Int[Array, "*T"]
    tally: Tally
    priority: Int[Array, "K *T"]


@pytree_dataclass
class Uniform(Algorithm[UniformState]):
    """Ask about every item equally often, or about random pairs; never stops by itself.

    Args:
      num_items: K.
      pairs: ask K/2 (rounded up) uniformly random pairs per round, and credit the answer to both items: their
        opponents are random, so both estimate their Borda scores. Otherwise every item is asked about once per round
        and alone credited; in duels its opponent is random.

    Example:
      >>> arms = jr.BernoulliArms(means=[0.1, 0.9, 0.5])
      >>> jr.run(jax.random.key(0), jr.Uniform(num_items=3), arms, max_samples=300).order.tolist()
      [1, 2, 0]
    """

    num_items: int = static(converter=checks.whole_number("num_items", low=2))
    pairs: bool = static(default=False, converter=bool)

    batched = True

    @property
    def asks_pairs(self) -> bool:
        """See `Algorithm`."""
        return self.pairs

    @property
    def takes_any_questions(self) -> bool:
        """Yes: it only counts."""
        return True

    def check_stops(self, means: Float[ArrayLike, "K"]) -> None:
        """It never does."""
        del means
        raise ValueError("max_samples must be given: Uniform never stops by itself")

    def init(self, key: Key[Array, "*T"]) -> UniformState:
        """See `Algorithm`."""
        answers = Tally.empty((self.num_items, *key.shape))
        return UniformState(jnp.zeros(key.shape, answers.pulls.dtype), answers, permutation(key, self.num_items))

    def ask(self, key: Key[Array, "*T"], state: UniformState) -> Query:
        """Every item once, or random pairs."""
        if not self.pairs:
            everyone = state.priority
            return Query(everyone, jnp.full_like(everyone, ANYONE), jnp.ones(everyone.shape, bool))
        count = (self.num_items + 1) // 2
        word = bits(key, 2 * count)
        # A word modulo K is off from uniform by less than K / 2^32.
        item = (word[:count] % jnp.uint32(self.num_items)).astype(state.priority.dtype)
        return Query(item, other_item(item, word[count:], self.num_items), jnp.ones(item.shape, bool))

    def tell(self, state: UniformState, query: Query, reward: Float[Array, "B *T"]) -> UniformState:
        """Count."""
        asked = jnp.any(query.mask, axis=0)
        add = state.tally.add_duels if self.pairs else state.tally.add
        return UniformState(state.rounds + asked.astype(state.rounds.dtype), add(query, reward), state.priority)

    def with_tally(self, state: UniformState, tally: Tally) -> UniformState:
        """See `Algorithm`."""
        return state._replace(tally=tally)

    def done(self, state: UniformState) -> Bool[Array, "*T"]:
        """Never."""
        return jnp.zeros(state.rounds.shape, bool)

    def order(self, state: UniformState) -> Int[Array, "K *T"]:
        """By empirical means."""
        return ranks.order_of(ranks.ranks(state.tally.means, state.priority))
