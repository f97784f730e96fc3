r"""Evidence that one item's mean is above another's: an e-process, valid at all times and under any sampling.

For rewards in [0, 1] with means at most m (item a) and at least m (item b), every

    exp(lambda S_a - N_a log(1 + m (e^lambda - 1))) exp(-mu S_b - N_b log(1 + m (e^-mu - 1))),   lambda, mu >= 0,

is a nonnegative supermartingale that starts at 1, whatever is sampled when, and so is any mixture of them with weights
fixed beforehand. `log_evidence` takes the smallest value over all m, a lower bound on the mixture at the true means if
p_a <= p_b. By Ville's inequality it then ever exceeds log(1/x) with probability at most x.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num
from numpy.typing import ArrayLike

from jaxrank.core.batch_axis import expand_items, gather
from jaxrank.core.protocol import Number
from jaxrank.core.tally import Tally
from jaxrank.stats.families import Family
from jaxrank.stats.numerics import log

SCALES = 2.0 * 3.0 ** -np.arange(8)
"""One for each size of gap, each with weight 1/8."""
STEPS = np.asarray([0.1, 0.5, 1.2])
"""Lambda is a scale times one of these, or 0, for either item by itself."""
WEIGHTS = np.asarray([0.1, 0.4, 0.4])
REST = 0.1
"""Weight of lambda = 0."""

MAX_NEWTON_STEPS = {4: 16, 8: 30}
"""Most Newton steps, by size of the float."""
SEARCH_TOLERANCE = {4: 1e-4, 8: 1e-9}
"""How much the returned value may fall short of the smallest one when the search ends before."""


def log_evidence(
    mean_a: Float[ArrayLike, "*P"],
    pulls_a: Num[ArrayLike, "*P"],
    mean_b: Float[ArrayLike, "*P"],
    pulls_b: Num[ArrayLike, "*P"],
    epsilon: Float[ArrayLike, "..."] = 0.0,
    needed: Float[ArrayLike, "..."] = -jnp.inf,
) -> Float[Array, "*P"]:
    """Logarithm of the evidence that item a is above item b: against p_a <= p_b - epsilon; never too large.

    The mixture is convex in m, so the smallest value is found by Newton steps inside a shrinking bracket. What is
    returned is where the tangent at the last point meets the bracket's end: below the smallest value wherever the
    search stopped, and equal to it but for rounding when it has converged. The search also ends where the evidence is
    sure to be below `needed`; it then returns a number between the two.

    Args:
      mean_a: empirical means of the items that may be better, any shape.
      pulls_a: how many answers each is the mean of.
      mean_b: empirical means of the others.
      pulls_b: how many answers each of those is the mean of.
      epsilon: the tolerance.
      needed: evidence below which the exact value does not matter.

    Returns:
      One number per pair; log(1/x) is exceeded, ever, with probability at most x if a is not above b.

    Example:
      >>> round(float(jr.log_evidence(0.6, 100, 0.3, 100)), 2)
      5.62
    """
    mean_a, mean_b = jnp.asarray(mean_a, float), jnp.asarray(mean_b, float)
    kind = mean_a.dtype
    count_a, count_b = (jnp.asarray(pulls).astype(kind) for pulls in (pulls_a, pulls_b))
    epsilon, needed = jnp.asarray(epsilon, kind), jnp.asarray(needed, kind)

    def mixture_at(m):
        return _mixture(m, mean_a, count_a, mean_b, count_b, epsilon)

    def least(m, low, high, seen):
        """Where the tangent at m meets the bracket's end, less what rounding may have added."""
        value, slope, _, size = seen
        spare = jnp.abs(slope) * jnp.where(slope > 0, m - low, high - m)
        return value - spare - 2 * jnp.finfo(kind).eps * (size + jnp.abs(value) + 1), spare

    def going(search):
        number, _, _, _, _, over = search
        return (number < MAX_NEWTON_STEPS[kind.itemsize]) & ~jnp.all(over)

    def step(search):
        number, m, low, high, best, over = search
        seen = mixture_at(m)
        value, slope, curvature, _ = seen
        bound, spare = least(m, low, high, seen)
        # Among bounds that all hold, the largest.
        best = jnp.where(over, best, jnp.where(value < needed, value, jnp.maximum(best, bound)))
        over |= (spare <= SEARCH_TOLERANCE[kind.itemsize]) | (value < needed)
        low, high = jnp.where(slope < 0, m, low), jnp.where(slope < 0, high, m)
        target = m - slope / jnp.maximum(curvature, jnp.finfo(kind).tiny)
        # A step that leaves the bracket halves it instead.
        target = jnp.where((target > low) & (target < high), target, (low + high) / 2)
        return number + 1, jnp.where(over, m, target), low, high, best, over

    low, high = jnp.zeros_like(mean_a), jnp.broadcast_to(1 - epsilon, mean_a.shape)
    shifted = jnp.clip(mean_b - epsilon, 0, 1)
    total = jnp.maximum(count_a + count_b, 1)
    start = jnp.clip((count_a * mean_a + count_b * shifted) / total, low, high)
    begun = (jnp.zeros((), int), start, low, high, jnp.full_like(mean_a, -jnp.inf), jnp.zeros(mean_a.shape, bool))
    best = jax.lax.while_loop(going, step, begun)[4]
    # Without any answer the mixture is 1 for all m.
    return jnp.where(count_a + count_b > 0, best, 0)


