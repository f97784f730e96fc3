r"""Reward families: the divergence d(x, y) of two means, and where its inverse can lie.

All divergences but the Gaussian are written with `scaled_excess`. In 32 bit the usual form, a difference of
logarithms, loses its digits when intervals are short.
"""

from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from jaxrank.core import checks
from jaxrank.core.protocol import Number
from jaxrank.core.pytrees import leaf, pytree_dataclass
from jaxrank.stats.numerics import log, product, rounded, scaled_excess

Values = Float[Array, "..."]


@runtime_checkable
class Family(Protocol):
    """A one-parameter exponential family of reward distributions, indexed by the mean.

    `LUCBRank(family=...)` takes any object with these methods; make it with `pytree_dataclass` so that its numbers are
    pytree leaves.

    Attributes:
      low: lower end of the mean's domain.
      high: upper end of the mean's domain.

    Example:
      >>> family = jr.Bernoulli()
      >>> family.low, family.high, round(float(family.divergence(jnp.array(0.5), jnp.array(0.25))), 4)
      (0.0, 1.0, 0.1438)
    """

    low: float
    high: float

    def divergence(self, mean: Values, step: Values) -> Values:
        """Kullback-Leibler divergence d(mean, mean + step).

        The second argument is the difference because that is what a bound's width needs to be precise in.
        """
        ...

    def bracket_up(self, mean: Values, level: Values) -> tuple[Values, Values]:
        """Steps h <= h' with d(mean, mean + h) <= level <= d(mean, mean + h'); `mean` and `level` of one shape."""
        ...

    def bracket_down(self, mean: Values, level: Values) -> tuple[Values, Values]:
        """Steps h <= h' with d(mean, mean - h) <= level <= d(mean, mean - h'), or h' at the domain's end."""
        ...

    def natural_step(self, mean: Values, step: Values) -> tuple[Values, Values]:
        """How far the natural parameter and the log-partition function go from `mean` to `mean + step`."""
        ...

    def check_means(self, name: str, means: Float[ArrayLike, "..."]) -> None:
        """Raise `ValueError` if a mean lies outside the domain."""
        ...

    def check(self) -> None:
        """Raise `ValueError` on a bad number of the family itself; traced values are not looked at."""

    def covers(self, other: Any) -> bool:
        """Whether a guarantee for this family holds for rewards of another one of the same class as well.

        By default where all its numbers are the same.
        """
        mine, theirs = ([checks.concrete(leaf) for leaf in jax.tree.leaves(family)] for family in (self, other))
        return all(a is None or b is None or np.all(a == b) for a, b in zip(mine, theirs, strict=True))


@runtime_checkable
class NewtonBounds(Family, Protocol):
    """A family that can improve a guess of a bound's width faster than bisection."""

    def newton_guess_up(self, mean: Values, level: Values, guess: Values) -> Values:
        """A better guess of the root h of d(mean, mean + h) = level, on either side of it."""
        ...

    def newton_guess_down(self, mean: Values, level: Values, guess: Values) -> Values:
        """The same for d(mean, mean - h)."""
        ...

    def newton_bound_up(self, mean: Values, level: Values, guess: Values) -> Values:
        """A better guess that is at least the root, whatever the guess was: a valid bound."""
        ...

    def newton_bound_down(self, mean: Values, level: Values, guess: Values) -> Values:
        """The same for d(mean, mean - h)."""
        ...


