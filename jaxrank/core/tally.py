"""Pulls and reward sums per item."""

from typing import NamedTuple

import chex
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxrank.core import checks
from jaxrank.core.batch_axis import add_rows
from jaxrank.core.protocol import Query


class Tally(NamedTuple):
    """Pulls and reward sums of every item: all that an algorithm keeps of its answers.

    A single 32-bit sum stops counting at 2^24, so a sum is kept as two numbers, `sums` and what the rounding of
    `sums` lost (`lost`); together they hold 48 bits.

    Attributes:
      pulls: answers about every item, shape (K,).
      sums: sum of the rewards of every item, shape (K,).
      lost: what the rounding of `sums` lost, shape (K,).

    Example:
      >>> query = jr.Query(item=jnp.array([0, 2]), opponent=jnp.full(2, jr.ANYONE), mask=jnp.ones(2, bool))
      >>> tally = jr.Tally.empty((3,)).add(query, jnp.array([1.0, 0.0]))
      >>> tally.pulls.tolist(), tally.means.tolist()
      ([1, 0, 1], [1.0, 0.0, 0.0])
    """

    pulls: Int[Array, "K *T"]
    sums: Float[Array, "K *T"]
    lost: Float[Array, "K *T"]

    @property
    def means(self) -> Float[Array, "K *T"]:
        """Empirical means; 0 where there are no pulls."""
        return (self.sums + self.lost) / jnp.maximum(self.pulls, 1).astype(self.sums.dtype)

    @classmethod
    def empty(cls, shape: tuple[int, ...]) -> "Tally":
        """No answers yet, in the default integer and float types.

        Args:
          shape: (K,), or (K, T) for many trials at once.

        Returns:
          A tally of zeros.
        """
        return cls(pulls=jnp.zeros(shape, int), sums=jnp.zeros(shape, float), lost=jnp.zeros(shape, float))

    def add(self, query: Query, reward: Float[Array, "B *T"], low: float = -np.inf, high: float = np.inf) -> "Tally":
        """The tally with the unmasked answers credited to their items.

        Args:
          query: the questions; their opponents are not credited.
          reward: one answer per question, shape (B,).
          low: smallest reward allowed; checked where the rewards are known, as in a call from the host.
          high: largest reward allowed.

        Returns:
          The new tally.
        """
        chex.assert_equal_shape((query.item, query.mask, reward))
        answers, asked = checks.concrete(reward), checks.concrete(query.mask)
        if answers is not None and asked is not None:
            checks.inside("reward", answers[asked], low, high)
        pulls = add_rows(self.pulls, query.item, query.mask.astype(self.pulls.dtype))
        total = add_rows(jnp.zeros_like(self.sums), query.item, jnp.where(query.mask, reward, 0))
        sums, lost = _two_sum(self.sums, self.lost + total)
        return Tally(pulls=pulls, sums=sums, lost=lost)

    def add_duels(self, query: Query, reward: Float[Array, "B *T"]) -> "Tally":
        """The tally with the unmasked answers credited to both items of a pair: a win of one is a loss of the other.

        Args:
          query: the questions, each with an opponent.
          reward: 1 where the item won, 0 where its opponent did, or a share between; shape (B,).

        Returns:
          The new tally.
        """
        return self.add(query, reward, 0, 1).add(query._replace(item=query.opponent), 1 - reward)


def _two_sum(a, b):
    """a + b and its rounding error, exactly (Knuth)."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)
