"""How good an order is, against the true means. Orders are item indices, best first, items on the last axis.

Means are one row for all orders, or have the orders' first axes: those of `Runs.order` of stacked instances, instances
x trials x items, are compared with means of shape instances x items.
"""

from statistics import NormalDist
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import ArrayLike

from jaxrank.core import checks
from jaxrank.core.boundaries import Boundaries, cut_points
from jaxrank.core.ranks import cluster_of_rank
from jaxrank.stats.gaps import Limits, best_clustering


def clusters(order: Int[ArrayLike, "*T K"], boundaries: Boundaries) -> Int[Array, "*T K"]:
    """The cluster, from 0, that an order puts every item in.

    Args:
      order: items, best first, on the last axis.
      boundaries: ranks after which a cluster ends, or a rule such as `quantiles(5)`.

    Returns:
      One number per item, 0 for the best cluster, in the shape of `order`.

    Example:
      >>> jr.metrics.clusters([2, 0, 1], (1,)).tolist()  # item 2 is the top one
      [1, 1, 0]
    """
    order = _checked_order(order)
    return cluster_of_rank(jnp.argsort(order, axis=-1).astype(order.dtype), cut_points(order.shape[-1], boundaries))


def mistakes(
    order: Int[ArrayLike, "*T K"],
    means: Float[ArrayLike, "..."],
    boundaries: Boundaries,
    epsilon: Float[ArrayLike, "..."] = 0.0,
) -> Bool[Array, "*T"]:
    r"""Whether some item stands in a cluster it does not belong to, up to the tolerance epsilon.

    Cluster i may hold the items of the paper's $M^*_{i,\epsilon}$: those with
    $p_{\kappa_{i-1}+1} + \epsilon \ge p_a \ge p_{\kappa_i} - \epsilon$ (with $\kappa_0 = 0$), so at epsilon = 0 the
    exact clusters, in which items of equal mean are interchangeable. Comparisons forgive the rounding of the means.

    Args:
      order: items, best first, on the last axis; axes before it are trials, or instances and trials.
      means: true mean of every item, for all orders, or with the orders' first axes.
      boundaries: ranks after which a cluster ends, or a rule such as `quantiles(5)`.
      epsilon: the tolerance.

    Returns:
      One bool per order.

    Example:
      >>> jr.metrics.mistakes([[0, 1, 2], [1, 0, 2]], [0.9, 0.8, 0.1], (1,)).tolist()
      [False, True]
    """
    order, means = _aligned(order, means)
    epsilon = _tolerance(epsilon, order, means.dtype)
    num_items = order.shape[-1]
    cuts = (0, *cut_points(num_items, boundaries), num_items)
    ranked = -jnp.sort(-means, axis=-1)
    cluster = cluster_of_rank(jnp.arange(num_items), cuts[1:-1])
    best = ranked[..., np.asarray(cuts[:-1])][..., cluster]
    worst = ranked[..., np.asarray(cuts[1:]) - 1][..., cluster]
    slack = epsilon[..., None] + 4 * jnp.finfo(means.dtype).eps * jnp.max(jnp.abs(means), axis=-1, keepdims=True)
    placed = jnp.take_along_axis(means, order, axis=-1)
    return jnp.any((placed > best + slack) | (placed < worst - slack), axis=-1)


def gap_mistakes(
    order: Int[ArrayLike, "*T K"],
    found: Int[ArrayLike, "*T C"],
    means: Float[ArrayLike, "..."],
    allowed: Limits,
    epsilon: Float[ArrayLike, "..."] = 0.0,
) -> Bool[Array, "*T"]:
    """Whether boundaries that were found are wrong, such as `Runs.found_boundaries` of `GapRank`, with its `limits`.

    They are if an item stands on the wrong side of one of them, or if the gaps at another clustering's boundaries are
    wider by more than epsilon on average. Comparisons forgive the rounding of the means.

    Args:
      order: items, best first, on the last axis.
      found: the boundaries, on the last axis; the others are those of `order`.
      means: true mean of every item, for all orders, or with the orders' first axes.
      allowed: the clusterings that were allowed, `GapRank.limits`.
      epsilon: the tolerance.

    Returns:
      One bool per order.

    Example:
      >>> limits = jr.GapRank(num_items=3, num_clusters=2, delta=0.1).limits
      >>> jr.metrics.gap_mistakes([[0, 1, 2]] * 2, [[2], [1]], [0.9, 0.8, 0.1], limits).tolist()
      [False, True]
    """
    order, means = _aligned(order, means)
    epsilon = _tolerance(epsilon, order, means.dtype)
    num_items, found = order.shape[-1], jnp.asarray(found)
    rule = f"must have the axes of order but for the last, {order.shape[:-1]}"
    checks.require(found.shape[:-1] == order.shape[:-1], "found", rule, f"shape {found.shape}")
    slack = 4 * jnp.finfo(means.dtype).eps * jnp.max(jnp.abs(means), axis=-1, keepdims=True)
    place, inside = jnp.minimum(found, num_items - 1), found < num_items
    placed = jnp.take_along_axis(means, order, axis=-1)
    worst_above = jnp.take_along_axis(jax.lax.cummin(placed, axis=placed.ndim - 1), place - 1, axis=-1)
    best_below = jnp.take_along_axis(jax.lax.cummax(placed, axis=placed.ndim - 1, reverse=True), place, axis=-1)
    misplaced = jnp.any(inside & (worst_above < best_below - slack), axis=-1)
    ranked = -jnp.sort(-means, axis=-1)
    step = ranked[..., :-1] - ranked[..., 1:]
    width = jnp.sum(jnp.where(inside, jnp.take_along_axis(step, place - 1, axis=-1), 0), axis=-1)
    average = width / jnp.sum(inside, axis=-1).astype(means.dtype)
    best = best_clustering(jnp.moveaxis(step, -1, 0), allowed).value
    return misplaced | (average < best - epsilon - slack[..., 0])


