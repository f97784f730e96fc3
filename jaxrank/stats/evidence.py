r"""Evidence that one item's mean is above another's: an e-process, valid at all times and under any sampling.

Let psi_m(lambda) be the logarithm of E exp(lambda X) for a reward X of mean m (for rewards in [0, 1] that of the worst
case, 0 or 1). For items with means at most m (item a) and at least m + epsilon (item b), every

    exp(lambda S_a - N_a psi_m(lambda)) exp(-mu S_b - N_b psi_{m+epsilon}(-mu)),   lambda, mu >= 0,

is a nonnegative supermartingale that starts at 1, whatever is sampled when, and so is any mixture of them with weights
fixed beforehand. `log_evidence` takes the smallest value over all m, a lower bound on the mixture at the true means if
p_a <= p_b - epsilon. By Ville's inequality it then ever exceeds log(1/x) with probability at most x.

The weights favour pairs of equal or nearly equal parameters: each lambda of a lattice carries a share, and beside it
stands the same one, one that is one to three steps smaller, or 0.
"""

import functools
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num
from numpy.typing import ArrayLike

from jaxrank.core.batch_axis import expand_items, gather
from jaxrank.core.compiled import compiled
from jaxrank.core.protocol import Number
from jaxrank.core.tally import Tally
from jaxrank.stats.families import Bernoulli, Family, Values
from jaxrank.stats.numerics import log, product, rounded

NUM_LAMBDAS = 16
"""Lambdas of a lattice besides 0; unused ones have weight 0."""
SHARES = np.asarray([0.4, 0.7, 1, 1.2, 1.3, 1.3, 1.2, 1, 0.7, 0.4, 0.2]) / 9.4
"""Without a tolerance: share of every octave of lambda, from 1.5 down."""
LONG_SHARES = np.asarray([*SHARES * 9.4, *[0.2] * 5]) / 10.4
"""The same for families whose lattice does not depend on the tolerance: five octaves more."""
PARTNERS = np.asarray([(0.75, 0.05, 0.05, 0.1, 0.05), (0.25, 0.1, 0.2, 0.25, 0.2)])
"""Shares of partners 0, 1, 2 and 3 steps smaller, and of 0: for pairs with equal and with unequal numbers of pulls."""
TOLERANCE_PARTNERS = (0.3, 0.25, 0.2, 0.15, 0.1)
"""The same with a tolerance."""
TOLERANCE_RATIO, TOLERANCE_DECAY = 1.6, 0.8
"""With a tolerance: ratio of neighbouring lambdas, and of their shares."""
BERNOULLI = Bernoulli()
OVERSHOOT = 1.5
"""Factor of a Newton step while the smallest value is not known to lie between two points."""
SEARCH_STEPS = {4: 20, 8: 30}
"""Steps of the search over m, by size of the float."""


@runtime_checkable
class EvidenceFamily(Family, Protocol):
    """A family with exponential supermartingales, as evidence for pairs needs them.

    `Bernoulli` (for any rewards in [0, 1]), `Gaussian`, `Poisson` and `Exponential` are such families.

    Attributes:
      evidence_unit: twice the rewards' standard deviation where that is known, to which lambdas are scaled, or 1.
      scale_free: whether one lattice of lambdas serves all tolerances, because the family's unit is not known.

    Example:
      >>> isinstance(jr.Gaussian(sigma=2.0), jr.EvidenceFamily)
      True
    """

    @property
    def evidence_unit(self) -> Number:
        """See above."""
        ...

    @property
    def scale_free(self) -> bool:
        """See above."""
        ...

    def log_martingale(
        self, parameter: Values, mean: Values, count: Values, point: Values, epsilon: Values
    ) -> tuple[Values, Values, Values, Values]:
        """Logarithm of a supermartingale for rewards of mean m + epsilon, where `point` stands for m.

        Returns:
          The logarithm, its first and second derivative in `point`, and the size of the numbers it is made of, which
          says how far off rounding may be. It must be convex in `point`. A positive parameter must give a
          supermartingale for smaller means too, a negative one for larger means.
        """
        ...

    def search_point(self, mean: Values) -> Values:
        """The point that stands for a mean: the mean itself, or 1 over it."""
        ...

    def search_range(self, epsilon: Values) -> tuple[Values, Values]:
        """The smallest and the largest point."""
        ...


