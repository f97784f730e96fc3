"""The characteristic time: how many samples any algorithm needs, and how the best one spreads them over items."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxrank.core.boundaries import Boundaries
from jaxrank.stats.families import Family
from jaxrank.theory.distances import in_double, in_given_order, ranked, require_gaps

MOST_STEPS = 400


class Allocation(NamedTuple):
    r"""The characteristic time and the allocation that attains it.

    Attributes:
      time: T*; an algorithm that errs with probability delta takes at least $T^* d(\delta, 1 - \delta)$ samples.
      weights: w*, the share of samples that each item gets from the best algorithm, shape (K,).

    Example:
      >>> found = jr.theory.characteristic_time([0.8, 0.5, 0.2], (1,))
      >>> found.weights.round(2).tolist()
      [0.49, 0.45, 0.07]
    """

    time: Float[Array, ""]
    weights: Float[Array, "K"]


@in_double
def characteristic_time(
    means: Float[ArrayLike, "K"], boundaries: Boundaries, family: Family | None = None
) -> Allocation:
    r"""T* and w* of coarse ranking, for epsilon = 0.

    $1/T^* = \max_w \min_{(a, b)} \inf_m w_a d(p_a, m) + w_b d(p_b, m)$ over shares w and pairs (a, b) from adjacent
    clusters; m is the weighted mean. The information is of degree 1 in w, so T* is also the smallest number of samples
    that give every pair one unit of it: a convex problem, solved by Newton steps along a barrier. T* can be
    differentiated in the means; w* is taken as fixed.

    Args:
      means: true mean of every item, shape (K,), in any order.
      boundaries: ranks after which a cluster ends, or a rule such as `quantiles(5)`.
      family: the rewards' family; Bernoulli by default.

    Returns:
      T* and w*.

    Example:
      >>> round(float(jr.theory.characteristic_time([0.8, 0.5, 0.2], (1,)).time), 1)
      21.1
    """
    means, order, points, family = ranked(means, boundaries, family)
    require_gaps(means, order, points)
    return _characteristic_time(means, order, points, family)


@functools.partial(jax.jit, static_argnames="points")
def _characteristic_time(means, order, points, family) -> Allocation:
    above, below = _pairs(points, len(means))
    samples, price = _fewest_samples(jax.lax.stop_gradient(means), family, points)
    information = _information(family, means[above], means[below], samples[above], samples[below])
    weakest = jax.lax.stop_gradient(jnp.min(information))
    # Derivatives of the smallest sum are those of the constraints, times their prices.
    change = jnp.sum(price * (jax.lax.stop_gradient(information) - information))
    time = jnp.sum(samples) / weakest + change
    return Allocation(time, in_given_order(samples / jnp.sum(samples), order))


def _pairs(points: tuple[int, ...], num_items: int) -> tuple[np.ndarray, np.ndarray]:
    """Ranks of all pairs from adjacent clusters."""
    cuts = (0, *points, num_items)
    grids = [
        np.meshgrid(np.arange(cuts[h], cuts[h + 1]), np.arange(cuts[h + 1], cuts[h + 2]), indexing="ij")
        for h in range(len(points))
    ]
    return np.concatenate([a.ravel() for a, _ in grids]), np.concatenate([b.ravel() for _, b in grids])


def _information(family, high, low, samples_high, samples_low):
    """What so many samples of two items say about which is better."""
    middle = (samples_high * high + samples_low * low) / (samples_high + samples_low)
    return samples_high * family.divergence(high, middle - high) + samples_low * family.divergence(low, middle - low)


def _fewest_samples(means, family, points):
    """Samples per item with the smallest sum that give every pair one unit of information, and each pair's price.

    Minimises sum(samples) - mu sum(log(information - 1)) for falling mu; the sum is then mu times the number of pairs
    too large at most. mu falls once a Newton step is short.
    """
    above, below = _pairs(points, len(means))
    high, low, count = means[above], means[below], len(above)
    exact = means.dtype.itemsize > 4

    def spare(samples):
        return _information(family, high, low, samples[above], samples[below]) - 1

    def derivatives(samples):
        """Slope of each pair's information in its two numbers of samples, and its curvature, which has rank one.

        The weighted mean is where the slope in m is 0, so it only counts in second order; its own speed there is the
        inverse of the variance.
        """
        total = samples[above] + samples[below]
        middle = (samples[above] * high + samples[below] * low) / total
        slope = jnp.stack([family.divergence(mean, middle - mean) for mean in (high, low)])
        zero, one = jnp.zeros_like(middle), jnp.ones_like(middle)
        _, precision = jax.jvp(lambda step: family.natural_step(middle, step)[0], (zero,), (one,))
        spread = jnp.sqrt(precision / total)
        off = jnp.stack([(high - middle) * spread, (low - middle) * spread])
        return slope, off

    def newton(samples, mu):
        slope, off = derivatives(samples)
        price = mu / spare(samples)
        gradient = jnp.ones_like(samples).at[above].add(-price * slope[0]).at[below].add(-price * slope[1])
        matrix = jnp.zeros((len(means), len(means)), means.dtype)
        for i, first in enumerate((above, below)):
            for j, second in enumerate((above, below)):
                amount = price**2 / mu * slope[i] * slope[j] + price * off[i] * off[j]
                matrix = matrix.at[first, second].add(amount)
        # In the variables log(samples): their sizes differ by orders of magnitude, and the step keeps them positive.
        scaled = matrix * samples[:, None] * samples[None]
        scaled = scaled + jnp.finfo(means.dtype).eps * jnp.diag(jnp.diag(scaled))
        step = -jnp.linalg.solve(scaled, gradient * samples)
        return step, -jnp.vdot(step, gradient * samples)

    def value(samples, mu):
        left = spare(samples)
        inside = jnp.all(left > 0) & jnp.all(samples > 0)
        return jnp.where(inside, jnp.sum(samples) - mu * jnp.sum(jnp.log(jnp.where(left > 0, left, 1))), jnp.inf)

    def turn(carry):
        samples, mu, steps = carry
        step, decrement = newton(samples, mu)
        lengths = 0.5 ** jnp.arange(24, dtype=means.dtype)
        tries = jax.lax.map(lambda length: value(samples * (1 + length * step), mu), lengths)
        better = tries <= value(samples, mu)
        length = jnp.where(jnp.any(better), lengths[jnp.argmax(better)], 0)
        near = (decrement < 0.05 * mu) | ~jnp.any(better)
        return samples * (1 + length * step), jnp.where(near, mu / 4, mu), steps + 1

    def going(carry):
        samples, mu, steps = carry
        return (mu * count > (1e-11 if exact else 1e-5) * jnp.sum(samples)) & (steps < MOST_STEPS)

    even = _information(family, high, low, jnp.ones_like(high), jnp.ones_like(low))
    start = jnp.full_like(means, 2) / jnp.min(even)
    samples, _, _ = jax.lax.while_loop(going, turn, (start, jnp.sum(start) / count, jnp.zeros((), int)))
    price = 1 / spare(samples)
    # Prices add up to the number of samples, by the degree of the information.
    return samples, price * jnp.sum(samples) / jnp.sum(price * (spare(samples) + 1))
