"""Uniform sampling: the baseline that every adaptive algorithm has to beat."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Int

from jaxrank.core import checks, ranks, tally
from jaxrank.core.prng import bits, other_item, permutation
from jaxrank.core.protocol import ANYONE, Query
from jaxrank.core.pytrees import pytree_dataclass, static
from jaxrank.core.tally import Tally


class UniformState(NamedTuple):
    """Where a run stands."""

    rounds: Int[Array, "*T"]
    tally: Tally
    priority: Int[Array, "K *T"]
    """A random permutation that breaks ties, and in whose order a round asks, so that a budget cuts it fairly."""


@pytree_dataclass
class Uniform:
    """Ask about every item equally often, or about random pairs; never stops by itself.

    Args:
      num_items: K.
      pairs: ask K/2 (rounded up) uniformly random pairs per round, and credit the answer to both items: their
        opponents are random, so both estimate their Borda scores. Otherwise every item is asked about once per round
        and alone credited; in duels its opponent is random.
    """

    num_items: int = static()
    pairs: bool = static()

    def __init__(self, *, num_items: int, pairs: bool = False):
        object.__setattr__(self, "num_items", checks.whole("num_items", num_items, low=2))
        object.__setattr__(self, "pairs", bool(pairs))

    @property
    def asks_pairs(self) -> bool:
        """See `Algorithm`."""
        return self.pairs

    def check(self) -> None:
        """See `Algorithm`: there is nothing to get wrong."""

    def check_stops(self, means) -> None:
        """It never does."""
        del means
        raise ValueError("max_samples must be given: Uniform never stops by itself")

    def init(self, key) -> UniformState:
        """See `Algorithm`."""
        answers = tally.empty((self.num_items, *key.shape))
        return UniformState(jnp.zeros(key.shape, answers.pulls.dtype), answers, permutation(key, self.num_items))

    def ask(self, key, state) -> Query:
        """Every item once, or random pairs."""
        if not self.pairs:
            everyone = state.priority
            return Query(everyone, jnp.full_like(everyone, ANYONE), jnp.ones(everyone.shape, bool))
        count = (self.num_items + 1) // 2
        word = bits(key, 2 * count)
        # A word modulo K is off from uniform by less than K / 2^32.
        item = (word[:count] % jnp.uint32(self.num_items)).astype(state.priority.dtype)
        return Query(item, other_item(item, word[count:], self.num_items), jnp.ones(item.shape, bool))

    def tell(self, state, query, reward) -> UniformState:
        """Count."""
        asked = jnp.any(query.mask, axis=0)
        answers = (tally.add_duels if self.pairs else tally.add)(state.tally, query, reward)
        return UniformState(state.rounds + asked.astype(state.rounds.dtype), answers, state.priority)

    def done(self, state):
        """Never."""
        return jnp.zeros(state.rounds.shape, bool)

    def order(self, state):
        """By empirical means."""
        rank = ranks.ranks(state.tally.means, state.priority)
        return jnp.argsort(rank, axis=0).astype(rank.dtype)
