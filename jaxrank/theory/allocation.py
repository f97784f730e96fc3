"""The characteristic time: how many samples any algorithm needs, and how the best one spreads them over items."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import ArrayLike

from jaxrank.core.boundaries import Boundaries
from jaxrank.stats.families import Family
from jaxrank.theory.distances import in_double, in_given_order, ranked, require_gaps

MAX_STEPS = 400
"""Newton steps of the barrier method, at most."""


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
    clusters; m is the weighted mean. The information is homogeneous of degree 1 in w, so T* is also the smallest number
    of samples that gives every pair one unit of it: a convex problem, solved by an interior-point method (Newton steps
    on a log barrier). T* can be differentiated in the means, in 64 bit only; w* is taken as fixed.

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
def _characteristic_time(
    means: Float[Array, "K"], order: Int[Array, "K"], points: tuple[int, ...], family: Family
) -> Allocation:
    samples, price = _fewest_samples(_pairs(jax.lax.stop_gradient(means), points, family), len(means))
    information = _pairs(means, points, family).information(samples)
    time = _smallest_sum(information, samples, price)
    return Allocation(time, in_given_order(samples / jnp.sum(samples), order))


@jax.custom_jvp
def _smallest_sum(
    information: Float[Array, "P"], samples: Float[Array, "K"], price: Float[Array, "P"]
) -> Float[Array, ""]:
    """The smallest sum of samples that gives every pair one unit of information."""
    del price
    return jnp.sum(samples) / jnp.min(information)


@_smallest_sum.defjvp
def _(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    """Envelope theorem: derivatives are those of the constraints, times their Lagrange multipliers."""
    information, samples, price = primals
    if information.dtype.itemsize < 8:
        raise ValueError(
            "means must have 64 bits to differentiate characteristic_time, whose multipliers are too rough in 32: set "
            f"JAX's option jax_enable_x64 first, got {information.dtype}"
        )
    return _smallest_sum(information, samples, price), -jnp.vdot(price, tangents[0])


class _Pairs(NamedTuple):
    """Means and indices of all pairs from adjacent clusters; a pair's information is a function of its samples."""

    above: np.ndarray
    below: np.ndarray
    high: Float[Array, "P"]
    low: Float[Array, "P"]
    family: Family

    def middle(self, samples: Float[Array, "K"]) -> Float[Array, "P"]:
        """The weighted mean of the two items, where the pair's information is smallest."""
        first, second = samples[self.above], samples[self.below]
        return (first * self.high + second * self.low) / (first + second)

    def divergences(self, samples: Float[Array, "K"]) -> Float[Array, "2 P"]:
        """From both means to the weighted one: the slopes of the information in the two numbers of samples."""
        middle = self.middle(samples)
        return jnp.stack([self.family.divergence(mean, middle - mean) for mean in (self.high, self.low)])

    def information(self, samples: Float[Array, "K"]) -> Float[Array, "P"]:
        """What so many samples say about which of the two items is better."""
        slopes = self.divergences(samples)
        return samples[self.above] * slopes[0] + samples[self.below] * slopes[1]

    def curvature_root(self, samples: Float[Array, "K"]) -> Float[Array, "2 P"]:
        """v such that minus v v' is the second derivative of the information in the two numbers of samples.

        The derivative in m is 0 at the weighted mean, so m only counts in second order; the derivative of the natural
        parameter there is the inverse of the variance.
        """
        middle = self.middle(samples)
        zero, one = jnp.zeros_like(middle), jnp.ones_like(middle)
        _, precision = jax.jvp(lambda step: self.family.natural_step(middle, step)[0], (zero,), (one,))
        spread = jnp.sqrt(precision / (samples[self.above] + samples[self.below]))
        return jnp.stack([self.high - middle, self.low - middle]) * spread[None]


