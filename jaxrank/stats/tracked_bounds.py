"""Confidence bounds of all items: by bisection, or started from those of the round before, which is faster."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Num

from jaxrank.core.batch_axis import gather, set_rows
from jaxrank.stats.families import Family, NewtonBounds
from jaxrank.stats.kl_bounds import kl_lower, kl_upper, level_of, outward

STEPS_FOR_CHANGED, STEPS_FOR_LARGE_CHANGES = 1, 3
"""Newton steps for items with new answers, besides those that all items take."""
STEPS_FOR_ALL = {4: 0, 8: 2}
"""Newton steps for all items, by size of the float, besides the last one, which gives a valid bound."""

Widths = tuple[Float[Array, "n *T"], Float[Array, "n *T"]]
"""Distances from the mean to the bounds, below and above."""


class Bounds(NamedTuple):
    """Confidence bounds of all items, and the threshold they were computed for."""

    lower: Float[Array, "K *T"]
    upper: Float[Array, "K *T"]
    threshold: Float[Array, "#K *T"]


def no_bounds(sums: Float[Array, "K *T"], family: Family, threshold: Float[Array, "#K *T"]) -> Bounds:
    """Bounds of items without answers: the ends of the domain."""
    return Bounds(jnp.full_like(sums, family.low), jnp.full_like(sums, family.high), threshold)


def bisected_bounds(
    mean: Float[Array, "K *T"], pulls: Num[Array, "K *T"], threshold: Float[Array, "#K *T"], family: Family
) -> Bounds:
    """`kl_lower` and `kl_upper` of all items."""
    lower, upper = kl_lower(mean, pulls, threshold, family), kl_upper(mean, pulls, threshold, family)
    return Bounds(lower, upper, threshold)


def tracked_bounds(
    before: Bounds,
    mean: Float[Array, "K *T"],
    pulls: Num[Array, "K *T"],
    threshold: Float[Array, "#K *T"],
    family: Family,
    changed: Int[Array, "B *T"],
    num_parts: int,
    large_changes: bool,
) -> Bounds:
    """`bisected_bounds`, started from the bounds of the round before; only `changed` items have new answers.

    Between two rounds a bound hardly moves. The others' widths grow with the threshold, nearly as its square root, so
    that a single Newton step (three in 64 bit) is enough where bisection needs one per bit. A changed item takes one
    more, or three more with `large_changes`: several answers at once, or a threshold of its own that jumps with its
    answers. An item that is listed in several of the `num_parts` equal parts of `changed`, once in each, has an answer
    for each, and takes a step for each. Every result is on the outer side, a few roundings from that of bisection.
    """
    if not isinstance(family, NewtonBounds):
        return bisected_bounds(mean, pulls, threshold, family)
    mean, level, some = level_of(mean, pulls, threshold, family)
    growth = jnp.sqrt(threshold / before.threshold)
    down, up = mean - before.lower, before.upper - mean
    # Where the domain's end is near, a width grows more slowly: at most half of the way.
    widths = (
        jnp.minimum(down * growth, (down + (mean - family.low)) / 2),
        jnp.minimum(up * growth, (up + (family.high - mean)) / 2),
    )
    steps = STEPS_FOR_LARGE_CHANGES if large_changes else STEPS_FOR_CHANGED
    if num_parts == 1 and 2 * changed.shape[0] > mean.shape[0]:
        widths = _newton(steps, widths, mean, level, family)
    else:
        for part in jnp.split(changed, num_parts):
            down, up, mean_of, level_of_part = (gather(table, part) for table in (*widths, mean, level))
            if num_parts > 1:
                count = jnp.maximum(gather(pulls, part), 2).astype(mean.dtype)
                shrink = jnp.sqrt(1 - 1 / count)  # a width goes nearly as the inverse of the root of the pulls
                down, up = down * shrink, up * shrink
            fresh = _newton(steps, (down, up), mean_of, level_of_part, family)
            widths = set_rows(widths[0], part, fresh[0]), set_rows(widths[1], part, fresh[1])
    down, up = _newton(STEPS_FOR_ALL[mean.dtype.itemsize], widths, mean, level, family)
    down, up = family.newton_bound_down(mean, level, down), family.newton_bound_up(mean, level, up)
    return Bounds(
        jnp.where(some, jnp.maximum(-outward(-mean, down), family.low), family.low),
        jnp.where(some, jnp.minimum(outward(mean, up), family.high), family.high),
        threshold,
    )


def _newton(
    steps: int, widths: Widths, mean: Float[Array, "n *T"], level: Float[Array, "n *T"], family: NewtonBounds
) -> Widths:
    """Better guesses of the widths, below and above."""
    for _ in range(steps):
        widths = family.newton_guess_down(mean, level, widths[0]), family.newton_guess_up(mean, level, widths[1])
    return widths