def _mixture(m, mean_a, count_a, mean_b, count_b, epsilon):
    """Logarithm of the mixture at m, its first and second derivative, and the size of the numbers it is made of."""
    above, below = _one_item(1, m, mean_a, count_a), _one_item(-1, m + epsilon, mean_b, count_b)
    logs, slopes, curvatures = (a + b for a, b in zip(above, below, strict=True))
    value, slope, curvature = _mean_of(logs, slopes, curvatures, 0)
    # A slope is the pulls times lambda, nearly; what is added up is of that size.
    size = jnp.sum(jnp.exp(logs - value[None]) * (jnp.abs(above[1]) + jnp.abs(below[1])), axis=0)
    return value - float(np.log(len(SCALES))), slope, curvature, size


def _one_item(sign, m, mean, count):
    """For every scale, the mixture over its steps for one item whose mean is m; scales on the first axis."""
    ndim = m.ndim
    products = sign * np.outer(STEPS, SCALES)
    constants = [np.expm1(products), products, np.log(WEIGHTS)[:, None]]
    factor, exponent, weight = (jnp.asarray(c, m.dtype).reshape(*c.shape, *[1] * ndim) for c in constants)
    m, mean, count = (value[None, None] for value in (m, mean, count))
    ratio = factor / (1 + m * factor)
    logs = weight + count * (exponent * mean - jnp.log1p(m * factor))
    return _mean_of(logs, -count * ratio, count * ratio * ratio, REST)


def _mean_of(logs, slopes, curvatures, rest):
    """Logarithm of a sum of exponentials along the first axis, with the derivatives of that logarithm.

    `rest` is one more term of the sum, a constant.
    """
    top = jnp.max(logs, axis=0)
    if rest:
        top = jnp.maximum(top, float(np.log(rest)))
    share = jnp.exp(logs - top[None])
    total = jnp.sum(share, axis=0) + (rest * jnp.exp(-top) if rest else 0)
    share = share / total[None]
    slope = jnp.sum(share * slopes, axis=0)
    # The spread of the slopes: the mean of their squares less the square of their mean, here without cancellation.
    spread = jnp.sum(share * (curvatures + (slopes - slope[None]) ** 2), axis=0)
    if rest:
        spread = spread + rest * jnp.exp(-top) / total * slope**2
    return top + log(total), slope, spread


def transport_costs(
    answers: Tally,
    rank: Int[Array, "K *T"],
    item: Int[Array, "B *T"],
    epsilon: Number,
    family: Family,
) -> Float[Array, "B K *T"]:
    """What each pair of these items with all others would lose of its log-likelihood in the wrong order.

    N_a d(p_a, m) + N_b d(p_b - epsilon, m), with empirical means, a the one that ranks higher, and m the weighted mean
    of the two: the generalised likelihood ratio, which log evidence follows at a distance.
    """
    means, pulls = answers.means, answers.pulls.astype(answers.sums.dtype)
    epsilon = expand_items(expand_items(jnp.asarray(epsilon, means.dtype)))
    mean, pull, place = (gather(table, item)[:, None] for table in (means, pulls, rank))
    first = place < rank[None]
    shifted = jnp.maximum(mean - jnp.where(first, 0, epsilon), 0)
    other = jnp.maximum(means[None] - jnp.where(first, epsilon, 0), 0)
    gap = other - shifted
    share = pull / jnp.maximum(pull + pulls[None], 1)
    near = family.divergence(shifted, gap * (1 - share))
    far = family.divergence(other, -gap * share)
    return pull * near + pulls[None] * far
