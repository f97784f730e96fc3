"""Theorems 2 and 3 of the paper: how many samples LUCBRank takes at most, and any algorithm at least."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from jaxrank.core import checks
from jaxrank.core.boundaries import Boundaries
from jaxrank.core.ranks import cluster_of_rank
from jaxrank.stats.families import Family
from jaxrank.stats.sequences import ALPHA, Design, smallest_k1
from jaxrank.theory.allocation import characteristic_time
from jaxrank.theory.distances import chernoff, ends_of, in_double, kl_distances, nearest, ranked, require_gaps

FIRST_GRID, GRID = 129, 33
"""Points per boundary of the first search, and of each that follows inside two steps of the one before."""


class Hardness(NamedTuple):
    """The paper's H* and where its boundary points stand.

    Attributes:
      value: H*.
      b: the minimising points, one per boundary, best first; shape (C,).

    Example:
      >>> found = jr.theory.hardness([0.8, 0.5, 0.2], (1,))
      >>> round(float(found.value), 1), found.b.round(2).tolist()
      (162.0, [0.66])
    """

    value: Float[Array, ""]
    b: Float[Array, "C"]


@in_double
def hardness(
    means: Float[ArrayLike, "K"],
    boundaries: Boundaries,
    epsilon: Float[ArrayLike, ""] = 0.0,
    family: Family | None = None,
) -> Hardness:
    r"""The smallest $H^*_{\epsilon,b} = \sum_a 1 / \max(\Delta^*_b(a), \epsilon^2/2)$ over the points b.

    An item between two boundaries couples their points, so they form a chain: dynamic programming over a grid finds
    the best points together, and again over finer grids around them. Derivatives in the means keep every point at a
    fixed fraction of its gap.

    Args:
      means: true mean of every item, shape (K,), in any order.
      boundaries: ranks after which a cluster ends, or a rule such as `quantiles(5)`.
      epsilon: the tolerance.
      family: the rewards' family; Bernoulli by default.

    Returns:
      H* and the points b.

    Example:
      >>> round(float(jr.theory.hardness([0.8, 0.5, 0.2], (1,), epsilon=0.3).value), 1)
      45.7
    """
    checks.nonnegative("epsilon", epsilon)
    means, order, points, family = ranked(means, boundaries, family)
    epsilon = jnp.asarray(epsilon, means.dtype)
    known = checks.concrete(epsilon)
    if known is not None and known == 0:
        require_gaps(means, order, points)
    return _hardness(means, points, epsilon, family)


@functools.partial(jax.jit, static_argnames="points")
def _hardness(means, points, epsilon, family) -> Hardness:
    share = jax.lax.stop_gradient(_best_shares(jax.lax.stop_gradient(means), points, epsilon, family))
    low, high = means[jnp.asarray(points)], means[jnp.asarray(points) - 1]
    b = low + share * (high - low)
    return Hardness(jnp.sum(1 / jnp.maximum(nearest(means, points, b, family), epsilon**2 / 2)), b)


def _best_shares(means, points, epsilon, family):
    """Where in its gap each point stands: 0 is the lower end."""
    low, high = means[jnp.asarray(points)], means[jnp.asarray(points) - 1]
    cap = jnp.where(epsilon > 0, 2 / jnp.where(epsilon > 0, epsilon, 1) ** 2, jnp.inf)

    def search(centre, reach, size):
        start = jnp.clip(centre - reach, 0, jnp.maximum(0, 1 - 2 * reach))
        steps = 2 * reach * jnp.linspace(0, 1, size, dtype=means.dtype)
        shares = jnp.clip(start[:, None] + steps[None], 0, 1)
        grid = low[:, None] + shares * (high - low)[:, None]
        choice = _best_chain(means, points, grid, cap, family)
        # From here on two steps of this grid to either side.
        return jnp.take_along_axis(shares, choice[:, None], axis=1)[:, 0], 4 * reach / (size - 1)

    begun = search(jnp.full(len(points), 0.5, means.dtype), jnp.full((), 0.5, means.dtype), FIRST_GRID)
    times = 4 if means.dtype.itemsize == 4 else 11
    return jax.lax.fori_loop(0, times, lambda _, found: search(found[0], found[1], GRID), begun)[0]


def _best_chain(means, points, grid, cap, family):
    """Index into each boundary's grid, such that the sum of all items' costs is smallest."""
    count, size = grid.shape
    (above, has_above), (below, has_below) = ends_of(points, len(means))

    def cost(mean, number, has):
        distance = chernoff(family, jnp.broadcast_to(mean, (size,)), grid[number])
        return jnp.where(has, jnp.where(distance > 0, 1 / jnp.where(distance > 0, distance, 1), jnp.inf), 0)

    def add(total, item):
        mean, cluster, above, has_above, below, has_below = item
        both = jnp.maximum(cost(mean, above, has_above)[:, None], cost(mean, below, has_below)[None])
        return total.at[cluster].add(jnp.minimum(both, cap)), None

    cluster = cluster_of_rank(jnp.arange(len(means)), points)
    empty = jnp.zeros((count + 1, size, size), means.dtype)
    costs, _ = jax.lax.scan(add, empty, (means, cluster, above, has_above, below, has_below))

    def extend(best, costs):
        through = best[:, None] + costs
        return jnp.min(through, axis=0), jnp.argmin(through, axis=0)

    # The first cluster depends on the point below it only, the last on the one above it.
    best, before = jax.lax.scan(extend, costs[0, 0], costs[1:-1])
    last = jnp.argmin(best + costs[-1, :, 0])

    def back(choice, before):
        return before[choice], choice

    first, rest = jax.lax.scan(back, last, before, reverse=True)
    return jnp.concatenate([first[None], rest])


@in_double
def c0(alpha: Float[ArrayLike, ""]) -> Float[Array, ""]:
    r"""Theorem 2's constant: the larger root of $C = (1 + 1/e)(\alpha \log C + 1 + \alpha/e)$.

    The inequality that the theorem asks for also holds near 0, where the proof does not. Newton's method comes down to
    the root from the right, where the difference is convex.

    Args:
      alpha: exponent of the exploration rate, above 1.

    Returns:
      The constant.

    Example:
      >>> round(float(jr.theory.c0(1.1)), 3)
      4.012
    """
    checks.inside("alpha", alpha, 1, float("inf"), "()")
    factor = 1 + 1 / jnp.e
    slope = factor * jnp.asarray(alpha, float)
    offset = factor + slope / jnp.e
    root = 8 * (slope * slope + offset)
    for _ in range(30):
        root = root - (root - slope * jnp.log(root) - offset) / (1 - slope / root)
    return root


@in_double
def k1(alpha: Float[ArrayLike, ""], num_clusters: int) -> Float[Array, ""]:
    """The smallest k1 for which Theorem 1 holds, one sample per critical item and round; see `LUCBRank`.

    Args:
      alpha: exponent of the exploration rate, above 1.
      num_clusters: c.

    Returns:
      The constant.

    Example:
      >>> round(float(jr.theory.k1(1.1, 3)), 2)
      1142.68
    """
    checks.inside("alpha", alpha, 1, float("inf"), "()")
    num_clusters = checks.whole("num_clusters", num_clusters, low=2)
    return smallest_k1(jnp.asarray(alpha, float), Design(num_items=num_clusters, num_boundaries=num_clusters - 1))


@in_double
def upper_bound(
    means: Float[ArrayLike, "K"],
    boundaries: Boundaries,
    *,
    delta: Float[ArrayLike, ""] = 0.1,
    epsilon: Float[ArrayLike, ""] = 0.0,
    alpha: Float[ArrayLike, ""] = ALPHA,
    family: Family | None = None,
) -> Float[Array, ""]:
    r"""Theorem 2: with probability 1 - delta LUCBRank takes at most this many samples.

    $2 C_0(\alpha) H^* \log(k_1 K (2 H^*)^\alpha / \delta)$, with the smallest $H^*$ and $k_1$.

    Args:
      means: true mean of every item, shape (K,), in any order.
      boundaries: ranks after which a cluster ends, or a rule such as `quantiles(5)`.
      delta: probability of a wrong result, at most.
      epsilon: the tolerance.
      alpha: exponent of the exploration rate, above 1.
      family: the rewards' family; Bernoulli by default.

    Returns:
      A number of samples.

    Example:
      >>> round(float(jr.theory.upper_bound([0.8, 0.5, 0.2], (1,), delta=0.1)))
      21843
    """
    checks.probability("delta", delta)
    ordered, _, points, _ = ranked(means, boundaries, family)
    value = hardness(means, boundaries, epsilon, family).value
    alpha = jnp.asarray(alpha, float)
    log_term = jnp.log(k1(alpha, len(points) + 1) * len(ordered) / jnp.asarray(delta, float))
    return 2 * c0(alpha) * value * (log_term + alpha * jnp.log(2 * value))


@in_double
def lower_bound(
    means: Float[ArrayLike, "K"],
    boundaries: Boundaries,
    *,
    delta: Float[ArrayLike, ""] = 0.1,
    family: Family | None = None,
) -> Float[Array, ""]:
    r"""Theorem 3: any algorithm that errs with probability delta at most takes at least this many samples on average.

    $\sum_a 1 / \Delta^{KL}(a) \log(1 / (2.4 \delta))$, for epsilon = 0 and delta at most 0.15.

    Args:
      means: true mean of every item, shape (K,), in any order.
      boundaries: ranks after which a cluster ends, or a rule such as `quantiles(5)`.
      delta: probability of a wrong result, at most.
      family: the rewards' family; Bernoulli by default.

    Returns:
      A number of samples.

    Example:
      >>> round(float(jr.theory.lower_bound([0.8, 0.5, 0.2], (1,), delta=0.1)), 1)
      15.5
    """
    checks.inside("delta", delta, 0, 0.15, "(]")
    ordered, order, points, family = ranked(means, boundaries, family)
    require_gaps(ordered, order, points)
    return jnp.sum(1 / kl_distances(means, points, family)) * jnp.log(1 / (2.4 * jnp.asarray(delta, float)))


@in_double
def sharp_lower_bound(
    means: Float[ArrayLike, "K"],
    boundaries: Boundaries,
    *,
    delta: Float[ArrayLike, ""] = 0.1,
    family: Family | None = None,
) -> Float[Array, ""]:
    r"""$T^* d(\delta, 1 - \delta)$: a lower bound like Theorem 3's, and the best one as delta goes to 0.

    Args:
      means: true mean of every item, shape (K,), in any order.
      boundaries: ranks after which a cluster ends, or a rule such as `quantiles(5)`.
      delta: probability of a wrong result, at most.
      family: the rewards' family; Bernoulli by default.

    Returns:
      A number of samples.

    Example:
      >>> round(float(jr.theory.sharp_lower_bound([0.8, 0.5, 0.2], (1,), delta=0.1)), 1)
      37.1
    """
    checks.inside("delta", delta, 0, 0.5, "(]")
    delta = jnp.asarray(delta, float)
    wrong = (1 - 2 * delta) * (jnp.log1p(-delta) - jnp.log(delta))
    return characteristic_time(means, boundaries, family).time * wrong