def share_placed(
    order: Int[ArrayLike, "*T K"], means: Float[ArrayLike, "..."], boundaries: Boundaries
) -> Float[Array, "*T"]:
    """Share of items that an order puts in their true cluster.

    Args:
      order: items, best first, on the last axis; axes before it are trials, or instances and trials.
      means: true mean of every item, for all orders, or with the orders' first axes.
      boundaries: ranks after which a cluster ends, or a rule such as `quantiles(5)`.

    Returns:
      One number per order.

    Example:
      >>> jr.metrics.share_placed([0, 2, 1, 3], [0.9, 0.8, 0.2, 0.1], (2,)).item()
      0.5
    """
    order, means = _aligned(order, means)
    right = clusters(order, boundaries) == clusters(jnp.argsort(-means, axis=-1), boundaries)
    return jnp.mean(right.astype(means.dtype), axis=-1)


class Inversions(NamedTuple):
    """Pairs in the wrong order, split by whether the true clusters of the two differ.

    Attributes:
      inter: inverted pairs of items from different clusters, one number per order.
      intra: inverted pairs of items from the same cluster, one number per order.

    Example:
      See `inversions`.
    """

    inter: Int[Array, "*T"]
    intra: Int[Array, "*T"]


def inversions(order: Int[ArrayLike, "*T K"], means: Float[ArrayLike, "..."], boundaries: Boundaries) -> Inversions:
    """Inverted pairs between and within the true clusters.

    Args:
      order: items, best first, on the last axis; axes before it are trials, or instances and trials.
      means: true mean of every item, for all orders, or with the orders' first axes.
      boundaries: ranks after which a cluster ends, or a rule such as `quantiles(5)`.

    Returns:
      Two numbers per order; see `Inversions`.

    Example:
      >>> jr.metrics.inversions([1, 2, 0, 3], [0.9, 0.8, 0.2, 0.1], (2,)).inter.item()
      1
    """
    order, means = _aligned(order, means)
    true_cluster = clusters(jnp.argsort(-means, axis=-1), boundaries)
    total, inter = _inverted(order, means, true_cluster)
    return Inversions(inter=inter, intra=total - inter)


def kendall_tau_distance(order: Int[ArrayLike, "*T K"], means: Float[ArrayLike, "..."]) -> Float[Array, "*T"]:
    """Share of the K(K-1)/2 pairs that an order has the wrong way round; pairs of equal mean never are.

    Args:
      order: items, best first, on the last axis.
      means: true mean of every item, for all orders, or with the orders' first axes.

    Returns:
      One number per order, between 0 and 1.

    Example:
      >>> round(float(jr.metrics.kendall_tau_distance([1, 0, 2], [0.9, 0.8, 0.1])), 3)
      0.333
    """
    order, means = _aligned(order, means)
    num_items = order.shape[-1]
    total, _ = _inverted(order, means, jnp.zeros_like(order))
    return total.astype(means.dtype) / (num_items * (num_items - 1) / 2)


