"""How far items stand from each other and from the boundaries of their clusters."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from jaxrank import environments
from jaxrank.core import checks
from jaxrank.core.boundaries import Boundaries, cut_points
from jaxrank.core.precision import enable_x64
from jaxrank.core.ranks import cluster_of_rank
from jaxrank.stats.families import Bernoulli, Family

Given = ParamSpec("Given")
Result = TypeVar("Result")


def in_double(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Compute concrete values in 64 bit and return NumPy arrays; leave traced ones as they are."""

    @functools.wraps(function)
    def wrapped(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        if any(isinstance(part, Tracer) for part in jax.tree.leaves((args, kwargs))):
            return function(*args, **kwargs)
        with enable_x64(True):
            return jax.tree.map(lambda part: np.asarray(part)[()], function(*args, **kwargs))

    return wrapped


@in_double
def divergence(x: Float[ArrayLike, "..."], y: Float[ArrayLike, "..."], family: Family | None = None) -> Array:
    """Kullback-Leibler divergence d(x, y) of two means.

    Args:
      x: means, any shape.
      y: means, of a shape that goes with it.
      family: the rewards' family; Bernoulli by default.

    Returns:
      The divergences, in the arguments' common shape.

    Example:
      >>> round(float(jr.theory.divergence(0.5, 0.75)), 4)
      0.1438
    """
    family, (x, y) = _domain(family, x=x, y=y)
    return family.divergence(x, y - x)


@in_double
def chernoff_information(x: Float[ArrayLike, "..."], y: Float[ArrayLike, "..."], family: Family | None = None) -> Array:
    r"""Chernoff information $d^*(x, y) = d(z^*, x) = d(z^*, y)$ of two means.

    In an exponential family with natural parameter $\eta$ and log-partition function A,
    $z^* = (A(y) - A(x)) / (\eta(y) - \eta(x))$. A mean at the end of the domain is its own $z^*$.

    Args:
      x: means, any shape.
      y: means, of a shape that goes with it.
      family: the rewards' family; Bernoulli by default.

    Returns:
      The information, in the arguments' common shape.

    Example:
      >>> round(float(jr.theory.chernoff_information(0.5, 0.75)), 4)
      0.0347
    """
    family, (x, y) = _domain(family, x=x, y=y)
    return chernoff(family, x, y)


def chernoff(family: Family, x: Float[Array, "..."], y: Float[Array, "..."]) -> Float[Array, "..."]:
    """`chernoff_information` of arrays of one shape, unchecked."""

    def at_the_end(mean):
        return (mean <= family.low) | (mean >= family.high)

    inner = ~at_the_end(x) & ~at_the_end(y) & (x != y)
    # Where there is nothing to divide, stand-ins keep the arithmetic (and its derivative) finite.
    mean, step = jnp.where(inner, x, 0.5), jnp.where(inner, y - x, 0.25)
    parameter, partition = family.natural_step(mean, step)
    point = jnp.where(inner, partition / parameter, jnp.where(at_the_end(x), x, y))
    sides = family.divergence(point, x - point), family.divergence(point, y - point)
    # Equal up to rounding, which near an end of the domain can be large; at the end itself one of them is 0.
    return jnp.where(x == y, 0, jnp.where(inner, jnp.minimum(*sides), jnp.maximum(*sides)))


def _domain(family: Family | None, **means):
    """The family and the means as arrays of one shape and type, checked."""
    family = Bernoulli() if family is None else family
    for name, values in means.items():
        family.check_means(name, values)
    arrays = jnp.broadcast_arrays(*(jnp.asarray(values, float) for values in means.values()))
    return family, arrays


def ranked(
    means: Float[ArrayLike, "K"], boundaries: Boundaries, family: Family | None
) -> tuple[Float[Array, "K"], Array, tuple[int, ...], Family]:
    """Means best first, the items in that order, the checked boundaries and the family."""
    family = Bernoulli() if family is None else family
    family.check_means("means", means)
    means = jnp.asarray(means, float)
    checks.require(means.ndim == 1, "means", "must be one number per item", f"shape {means.shape}")
    points = cut_points(len(means), boundaries)
    order = jnp.argsort(-means)
    return means[order], order, points, family


def require_gaps(means: ArrayLike, order: ArrayLike, points: tuple[int, ...]) -> None:
    """Raise if two items are tied across a boundary: no number of samples tells them apart. Tracers pass."""
    known, items = checks.concrete(means), checks.concrete(order)
    if known is None or items is None:
        return
    for point in points:
        if known[point - 1] == known[point]:
            above, below = int(items[point - 1]), int(items[point])
            raise ValueError(
                f"means must differ across every boundary, got {known[point]:g} for both item {above} and item "
                f"{below} around the one after rank {point}: no number of samples is enough to tell them apart; "
                "with epsilon > 0 hardness and upper_bound are finite"
            )


def in_given_order(values: Float[Array, "K"], order: Array) -> Float[Array, "K"]:
    """Values of ranked items, item by item."""
    return jnp.zeros_like(values).at[order].set(values)


def ends_of(points: tuple[int, ...], num_items: int):
    """For ranked items: numbers of the boundary above and below, and whether there is one."""
    cluster = cluster_of_rank(jnp.arange(num_items), points)
    has_above, has_below = cluster > 0, cluster < len(points)
    return (jnp.maximum(cluster - 1, 0), has_above), (jnp.minimum(cluster, len(points) - 1), has_below)


@in_double
def boundary_distances(
    means: Float[ArrayLike, "K"],
    boundaries: Boundaries,
    b: Float[ArrayLike, "C"],
    family: Family | None = None,
) -> Float[Array, "K"]:
    r"""The paper's $\Delta^*_b(a)$: Chernoff information between an item's mean and the nearest of the points b.

    Args:
      means: true mean of every item, shape (K,), in any order.
      boundaries: ranks after which a cluster ends, or a rule such as `quantiles(5)`.
      b: one point per boundary, best first, each between the means on its two sides; shape (C,).
      family: the rewards' family; Bernoulli by default.

    Returns:
      One number per item, shape (K,), in the order of `means`.

    Example:
      >>> jr.theory.boundary_distances([0.8, 0.5, 0.2], (1,), b=[0.65]).round(3).tolist()
      [0.014, 0.012, 0.117]
    """
    means, order, points, family = ranked(means, boundaries, family)
    b = jnp.asarray(b, float)
    checks.require(b.shape == (len(points),), "b", f"must have one point for each of {points}", f"shape {b.shape}")
    given, known = checks.concrete(b), checks.concrete(means)
    if given is not None and known is not None:
        for i, point in enumerate(points):
            rule = f"must lie in [{known[point]:g}, {known[point - 1]:g}] at the boundary after rank {point}"
            # A point that was printed and typed again is a little off.
            inside = known[point] - 1e-9 <= given[i] <= known[point - 1] + 1e-9
            checks.require(bool(inside), "b", rule, f"{given[i]:g}")
    return in_given_order(nearest(means, points, b, family), order)


def nearest(means, points, b, family):
    """`boundary_distances` of ranked items."""
    sides = [jnp.where(has, chernoff(family, means, b[number]), jnp.inf) for number, has in ends_of(points, len(means))]
    return jnp.minimum(*sides)


@in_double
def kl_distances(
    means: Float[ArrayLike, "K"], boundaries: Boundaries, family: Family | None = None
) -> Float[Array, "K"]:
    r"""The paper's $\Delta^{KL}_\kappa(a)$: divergence from an item's mean to the nearest of an adjacent cluster.

    Args:
      means: true mean of every item, shape (K,), in any order.
      boundaries: ranks after which a cluster ends, or a rule such as `quantiles(5)`.
      family: the rewards' family; Bernoulli by default.

    Returns:
      One number per item, shape (K,), in the order of `means`.

    Example:
      >>> jr.theory.kl_distances([0.8, 0.5, 0.2], (1,)).round(3).tolist()
      [0.193, 0.223, 0.832]
    """
    means, order, points, family = ranked(means, boundaries, family)
    last, first = means[jnp.asarray(points) - 1], means[jnp.asarray(points)]
    (above, has_above), (below, has_below) = ends_of(points, len(means))
    up = jnp.where(has_above, family.divergence(means, last[above] - means), jnp.inf)
    down = jnp.where(has_below, family.divergence(means, first[below] - means), jnp.inf)
    return in_given_order(jnp.minimum(up, down), order)


@in_double
def complete_ranking_hardness(means: Float[ArrayLike, "K"]) -> Float[Array, ""]:
    r"""Sum of $1/\Delta^2$ over the gaps between neighbours: what a full order costs, up to constants and logs.

    Args:
      means: true mean of every item, shape (K,), in any order.

    Returns:
      The sum.

    Example:
      >>> round(float(jr.theory.complete_ranking_hardness([0.8, 0.5, 0.2])), 2)
      22.22
    """
    gaps = jnp.diff(jnp.sort(jnp.asarray(means, float)))
    return jnp.sum(1 / (gaps * gaps))


borda_scores = in_double(environments.borda_scores)
