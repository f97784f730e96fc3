"""KL confidence bounds started from those of the round before: the fast form of `kl_bounds`."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Num

from jaxrank.core.batch_axis import gather, set_rows
from jaxrank.stats.families import Family, NewtonBounds
from jaxrank.stats.kl_bounds import kl_lower, kl_upper, level_of, outward


class Bounds(NamedTuple):
    """Confidence bounds of all items, and the threshold they were computed for."""

    lower: Float[Array, "K *T"]
    upper: Float[Array, "K *T"]
    threshold: Float[Array, "#K *T"]


def no_bounds(sums: Float[Array, "K *T"], family: Family, threshold: Float[Array, "#K *T"]) -> Bounds:
    """Bounds of items without answers: the ends of the domain."""
    return Bounds(jnp.full_like(sums, family.low), jnp.full_like(sums, family.high), threshold)


def tracked_bounds(
    before: Bounds,
    mean: Float[Array, "K *T"],
    pulls: Num[Array, "K *T"],
    threshold: Float[Array, "#K *T"],
    family: Family,
    changed: Int[Array, "B *T"],
) -> Bounds:
    """`kl_lower` and `kl_upper`, started from the bounds of the round before; only `changed` items have new answers.

    Between two rounds a bound hardly moves. The others' widths grow with the threshold, nearly as its square root, so
    that a single Newton step (three in 64 bit) is enough where bisection needs one per bit; a changed item's takes one
    more. Every result is on the outer side, and the tests hold the two ways to the same decisions.
    """
    if not isinstance(family, NewtonBounds):
        return Bounds(kl_lower(mean, pulls, threshold, family), kl_upper(mean, pulls, threshold, family), threshold)
    mean, level, some = level_of(mean, pulls, threshold)
    growth = jnp.sqrt(threshold / before.threshold)
    down, up = mean - before.lower, before.upper - mean
    # Where the domain's end is near, a width grows more slowly: at most half of the way.
    widths = (
        jnp.minimum(down * growth, (down + (mean - family.low)) / 2),
        jnp.minimum(up * growth, (up + (family.high - mean)) / 2),
    )
    widths = _approach_changed(widths, mean, level, family, changed)
    for _ in range({4: 0, 8: 2}[mean.dtype.itemsize]):
        widths = family.newton_guess_down(mean, level, widths[0]), family.newton_guess_up(mean, level, widths[1])
    down, up = family.newton_bound_down(mean, level, widths[0]), family.newton_bound_up(mean, level, widths[1])
    return Bounds(
        jnp.where(some, jnp.maximum(-outward(-mean, down), family.low), family.low),
        jnp.where(some, jnp.minimum(outward(mean, up), family.high), family.high),
        threshold,
    )


def _approach_changed(widths, mean, level, family, changed):
    """A first step for the changed items alone, or for all where that is no more work."""
    if 2 * changed.shape[0] > mean.shape[0]:
        return family.newton_guess_down(mean, level, widths[0]), family.newton_guess_up(mean, level, widths[1])
    down, up, mean, level = (gather(table, changed) for table in (*widths, mean, level))
    fresh = family.newton_guess_down(mean, level, down), family.newton_guess_up(mean, level, up)
    return tuple(set_rows(table, changed, values) for table, values in zip(widths, fresh, strict=True))
