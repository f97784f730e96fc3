r"""KL confidence bounds, and the thresholds that make them hold at all times at once.

For an item with empirical mean $\hat p$ after N pulls, and a threshold $\beta$ (the paper's eq. 4):

    U = max{q >= p-hat : N d(p-hat, q) <= beta},      L = min{q <= p-hat : N d(p-hat, q) <= beta}.

A confidence sequence supplies the threshold; the bounds are the same for all of them.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num

from jaxrank.stats.families import Bernoulli, Family


def kl_upper(
    mean: Float[Array, "..."],
    pulls: Num[Array, "..."],
    threshold: Float[Array, "..."] | float,
    family: Family | None = None,
) -> Float[Array, "..."]:
    """Upper confidence bound U, never below the true solution; the domain's end where there are no pulls.

    Bisection of a fixed number of steps on the width U - mean. It returns the outer end of the last bracket and
    rounds outward, so that neither the bracket's width nor the rounding of d can make the bound too tight.
    """
    family = Bernoulli() if family is None else family
    mean, level, some = level_of(mean, pulls, threshold)
    inner, outer = family.bracket_up(mean, level)
    width = _bisect(lambda step: family.divergence(mean, step) <= level, inner, outer)
    return jnp.where(some, jnp.minimum(outward(mean, width), family.high), family.high)


def kl_lower(
    mean: Float[Array, "..."],
    pulls: Num[Array, "..."],
    threshold: Float[Array, "..."] | float,
    family: Family | None = None,
) -> Float[Array, "..."]:
    """Lower confidence bound L, never above the true solution; see `kl_upper`."""
    family = Bernoulli() if family is None else family
    mean, level, some = level_of(mean, pulls, threshold)
    inner, outer = family.bracket_down(mean, level)
    width = _bisect(lambda step: family.divergence(mean, -step) <= level, inner, outer)
    return jnp.where(some, jnp.maximum(-outward(-mean, width), family.low), family.low)


def level_of(mean, pulls, threshold):
    """Threshold per pull, raised by a few units in the last place to cover the rounding of d."""
    mean = jnp.asarray(mean)
    count = jnp.asarray(pulls).astype(mean.dtype)
    slack = 1 + 8 * jnp.finfo(mean.dtype).eps
    level = jnp.asarray(threshold, mean.dtype) * slack / jnp.maximum(count, 1)
    mean, level, some = jnp.broadcast_arrays(mean, level, count > 0)
    return mean, level, some


def _bisect(inside, inner, outer):
    """The outer end of the bracket after as many halvings as the dtype has bits to tell apart."""

    def halve(_, bracket):
        inner, outer = bracket
        middle = (inner + outer) / 2
        is_inside = inside(middle)
        return jnp.where(is_inside, middle, inner), jnp.where(is_inside, outer, middle)

    return jax.lax.fori_loop(0, jnp.finfo(outer.dtype).nmant + 3, halve, (inner, outer))[1]


def outward(mean, width):
    """Mean + width, rounded up.

    Where the bound is close to the domain's end, d depends on (mean - width) / mean, whose rounding is worth several
    units in the last place of the mean; eight cover it.
    """
    unit = jnp.finfo(mean.dtype).eps
    return mean + (width + unit * (8 * jnp.abs(mean) + width))
