r"""KL confidence bounds for a given threshold.

For an item with empirical mean $\hat p$ after N pulls, and a threshold $\beta$ (the paper's eq. 4):

    U = max{q >= p-hat : N d(p-hat, q) <= beta},      L = min{q <= p-hat : N d(p-hat, q) <= beta}.

A confidence sequence supplies the threshold; the bounds are the same for all of them.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Num
from numpy.typing import ArrayLike

from jaxrank.core.compiled import compiled
from jaxrank.stats.families import Bernoulli, Family
from jaxrank.stats.numerics import rounded


@compiled
def kl_upper(
    mean: Float[ArrayLike, "..."],
    pulls: Num[ArrayLike, "..."],
    threshold: Float[ArrayLike, "..."],
    family: Family | None = None,
) -> Float[Array, "..."]:
    """Upper confidence bound: the largest U >= mean with pulls * d(mean, U) <= threshold, never below it.

    Bisection of a fixed number of steps on the width U - mean. It returns the outer end of the last bracket and
    rounds outward, so that neither the bracket's width nor the rounding of d can make the bound too tight.

    Args:
      mean: empirical means, any shape.
      pulls: how many answers each is the mean of; without any, the bound is the end of the domain.
      threshold: such as the paper's beta(t, delta).
      family: the rewards' family; Bernoulli by default.

    Returns:
      The bounds, in the arguments' common shape.

    Example:
      >>> round(float(jr.kl_upper(0.5, 100, 3.0)), 3)
      0.621
    """
    family = Bernoulli() if family is None else family
    mean, level, some = level_of(mean, pulls, threshold, family)
    return jnp.where(some, _upper(mean, level, family), family.high)


@compiled
def kl_lower(
    mean: Float[ArrayLike, "..."],
    pulls: Num[ArrayLike, "..."],
    threshold: Float[ArrayLike, "..."],
    family: Family | None = None,
) -> Float[Array, "..."]:
    """Lower confidence bound by bisection: the smallest L <= mean with pulls * d(mean, L) <= threshold, never above it.

    Args:
      mean: empirical means, any shape.
      pulls: how many answers each is the mean of; without any, the bound is the end of the domain.
      threshold: such as the paper's beta(t, delta).
      family: the rewards' family; Bernoulli by default.

    Returns:
      The bounds, in the arguments' common shape.

    Example:
      >>> round(float(jr.kl_lower(0.5, 100, 3.0)), 3)
      0.379
    """
    family = Bernoulli() if family is None else family
    mean, level, some = level_of(mean, pulls, threshold, family)
    return jnp.where(some, _lower(mean, level, family), family.low)


@jax.custom_jvp
def _upper(mean: Float[Array, "..."], level: Float[Array, "..."], family: Family) -> Float[Array, "..."]:
    """The largest mean whose divergence is at most the level."""
    inner, outer = family.bracket_up(mean, level)
    width = _bisect(lambda step: family.divergence(mean, step) <= level, inner, outer)
    return jnp.minimum(outward(mean, width), family.high)


@jax.custom_jvp
def _lower(mean: Float[Array, "..."], level: Float[Array, "..."], family: Family) -> Float[Array, "..."]:
    """The smallest mean whose divergence is at most the level."""
    inner, outer = family.bracket_down(mean, level)
    width = _bisect(lambda step: family.divergence(mean, -step) <= level, inner, outer)
    return jnp.maximum(-outward(-mean, width), family.low)


def _derivative(bound_of: Callable[..., Float[Array, "..."]], primals: tuple, tangents: tuple) -> tuple:
    r"""The derivative of a bound y, given implicitly by d(x, y) = level.

    With the natural parameter $\theta$, $\partial d / \partial x = \theta(x) - \theta(y)$ and
    $\partial d / \partial y = (y - x) \theta'(y)$. It is 0 where y is the end of the domain.
    """
    (mean, level, family), (by_mean, by_level, by_family) = primals, tangents
    bound = bound_of(mean, level, family)
    step = bound - mean
    inside = (bound > family.low) & (bound < family.high) & (step != 0)
    place, step = jnp.where(inside, bound, mean), jnp.where(inside, step, 1)
    zero, one, most = jnp.zeros_like(mean), jnp.ones_like(mean), float(jnp.finfo(mean.dtype).max)
    _, precision = jax.jvp(lambda way: family.natural_step(place, way)[0], (zero,), (one,))
    parameter, _ = family.natural_step(mean, step)
    _, by_shape = jax.jvp(lambda family: family.divergence(mean, step), (family,), (by_family,))
    # Infinite in the mean at 0 and at 1; a finite number instead keeps 0 times it from being NaN.
    in_level = jnp.where(inside, 1 / (step * precision), 0)
    in_mean = jnp.where(inside, jnp.clip(parameter / (step * precision), -most, most), 0)
    return bound, in_mean * by_mean + in_level * (by_level - by_shape)


_upper.defjvp(functools.partial(_derivative, _upper))
_lower.defjvp(functools.partial(_derivative, _lower))


def level_of(
    mean: Float[ArrayLike, "..."], pulls: Num[ArrayLike, "..."], threshold: Float[ArrayLike, "..."], family: Family
) -> tuple[Float[Array, "..."], Float[Array, "..."], Bool[Array, "..."]]:
    """Threshold per pull, raised by a few units in the last place to cover the rounding of d, and whether it counts.

    It does not without any pull, with a mean outside the family's domain, or where mean or threshold are not finite.
    """
    mean = jnp.asarray(mean)
    count = jnp.asarray(pulls).astype(mean.dtype)
    slack = 1 + 8 * jnp.finfo(mean.dtype).eps
    level = jnp.asarray(threshold, mean.dtype) * slack / jnp.maximum(count, 1)
    some = (count > 0) & (level < jnp.inf) & (mean >= family.low) & (mean <= family.high)
    mean, level, some = jnp.broadcast_arrays(mean, level, some)
    return mean, level, some


def _bisect(
    inside: Callable[[Float[Array, "..."]], Bool[Array, "..."]], inner: Float[Array, "..."], outer: Float[Array, "..."]
) -> Float[Array, "..."]:
    """The outer end of the bracket after as many halvings as the dtype has bits to tell apart."""

    def halve(_, bracket):
        inner, outer = bracket
        middle = (inner + outer) / 2
        is_inside = inside(middle)
        return jnp.where(is_inside, middle, inner), jnp.where(is_inside, outer, middle)

    # Both ends may be products, and are added up.
    return jax.lax.fori_loop(0, jnp.finfo(outer.dtype).nmant + 3, halve, (rounded(inner), rounded(outer)))[1]


def outward(mean: Float[Array, "..."], width: Float[Array, "..."]) -> Float[Array, "..."]:
    """Mean + width, rounded up.

    Where the bound is close to the domain's end, d depends on (mean - width) / mean, whose rounding is worth several
    units in the last place of the mean; eight cover it.
    """
    unit = jnp.finfo(mean.dtype).eps
    return mean + (width + unit * (8 * jnp.abs(mean) + width))
