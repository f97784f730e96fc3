"""Pulls and reward sums per item."""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxrank.trials import places
from jaxrank.types import Query

FEW_QUESTIONS = 16
"""Up to this many questions a round, comparing each with all items beats a scatter on a CPU."""


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


def add(tally: Tally, query: Query, reward: Float[Array, "B *T"]) -> Tally:
    """The tally with the unmasked answers credited to their items."""
    chex.assert_equal_shape((query.item, query.mask, reward))
    width = query.item.shape[0]
    count = query.mask.astype(tally.pulls.dtype)
    gain = jnp.where(query.mask, reward, 0)
    if width <= FEW_QUESTIONS:
        everyone = places(tally.pulls.shape, query.item.dtype)
        pulls, total = tally.pulls, jnp.zeros_like(tally.sums)
        for slot in range(width):
            hit = everyone == query.item[slot][None]
            pulls = pulls + jnp.where(hit, count[slot][None], 0)
            total = total + jnp.where(hit, gain[slot][None], 0)
    else:
        pulls = _scatter(tally.pulls, query.item, count)
        total = _scatter(jnp.zeros_like(tally.sums), query.item, gain)
    sums, lost = _two_sum(tally.sums, tally.lost + total)
    return Tally(pulls=pulls, sums=sums, lost=lost)


def _scatter(totals, item, amount):
    if totals.ndim == 1:
        return totals.at[item].add(amount)
    return jax.vmap(lambda t, i, a: t.at[i].add(a), in_axes=-1, out_axes=-1)(totals, item, amount)


def _two_sum(a, b):
    """A + b and its rounding error, exactly (Knuth)."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)