@pytree_dataclass
class Bernoulli(Family):
    """Rewards 0 and 1; its bounds hold for any reward in [0, 1] as well.

    d(x, y) = x log(x/y) + (1-x) log((1-x)/(1-y)).

    Example:
      >>> algorithm = jr.LUCBRank(num_items=3, boundaries=(1,), delta=0.1)
      >>> algorithm.family  # the default
      Bernoulli()
    """

    low = 0.0
    high = 1.0
    evidence_unit = 1.0
    scale_free = False

    def divergence(self, mean: Values, step: Values) -> Values:
        """See `Family`."""
        return _bernoulli_divergence(mean, 1 - mean, step)

    def bracket_up(self, mean: Values, level: Values) -> tuple[Values, Values]:
        """Pinsker's d >= 2 h^2, and d >= -(1-x) log(1-y) - H(x), which is exact at mean 0."""
        return _bracket(mean, 1 - mean, level)

    def bracket_down(self, mean: Values, level: Values) -> tuple[Values, Values]:
        """The mirror image: d(x, y) = d(1-x, 1-y)."""
        return _bracket(1 - mean, mean, level)

    def newton_guess_up(self, mean: Values, level: Values, guess: Values) -> Values:
        """See `NewtonBounds`."""
        return _newton_step_on_root(mean, 1 - mean, level, guess)

    def newton_guess_down(self, mean: Values, level: Values, guess: Values) -> Values:
        """See `NewtonBounds`."""
        return _newton_step_on_root(1 - mean, mean, level, guess)

    def newton_bound_up(self, mean: Values, level: Values, guess: Values) -> Values:
        """See `NewtonBounds`."""
        return _newton_step_outward(mean, 1 - mean, level, guess)

    def newton_bound_down(self, mean: Values, level: Values, guess: Values) -> Values:
        """See `NewtonBounds`."""
        return _newton_step_outward(1 - mean, mean, level, guess)

    def natural_step(self, mean: Values, step: Values) -> tuple[Values, Values]:
        """The parameter is log(x / (1-x)), the function -log(1-x)."""
        rest = -jnp.log1p(-step / (1 - mean))
        return jnp.log1p(step / mean) + rest, rest

    def log_martingale(
        self, parameter: Values, mean: Values, count: Values, point: Values, epsilon: Values
    ) -> tuple[Values, Values, Values, Values]:
        """See `EvidenceFamily`: the cumulant function is log(1 + m (e^lambda - 1)), for any rewards in [0, 1] at most.

        A slope is the pulls times lambda, nearly; what is added up is of that size.
        """
        growth = jnp.expm1(parameter)
        inside = product(point + epsilon, growth)
        ratio = growth / (1 + inside)
        slope = -count * ratio
        return count * (product(parameter, mean) - rounded(jnp.log1p(inside))), slope, -slope * ratio, jnp.abs(slope)

    def search_point(self, mean: Values) -> Values:
        """See `EvidenceFamily`."""
        return mean

    def search_range(self, epsilon: Values) -> tuple[Values, Values]:
        """See `EvidenceFamily`."""
        return jnp.zeros_like(epsilon), 1 - epsilon

    def check_means(self, name: str, means: Float[ArrayLike, "..."]) -> None:
        """See `Family`."""
        checks.inside(name, means, 0, 1)


def _bernoulli_divergence(mean: Values, rest: Values, step: Values) -> Values:
    """d(mean, mean + step), with rest = 1 - mean given apart so that a mean near 1 keeps its digits."""
    return scaled_excess(mean, step) + scaled_excess(rest, -step)


def _newton_step_on_root(mean: Values, rest: Values, level: Values, guess: Values) -> Values:
    """A Newton step on the square root of d, which is nearly linear: brings any sensible guess close.

    The root of d is concave, so a step on it can fall short; a guess a few times off must not become worse.
    """
    spare, guess, most = _clipped_guess(mean, rest, level, guess)
    divergence = _bernoulli_divergence(mean, spare, guess)
    power = 2 * (divergence - jnp.sqrt(divergence * level)) * (mean + guess) / guess
    step = guess - (spare - guess) * _expm1(power)
    return jnp.clip(step, 0.25 * guess, most)


def _newton_step_outward(mean: Values, rest: Values, level: Values, guess: Values) -> Values:
    """A Newton step on d itself, which lands on the outer side of the root from wherever it starts."""
    spare, guess, _ = _clipped_guess(mean, rest, level, guess)
    power = (_bernoulli_divergence(mean, spare, guess) - level) * (mean + guess) / guess
    return jnp.where(rest > 0, jnp.minimum(guess - (spare - guess) * _expm1(power), spare), 0)


def _clipped_guess(mean: Values, rest: Values, level: Values, guess: Values) -> tuple[Values, Values, Values]:
    """Rest kept above 0, the guess kept inside the domain and Pinsker's bound, and that limit."""
    spare = jnp.maximum(rest, jnp.finfo(mean.dtype).tiny)
    most = jnp.minimum((1 - 1e-6) * spare, jnp.sqrt(level / 2))
    return spare, jnp.clip(guess, 1e-3 * most, most), most


def _expm1(x: Values) -> Values:
    """exp(x) - 1, by a polynomial near 0, where most Newton steps end; cheaper than XLA's function.

    The first terms of the series up to one of odd order are never above exp(x) - 1, so a Newton step that uses them
    still ends on the outer side.
    """
    if x.dtype.itemsize > 4:
        return jnp.expm1(x)
    near = x * (1 + x * (1 / 2 + x * (1 / 6 + x * (1 / 24 + x * (1 / 120)))))
    return jnp.where(jnp.abs(x) < 0.25, near, jnp.exp(x) - 1)


def _bracket(mean: Values, rest: Values, level: Values) -> tuple[Values, Values]:
    entropy = _entropy(mean) + _entropy(rest)
    power = -(level + entropy) / jnp.where(rest > 0, rest, 1)
    # rest - exp(power), written so that neither a rest near 0 nor one near 1 loses digits.
    tail = jnp.where(rest < 0.5, rest - jnp.exp(power), -mean - jnp.expm1(power))
    outer = jnp.minimum(jnp.minimum(jnp.sqrt(level / 2), rest), jnp.where(rest > 0, tail, 0))
    return jnp.zeros_like(mean), jnp.maximum(outer, 0)