class Lattice(NamedTuple):
    """Lambdas, largest first, and the logarithms of the weights of all terms, in the order of `_groups`."""

    lambdas: Float[Array, "16 ..."]
    log_weights: list[Float[Array, "16 ..."]]


def lattice(epsilon: Float[Array, "..."], second: Bool[Array, "..."], family: EvidenceFamily) -> Lattice:
    """The lattice for a tolerance; for tolerance 0 the first or the second mixture.

    With a tolerance, lambdas are 1.8 epsilon 1.6^k up to the first that reaches 1.6, the largest sixteen of them. These
    are numbers for rewards of standard deviation 1/2; the family scales them.
    """
    kind, place = epsilon.dtype, np.arange(NUM_LAMBDAS).reshape(-1, *[1] * epsilon.ndim)

    def constant(values: np.ndarray) -> Float[Array, "16 *E"]:
        return jnp.asarray(values.reshape(place.shape), kind)

    if family.scale_free:
        shares, lambdas = constant(LONG_SHARES), constant(1.5 * 0.5**place)
        exact = jnp.ones_like(epsilon, bool)[None]
    else:
        exact = (epsilon == 0)[None]
        smallest = jnp.where(exact, 1, 1.8 * epsilon[None])
        # A hair below a whole number is that number, whatever the rounding.
        steps = jnp.maximum(jnp.ceil(log(1.6 / smallest) / np.log(TOLERANCE_RATIO) - 1e-4), 1)
        largest = smallest * jnp.exp(steps * np.log(TOLERANCE_RATIO))
        shares = jnp.where(steps >= constant(place), constant(TOLERANCE_DECAY ** -place.astype(float)), 0)
        shares = shares / _sum([shares])[None]
        shares = jnp.where(exact, constant(np.pad(SHARES, (0, NUM_LAMBDAS - len(SHARES)))), shares)
        lambdas = jnp.where(
            exact, constant(1.5 * 0.5**place), largest * constant(TOLERANCE_RATIO ** -place.astype(float))
        )
    columns = zip(*PARTNERS.tolist(), TOLERANCE_PARTNERS, strict=True)
    partners = [jnp.where(exact, jnp.where(second[None], two, one), other) for one, two, other in columns]
    return Lattice(jnp.where(shares > 0, lambdas, 0), _log_weights(shares, partners))


def _log_weights(shares: Float[Array, "16 ..."], partners: list[Float[Array, "1 ..."]]) -> list[Float[Array, "16 ..."]]:
    """Weights in the order of `_groups`; a partner past the end of the lattice is 0, and joins those alone."""
    weights, alone = [shares * partners[0]], shares * partners[4] / 2
    for steps in (1, 2, 3):
        half = shares * partners[steps] / 2
        has_partner = _shifted(shares, steps) > 0
        weight = jnp.where(has_partner, half, 0)
        weights += [weight, _shifted(weight, -steps)]
        alone = alone + jnp.where(has_partner, 0, half)
    return [
        jnp.where(weight > 0, log(jnp.where(weight > 0, weight, 1)), -jnp.inf) for weight in (*weights, alone, alone)
    ]


def _groups(a: Float[Array, "16 *P"], b: Float[Array, "16 *P"]) -> list[Float[Array, "16 *P"]]:
    """The sum of both items' parts for every term: equal lambdas, b's smaller, a's smaller, and one of them 0."""
    return [a + b, *(a + _shifted(b, shift) for steps in (1, 2, 3) for shift in (steps, -steps)), a, b]


def _shifted(rows: Float[Array, "16 *P"], steps: int) -> Float[Array, "16 *P"]:
    """The row so many steps further down, 0 past either end."""
    empty = jnp.zeros_like(rows[: abs(steps)])
    return jnp.concatenate([rows[steps:], empty] if steps > 0 else [empty, rows[:steps]])


