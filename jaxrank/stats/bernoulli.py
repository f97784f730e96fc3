"""The Bernoulli family, with Newton steps towards its confidence bounds."""

import jax.numpy as jnp
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from jaxrank.core import checks
from jaxrank.core.pytrees import pytree_dataclass
from jaxrank.stats.numerics import log, scaled_excess

Values = Float[Array, "..."]


@pytree_dataclass
class Bernoulli:
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
        inside = (point + epsilon) * growth
        ratio = growth / (1 + inside)
        slope = -count * ratio
        return count * (parameter * mean - jnp.log1p(inside)), slope, -slope * ratio, jnp.abs(slope)

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
    return -x * log(jnp.where(x > 0, x, 1))