def _entropy(x: Values) -> Values:
    return product(-x, log(jnp.where(x > 0, x, 1)))


@pytree_dataclass
class Gaussian(Family):
    """Normal rewards of known standard deviation: d(x, y) = (x-y)^2 / (2 sigma^2).

    Args:
      sigma: the standard deviation.

    Example:
      >>> algorithm = jr.LUCBRank(num_items=2, boundaries=(1,), delta=0.1, family=jr.Gaussian(sigma=0.5))
      >>> arms = jr.GaussianArms(means=[1.0, 0.0], sigma=0.5)
      >>> jr.run(jax.random.key(0), algorithm, arms).order.tolist()
      [0, 1]
    """

    sigma: Number = leaf(0, default=1.0)

    low = -jnp.inf
    high = jnp.inf
    scale_free = False

    def _sigma(self, like: Values) -> Values:
        """Sigma; one for each trial, if there are several, along the last axis of `like`."""
        sigma = jnp.asarray(self.sigma, like.dtype)
        return sigma.reshape([1] * (like.ndim - sigma.ndim) + [*sigma.shape])

    def divergence(self, mean: Values, step: Values) -> Values:
        """See `Family`."""
        ratio = step / self._sigma(mean)
        return ratio * ratio / 2

    def bracket_up(self, mean: Values, level: Values) -> tuple[Values, Values]:
        """Closed form: sigma sqrt(2 level)."""
        sigma = self._sigma(level)
        width = jnp.where(sigma > 0, sigma * jnp.sqrt(2 * level), jnp.inf)
        return width, width

    bracket_down = bracket_up

    def natural_step(self, mean: Values, step: Values) -> tuple[Values, Values]:
        """The parameter is x / sigma^2, the function x^2 / (2 sigma^2)."""
        precision = 1 / self._sigma(mean) ** 2
        return step * precision, step * (mean + step / 2) * precision

    @property
    def evidence_unit(self) -> Number:
        """See `EvidenceFamily`."""
        return 2 * self.sigma

    def log_martingale(
        self, parameter: Values, mean: Values, count: Values, point: Values, epsilon: Values
    ) -> tuple[Values, Values, Values, Values]:
        """See `EvidenceFamily`: the cumulant function is lambda m + sigma^2 lambda^2 / 2."""
        sigma = self._sigma(mean)
        spread = product(sigma * sigma / 2, parameter)
        distance = mean - (point + epsilon)
        slope = -count * parameter
        size = jnp.abs(slope) * (jnp.abs(distance) + jnp.abs(mean) + jnp.abs(spread))
        return -slope * (distance - spread), jnp.broadcast_to(slope, size.shape), jnp.zeros_like(size), size

    def search_point(self, mean: Values) -> Values:
        """See `EvidenceFamily`."""
        return mean

    def search_range(self, epsilon: Values) -> tuple[Values, Values]:
        """See `EvidenceFamily`: all reals."""
        return jnp.full_like(epsilon, -jnp.inf), jnp.full_like(epsilon, jnp.inf)

    def check(self) -> None:
        """See `Family`: sigma is positive."""
        checks.positive("sigma", self.sigma)

    def covers(self, other: "Gaussian") -> bool:
        """See `Family`: one may assume more noise than there is, never less."""
        mine, theirs = checks.concrete(self.sigma), checks.concrete(other.sigma)
        return mine is None or theirs is None or bool(np.all(mine >= theirs * (1 - 1e-6)))

    def check_means(self, name: str, means: Float[ArrayLike, "..."]) -> None:
        """See `Family`."""
        checks.finite(name, means)