class Tangent(NamedTuple):
    """A point of the search, the value there, less what rounding may have added, and the slope."""

    point: Float[Array, "*P"]
    value: Float[Array, "*P"]
    slope: Float[Array, "*P"]


class Search(NamedTuple):
    """Where the search stands: the next point, the closest ones known on either side, and the best lower bound."""

    point: Float[Array, "*P"]
    low: Tangent
    high: Tangent
    best: Float[Array, "*P"]


@functools.partial(compiled, static_argnames="num_steps")
def log_evidence(
    mean_a: Float[ArrayLike, "*P"],
    pulls_a: Num[ArrayLike, "*P"],
    mean_b: Float[ArrayLike, "*P"],
    pulls_b: Num[ArrayLike, "*P"],
    epsilon: Float[ArrayLike, "..."] = 0.0,
    mixture: Int[ArrayLike, "..."] = 1,
    family: EvidenceFamily = BERNOULLI,
    num_steps: int | None = None,
) -> Float[Array, "*P"]:
    """Logarithm of the evidence that item a is above item b: against p_a <= p_b - epsilon; never too large.

    The logarithm of the mixture is convex in m (for exponential rewards in 1/m), so the tangents at two points on
    either side of its smallest value bound that value from below, where they meet. The search takes Newton steps and
    meeting points in turn, a fixed number, and returns the best bound; few steps give a smaller number, never a wrong
    one.

    Args:
      mean_a: empirical means of the items that may be better, any shape.
      pulls_a: how many answers each is the mean of.
      mean_b: empirical means of the others.
      pulls_b: how many answers each of those is the mean of.
      epsilon: the tolerance.
      mixture: with tolerance 0, which weights: 1 is best where both items have about as many pulls, 2 where one has
        many more; a number for every pair, or one for all. Choose it before you see the answers.
      family: the rewards' family; the default holds for any reward in [0, 1].
      num_steps: steps of the search; as many as make the value exact but for rounding, if not given.

    Returns:
      One number per pair; log(1/x) is exceeded, ever, with probability at most x if a is not above b.

    Example:
      >>> round(float(jr.log_evidence(0.6, 100, 0.3, 100)), 2)
      6.42
    """
    mean_a, mean_b = jnp.asarray(mean_a, float), jnp.asarray(mean_b, float)
    kind, axes = mean_a.dtype, [1] * mean_a.ndim
    count_a, count_b = (jnp.asarray(pulls).astype(kind) for pulls in (pulls_a, pulls_b))

    def aligned(number: Array) -> Array:
        return number.reshape([*axes[number.ndim :], *number.shape])

    epsilon, unit = (aligned(jnp.asarray(number, kind)) for number in (epsilon, family.evidence_unit))
    pairs = _Pairs(mean_a, count_a, mean_b, count_b, epsilon, unit, aligned(jnp.asarray(mixture) == 2), family)
    best = _smallest(num_steps or SEARCH_STEPS[kind.itemsize], pairs)
    possible = [(mean >= family.low) & (mean <= family.high) for mean in (mean_a, mean_b)]
    best = jnp.where(possible[0] & possible[1] & (unit > 0), best, -jnp.inf)
    # Without any answer the mixture is 1 for all m.
    return jnp.where(count_a + count_b > 0, best, 0)


