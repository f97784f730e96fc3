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
    """All that an algorithm keeps of its answers.

    A single 32-bit sum stops counting at 2^24, so a sum is kept as two numbers, `sums` and what the rounding of
    `sums` lost (`lost`); together they hold 48 bits.
    """

    pulls: Int[Array, "K *T"]
    sums: Float[Array, "K *T"]
    lost: Float[Array, "K *T"]

    @property
    def means(self) -> Float[Array, "K *T"]:
        """Empirical means; 0 where there are no pulls."""
        return (self.sums + self.lost) / jnp.maximum(self.pulls, 1).astype(self.sums.dtype)


def empty(shape: tuple[int, ...]) -> Tally:
    """No answers yet, in the default integer and float types."""
    return Tally(pulls=jnp.zeros(shape, int), sums=jnp.zeros(shape, float), lost=jnp.zeros(shape, float))


def add(tally: Tally, query: Query, reward: Float[Array, "B *T"], low: float = -np.inf, high: float = np.inf) -> Tally:
    """The tally with the unmasked answers credited to their items.

    A reward that is known, as in a call of `tell` from the host, must lie between `low` and `high`.
    """
    chex.assert_equal_shape((query.item, query.mask, reward))
    answers, asked = checks.concrete(reward), checks.concrete(query.mask)
    if answers is not None and asked is not None:
        checks.inside("reward", answers[asked], low, high, closed=(True, True))
    pulls = add_rows(tally.pulls, query.item, query.mask.astype(tally.pulls.dtype))
    total = add_rows(jnp.zeros_like(tally.sums), query.item, jnp.where(query.mask, reward, 0))
    sums, lost = _two_sum(tally.sums, tally.lost + total)
    return Tally(pulls=pulls, sums=sums, lost=lost)


def add_duels(tally: Tally, query: Query, reward: Float[Array, "B *T"]) -> Tally:
    """The tally with the unmasked answers credited to both items of a pair: a win of one is a loss of the other."""
    return add(add(tally, query, reward, 0, 1), query._replace(item=query.opponent), 1 - reward)


def _two_sum(a, b):
    """A + b and its rounding error, exactly (Knuth)."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)