@pytree_dataclass
class Poisson(Family):
    """Counts: d(x, y) = y - x + x log(x/y).

    Example:
      >>> algorithm = jr.LUCBRank(num_items=2, boundaries=(1,), delta=0.1, family=jr.Poisson())
      >>> jr.run(jax.random.key(0), algorithm, jr.PoissonArms(means=[5.0, 1.0])).order.tolist()
      [0, 1]
    """

    low = 0.0
    high = jnp.inf
    evidence_unit = 1.0
    scale_free = True

    def divergence(self, mean: Values, step: Values) -> Values:
        """See `Family`."""
        return scaled_excess(mean, step)

    def bracket_up(self, mean: Values, level: Values) -> tuple[Values, Values]:
        """d(x, x+h) <= h, with equality at mean 0, and d >= h^2 / (2 (x+h)), solved for h."""
        return level, jnp.where(mean > 0, level + jnp.sqrt(level * (level + 2 * mean)), level)

    def bracket_down(self, mean: Values, level: Values) -> tuple[Values, Values]:
        """d(x, x-h) >= h^2 / (2x), and no mean lies below 0."""
        return jnp.zeros_like(mean), jnp.minimum(jnp.sqrt(2 * mean * level), mean)

    def natural_step(self, mean: Values, step: Values) -> tuple[Values, Values]:
        """The parameter is log x, the function x."""
        return jnp.log1p(step / mean), step

    def log_martingale(
        self, parameter: Values, mean: Values, count: Values, point: Values, epsilon: Values
    ) -> tuple[Values, Values, Values, Values]:
        """See `EvidenceFamily`: the cumulant function is m (e^lambda - 1)."""
        slope = -count * jnp.expm1(parameter)
        first, second = product(count * parameter, mean), product(slope, point + epsilon)
        return (
            first + second,
            jnp.broadcast_to(slope, first.shape),
            jnp.zeros_like(first),
            jnp.abs(first) + jnp.abs(second),
        )

    def search_point(self, mean: Values) -> Values:
        """See `EvidenceFamily`."""
        return mean

    def search_range(self, epsilon: Values) -> tuple[Values, Values]:
        """See `EvidenceFamily`."""
        return jnp.zeros_like(epsilon), jnp.full_like(epsilon, jnp.inf)

    def check_means(self, name: str, means: Float[ArrayLike, "..."]) -> None:
        """See `Family`."""
        checks.nonnegative(name, means)


@pytree_dataclass
class Exponential(Family):
    """Waiting times: d(x, y) = x/y - 1 - log(x/y).

    Example:
      >>> algorithm = jr.LUCBRank(num_items=2, boundaries=(1,), delta=0.1, family=jr.Exponential())
      >>> jr.run(jax.random.key(0), algorithm, jr.ExponentialArms(means=[9.0, 1.0])).order.tolist()
      [0, 1]
    """

    low = 0.0
    high = jnp.inf
    evidence_unit = 1.0
    scale_free = True

    def divergence(self, mean: Values, step: Values) -> Values:
        """See `Family`."""
        positive = mean > 0
        other = jnp.where(positive, mean + step, 1)
        ratio = -step / other
        far = ratio + log(other / jnp.where(positive, mean, 1))
        return jnp.where(
            positive, jnp.where(jnp.abs(ratio) < 0.5, scaled_excess(jnp.ones_like(ratio), ratio), far), jnp.inf
        )

    def bracket_up(self, mean: Values, level: Values) -> tuple[Values, Values]:
        """With u = x/y < 1: (1-u)^2 / 2 <= d and d = u - 1 - log u, so log(y/x) lies in [level, level + 1]."""
        root = jnp.sqrt(2 * level)
        by_root = jnp.where(root < 0.75, root / (1 - jnp.minimum(root, 0.75)), jnp.inf)
        return mean * jnp.expm1(level), mean * jnp.minimum(by_root, jnp.expm1(level + 1))

    def bracket_down(self, mean: Values, level: Values) -> tuple[Values, Values]:
        """With r = x/y - 1 > 0: d = r - log(1+r) >= r^2 / (2 (1+r)), solved for r."""
        ratio = level + jnp.sqrt(level * (level + 2))
        return jnp.zeros_like(mean), mean * (ratio / (1 + ratio))

    def natural_step(self, mean: Values, step: Values) -> tuple[Values, Values]:
        """The parameter is -1 / x, the function log x."""
        return step / (mean * (mean + step)), jnp.log1p(step / mean)

    def log_martingale(
        self, parameter: Values, mean: Values, count: Values, point: Values, epsilon: Values
    ) -> tuple[Values, Values, Values, Values]:
        """See `EvidenceFamily`, with `point` = 1/m and lambda = (1 - e^-z) / m for the parameter z.

        With lambda in proportion to 1/m, the cumulant function does not depend on m, and the logarithm is linear in the
        inverse of the mean, hence convex in 1/m.
        """
        shrink = 1 / (1 + epsilon * point)
        factor = -count * mean * jnp.expm1(-parameter)
        first, second = product(factor, point * shrink), product(count, parameter)
        slope = factor * (shrink * shrink)
        return first - second, slope, -2 * epsilon * slope * shrink, jnp.abs(first) + jnp.abs(second)

    def search_point(self, mean: Values) -> Values:
        """See `EvidenceFamily`."""
        return 1 / jnp.maximum(mean, jnp.finfo(mean.dtype).tiny)

    def search_range(self, epsilon: Values) -> tuple[Values, Values]:
        """See `EvidenceFamily`."""
        return jnp.zeros_like(epsilon), jnp.full_like(epsilon, jnp.finfo(epsilon.dtype).max)

    def check_means(self, name: str, means: Float[ArrayLike, "..."]) -> None:
        """See `Family`."""
        checks.positive(name, means)