class _Pairs(NamedTuple):
    """Arguments of `log_evidence`, as arrays with as many axes."""

    mean_a: Float[Array, "*P"]
    count_a: Float[Array, "*P"]
    mean_b: Float[Array, "*P"]
    count_b: Float[Array, "*P"]
    epsilon: Float[Array, "..."]
    unit: Float[Array, "..."]
    second: Bool[Array, "..."]
    family: EvidenceFamily

    @property
    def lattice(self) -> Lattice:
        """The lattice, in the family's unit."""
        table = lattice(self.epsilon / self.unit, self.second, self.family)
        return table._replace(lambdas=table.lambdas / self.unit[None])

    def tangent(self, table: Lattice, point: Float[Array, "*P"]) -> tuple[Tangent, Float[Array, "*P"]]:
        """The tangent of the logarithm of the mixture, and the second derivative."""
        mean_a, count_a, mean_b, count_b, at, epsilon = (x[None] for x in (*self[:4], point, self.epsilon))
        a = self.family.log_martingale(table.lambdas, mean_a, count_a, at, jnp.zeros_like(epsilon))
        b = self.family.log_martingale(-table.lambdas, mean_b, count_b, at, epsilon)
        # Each is a product, and sums of theirs follow.
        a, b = ([rounded(part) for part in parts] for parts in (a, b))
        logs = [term + weight for term, weight in zip(_groups(a[0], b[0]), table.log_weights, strict=True)]
        top = jax.lax.stop_gradient(jnp.max(jnp.stack([jnp.max(group, axis=0) for group in logs]), axis=0))
        shares = [jnp.exp(group - top[None]) for group in logs]
        total = _sum(shares)
        slopes, bends, sizes = (_groups(of_a, of_b) for of_a, of_b in zip(a[1:], b[1:], strict=True))
        slope, bend, size, square = (
            _sum([share * part for share, part in zip(shares, parts, strict=True)]) / total
            for parts in (slopes, bends, sizes, [part * part for part in slopes])
        )
        value = top + log(total)
        rounding = 2 * jnp.finfo(top.dtype).eps * (size + jnp.abs(value) + 1)
        return Tangent(point, value - rounding, slope), bend + jnp.maximum(square - slope * slope, 0)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _smallest(num_steps: int, pairs: _Pairs) -> Float[Array, "*P"]:
    """A lower bound on the smallest value over m."""
    return _search(num_steps, pairs).best


@_smallest.defjvp
def _(num_steps: int, primals: tuple[_Pairs], tangents: tuple[_Pairs]) -> tuple[Array, Array]:
    """The derivative with m held fixed where the value is smallest (the envelope theorem)."""
    found = _search(num_steps, *primals)
    _, slope = jax.jvp(lambda pairs: pairs.tangent(pairs.lattice, found.point)[0].value, primals, tangents)
    return found.best, slope


def _search(num_steps: int, pairs: _Pairs) -> Search:
    """Newton steps and meeting points in turn."""
    mean_a, count_a, mean_b, count_b, epsilon, unit, _, family = pairs
    kind, table = mean_a.dtype, pairs.lattice
    least, most = family.search_range(jnp.broadcast_to(epsilon, mean_a.shape))

    def step(turn: Int[Array, ""], search: Search) -> Search:
        found, curvature = pairs.tangent(table, search.point)
        falls = found.slope < 0
        low, high = (
            Tangent(*(jnp.where(side, new, old) for new, old in zip(found, end, strict=True)))
            for side, end in ((falls, search.low), (~falls, search.high))
        )
        meet, bound = _meeting(low, high)
        # A tangent alone bounds the function by its value at the end of the range towards which it falls.
        ahead = jnp.where(falls, most - found.point, found.point - least)
        fall = jnp.where(jnp.isfinite(ahead), product(jnp.abs(found.slope), ahead), jnp.inf)
        alone = found.value - jnp.where(found.slope == 0, 0, fall)
        newton = found.slope / (jnp.maximum(curvature, jnp.finfo(kind).tiny) + jnp.abs(found.slope) / reach)
        known = jnp.isfinite(low.value) & jnp.isfinite(high.value)
        # Far enough to pass the smallest value, as long as one side is unknown, but not out of reach.
        least_step = rounded(4 * jnp.finfo(kind).eps * (jnp.abs(found.point) + reach))
        further = OVERSHOOT * newton + jnp.where(falls, -least_step, least_step)
        newton = jnp.clip(found.point - jnp.where(known, newton, further), least, most)
        # Newton's method is fast where the function is smooth, tangents where one term takes over from another.
        use_newton = ~known | ((turn % 2 == 0) & (newton > low.point) & (newton < high.point))
        best = jnp.maximum(search.best, jnp.maximum(alone, bound))
        return Search(jnp.where(use_newton, newton, meet), low, high, best)

    shifted = jnp.maximum(mean_b - epsilon, family.low)
    pooled = (product(count_a, mean_a) + product(count_b, shifted)) / jnp.maximum(count_a + count_b, 1)
    first, a, b = (jnp.clip(family.search_point(mean), least, most) for mean in (pooled, mean_a, shifted))
    reach = jnp.maximum(jnp.abs(a - b) + (first if family.scale_free else unit), jnp.finfo(kind).tiny)
    unknown = Tangent(*(jnp.full_like(mean_a, value) for value in (0, -jnp.inf, 0)))
    start = Search(first, unknown, unknown, unknown.value)
    return jax.lax.fori_loop(0, num_steps, step, start)