def wilson_interval(
    successes: ArrayLike, trials: ArrayLike, confidence: float = 0.95
) -> tuple[np.ndarray | float, np.ndarray | float]:
    """Wilson's score interval for rates: honest at 0 and at 1, where the normal interval collapses.

    Args:
      successes: how often it happened, one number or an array.
      trials: of how many, one number or an array.
      confidence: level of the intervals.

    Returns:
      Lower and upper ends: two numbers, or two arrays of the arguments' common shape.

    Example:
      >>> low, high = jr.metrics.wilson_interval(0, 100)
      >>> low, round(high, 3)
      (0.0, 0.037)
    """
    checks.inside("trials", trials, 1, float("inf"), "[)")
    checks.nonnegative("successes", successes)
    checks.probability("confidence", confidence)
    number, count = np.broadcast_arrays(np.asarray(successes, float), np.asarray(trials, float))
    for name, value in (("successes", number), ("trials", count)):
        checks.require(bool((value == np.round(value)).all()), name, "must be whole numbers", value)
    checks.require(bool((number <= count).all()), "successes", f"must be at most trials, {trials}", successes)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    rate, shrink = number / count, 1 + z * z / count
    centre = (rate + z * z / (2 * count)) / shrink
    half = z / shrink * (rate * (1 - rate) / count + z * z / (4 * count * count)) ** 0.5
    # Rounding must not push an end past the rate itself, which at 0 and 1 is the end.
    low, high = np.maximum(0, np.minimum(rate, centre - half)), np.minimum(1, np.maximum(rate, centre + half))
    return (low, high) if rate.ndim else (float(low), float(high))


def _aligned(
    order: Int[ArrayLike, "*T K"], means: Float[ArrayLike, "..."]
) -> tuple[Int[Array, "*T K"], Float[Array, "*T K"]]:
    """Both as arrays of one shape."""
    order, means = _checked_order(order), jnp.asarray(means, float)
    checks.numbers("means", means)
    num_items, shape = order.shape[-1], jnp.shape(means)
    checks.require(bool(shape) and shape[-1] == num_items, "means", f"must have {num_items} items like order", shape)
    return order, jnp.broadcast_to(_with_axes("means", means, shape[:-1], order), order.shape)


def _with_axes(
    name: str, value: Float[Array, "..."], axes: tuple[int, ...], order: Int[Array, "*T K"]
) -> Float[Array, "..."]:
    """The value with these leading axes of it facing the first ones of the orders.

    Axes are matched from the left, not from the right as in broadcasting: with as many instances as trials, the two
    would else be mistaken for each other.
    """
    ours = order.shape[:-1]
    # Axes of length 1 may stand for any length.
    fits = len(axes) <= len(ours) and all(a in (1, b) for a, b in zip(axes, ours[: len(axes)], strict=True))
    rule = f"must be the same for all orders or have their first axes, {ours}"
    checks.require(fits, name, rule, f"shape {jnp.shape(value)}")
    return jnp.reshape(value, (*axes, *[1] * (len(ours) - len(axes)), *jnp.shape(value)[len(axes) :]))


def _tolerance(epsilon: Float[ArrayLike, "..."], order: Int[Array, "*T K"], kind: np.dtype) -> Float[Array, "*T"]:
    """The tolerance of every order."""
    checks.nonnegative("epsilon", epsilon)
    epsilon = jnp.asarray(epsilon, kind)
    return jnp.broadcast_to(_with_axes("epsilon", epsilon, epsilon.shape, order), order.shape[:-1])


def _checked_order(order: Int[ArrayLike, "*T K"]) -> Int[Array, "*T K"]:
    """The order as an array, each row of which lists every item once."""
    values = checks.concrete(order)
    if values is not None:
        whole = np.issubdtype(values.dtype, np.integer) and values.ndim > 0
        checks.require(whole, "order", "must be item numbers, best first", f"{values.dtype} of shape {values.shape}")
        wrong = (np.sort(values, axis=-1) != np.arange(values.shape[-1])).any(axis=-1)
        if wrong.any():
            row = values[wrong][0] if values.ndim > 1 else values
            checks.fail("order", "must list every item from 0 to K-1 once, best first", row.tolist())
    return jnp.asarray(order)


def _inverted(
    order: Int[Array, "*T K"], means: Float[Array, "*T K"], group: Int[Array, "*T K"]
) -> tuple[Int[Array, "*T"], Int[Array, "*T"]]:
    """Inverted pairs, and those of them whose groups differ; position by position, to need no K x K memory."""
    placed = jnp.take_along_axis(means, order, axis=-1)
    label = jnp.take_along_axis(group, order, axis=-1)
    place = jnp.broadcast_to(jnp.arange(order.shape[-1]), order.shape)

    def behind(counts, position):
        total, apart = counts
        wrong = (placed > placed[..., position, None]) & (place > position)
        differs = label != label[..., position, None]
        return (total + jnp.sum(wrong, axis=-1), apart + jnp.sum(wrong & differs, axis=-1)), None

    zero = jnp.zeros(order.shape[:-1], int)
    return jax.lax.scan(behind, (zero, zero), jnp.arange(order.shape[-1]))[0]