def _pairs(means: Float[Array, "K"], points: tuple[int, ...], family: Family) -> _Pairs:
    """All pairs from adjacent clusters, of means that are ranked."""
    cuts = (0, *points, len(means))
    grids = [
        np.meshgrid(np.arange(cuts[h], cuts[h + 1]), np.arange(cuts[h + 1], cuts[h + 2]), indexing="ij")
        for h in range(len(points))
    ]
    above, below = (np.concatenate([grid[side].ravel() for grid in grids]) for side in (0, 1))
    return _Pairs(above, below, means[above], means[below], family)


def _fewest_samples(pairs: _Pairs, num_items: int) -> tuple[Float[Array, "K"], Float[Array, "P"]]:
    """Samples per item with the smallest sum that give every pair one unit of information, and Lagrange multipliers.

    Minimises the log-barrier function for decreasing mu; the sum of samples then exceeds the smallest by at most mu
    times the number of pairs. mu is reduced once the Newton decrement is small.
    """
    kind, count = pairs.high.dtype, len(pairs.above)
    tolerance = 1e-11 if kind.itemsize > 4 else 1e-5
    lengths = 0.5 ** jnp.arange(24, dtype=kind)

    def turn(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        samples, mu, steps = carry
        step, decrement = _newton_step(pairs, samples, mu)
        values = jax.lax.map(lambda length: _barrier(pairs, samples * (1 + length * step), mu), lengths)
        better = values <= _barrier(pairs, samples, mu)
        length = jnp.where(jnp.any(better), lengths[jnp.argmax(better)], 0)
        near = (decrement < 0.05 * mu) | ~jnp.any(better)
        return samples * (1 + length * step), jnp.where(near, mu / 4, mu), steps + 1

    def going(carry: tuple[Array, Array, Array]) -> Bool[Array, ""]:
        samples, mu, steps = carry
        return (mu * count > tolerance * jnp.sum(samples)) & (steps < MAX_STEPS)

    ones = jnp.ones(num_items, kind)
    start = 2 * ones / jnp.min(pairs.information(ones))
    samples, _, _ = jax.lax.while_loop(going, turn, (start, jnp.sum(start) / count, jnp.zeros((), int)))
    information = pairs.information(samples)
    price = 1 / (information - 1)
    # Scaled by Euler's theorem: information is homogeneous of degree 1, so multipliers times it add up to the samples.
    return samples, price * jnp.sum(samples) / jnp.sum(price * information)


def _barrier(pairs: _Pairs, samples: Float[Array, "K"], mu: Float[Array, ""]) -> Float[Array, ""]:
    """sum(samples) - mu sum(log(information - 1)); infinite where a pair has too little information."""
    spare = pairs.information(samples) - 1
    inside = jnp.all(spare > 0) & jnp.all(samples > 0)
    return jnp.where(inside, jnp.sum(samples) - mu * jnp.sum(jnp.log(jnp.where(spare > 0, spare, 1))), jnp.inf)


def _newton_step(
    pairs: _Pairs, samples: Float[Array, "K"], mu: Float[Array, ""]
) -> tuple[Float[Array, "K"], Float[Array, ""]]:
    """A Newton step for the barrier function in log(samples), and by how much it promises to fall.

    Numbers of samples differ by orders of magnitude, and a step in their logarithms keeps them positive.
    """
    slopes, root = pairs.divergences(samples), pairs.curvature_root(samples)
    price = mu / (pairs.information(samples) - 1)
    sides = (pairs.above, pairs.below)
    gradient, matrix = jnp.ones_like(samples), jnp.zeros((len(samples), len(samples)), samples.dtype)
    for i, first in enumerate(sides):
        gradient = gradient.at[first].add(-price * slopes[i])
        for j, second in enumerate(sides):
            matrix = matrix.at[first, second].add(price**2 / mu * slopes[i] * slopes[j] + price * root[i] * root[j])
    scaled = matrix * samples[:, None] * samples[None]
    scaled = scaled + jnp.finfo(samples.dtype).eps * jnp.diag(jnp.diag(scaled))
    step = -jnp.linalg.solve(scaled, gradient * samples)
    return step, -jnp.vdot(step, gradient * samples)