def _sum(groups: list[Float[Array, "16 *P"]]) -> Float[Array, "*P"]:
    """The sum of all terms, products perhaps: written out, because XLA adds up a single column in another order."""
    rows = functools.reduce(jnp.add, [rounded(group) for group in groups])
    while len(rows) > 1:
        rows = rows[: len(rows) // 2] + rows[len(rows) // 2 :]
    return rows[0]


def _meeting(low: Tangent, high: Tangent) -> tuple[Float[Array, "*P"], Float[Array, "*P"]]:
    """Where two tangents meet, and their value there: a lower bound on a convex function, -inf if one is unknown."""
    width, rise = high.point - low.point, high.slope - low.slope
    share = (high.slope * width - (high.value - low.value)) / jnp.where(rise > 0, rise, 1)
    known = jnp.isfinite(low.value) & jnp.isfinite(high.value)
    step = jnp.clip(jnp.where(known, share, 0), 0, jnp.where(known, width, 0))
    falls = product(-low.slope, step), product(high.slope, width - step)
    rounding = 4 * jnp.finfo(width.dtype).eps * (falls[0] + falls[1])
    value = jnp.minimum(low.value - falls[0], high.value - falls[1]) - rounding
    return low.point + step, jnp.where(known, value, -jnp.inf)


def transport_costs(
    answers: Tally,
    rank: Int[Array, "K *T"],
    item: Int[Array, "B *T"],
    epsilon: Number,
    family: EvidenceFamily,
) -> Float[Array, "B K *T"]:
    """What each pair of these items with all others would lose of its log-likelihood in the wrong order.

    N_a d(p_a, m) + N_b d(p_b - epsilon, m), with empirical means, a the one that ranks higher, and m the weighted mean
    of the two: the generalised likelihood ratio, which log evidence follows at a distance. Where means have no upper
    limit it is d(p_b, m + epsilon) instead.
    """
    means, pulls = answers.means, answers.pulls.astype(answers.sums.dtype)
    epsilon = expand_items(expand_items(jnp.asarray(epsilon, means.dtype)))
    mean, pull, place = (gather(table, item)[:, None] for table in (means, pulls, rank))
    first = place < rank[None]
    shifted = jnp.maximum(mean - jnp.where(first, 0, epsilon), family.low)
    other = jnp.maximum(means[None] - jnp.where(first, epsilon, 0), family.low)
    gap, share = other - shifted, pull / jnp.maximum(pull + pulls[None], 1)
    # A sum over the two items, not of two terms: the compiler works out a sum once, and terms wherever they are used.
    both = jnp.stack([jnp.broadcast_to(shifted, gap.shape), other])
    steps = jnp.stack([gap * (1 - share), -gap * share])
    if family.scale_free:  # the mean itself, and its distance from m + epsilon
        exact = jnp.stack(jnp.broadcast_arrays(mean, means[None]))
        steps = steps + (both - (exact - jnp.where(jnp.stack([~first, first]), epsilon, 0)))
        both = exact
    counts = jnp.stack(jnp.broadcast_arrays(pull, pulls[None]))
    return jnp.sum(counts * family.divergence(both, steps), axis=0)
