"""Items that answer with a reward of their own: the paper's direct feedback."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxrank.core import checks
from jaxrank.core.batch_axis import expand_items, gather
from jaxrank.core.prng import each_key, uniform
from jaxrank.core.pytrees import leaf, pytree_dataclass
from jaxrank.stats import families
from jaxrank.stats.families import Family


@pytree_dataclass
class _Arms:
    means: Float[ArrayLike, "K"] = leaf(1)

    answers_pairs = False

    @property
    def num_items(self) -> int:
        return jnp.shape(self.means)[-1]

    @property
    def family(self) -> Family:
        raise NotImplementedError

    def check(self) -> None:
        """Means lie in the family's domain, and there are at least two."""
        self.family.check_means("means", self.means)
        shape = jnp.shape(self.means)
        checks.require(1 <= len(shape) <= 2, "means", "must be one number per item (or a stack of such)", shape)
        checks.require(shape[-1] >= 2, "means", "must name at least two items", shape[-1])

    def _mean_of(self, query):
        return gather(jnp.asarray(self.means, float), query.item)


@pytree_dataclass
class BernoulliArms(_Arms):
    """Rewards 0 and 1 with the given means."""

    @property
    def family(self):
        """The rewards' family."""
        return families.Bernoulli()

    def draw(self, key, query):
        """See `Environment`."""
        mean = self._mean_of(query)
        return (uniform(key, mean.shape[0]) < mean).astype(mean.dtype)


@pytree_dataclass
class GaussianArms(_Arms):
    """Normal rewards with the given means and one known standard deviation."""

    sigma: Float[Array, ""] | float = leaf(0, default=1.0)

    @property
    def family(self):
        """The rewards' family."""
        return families.Gaussian(sigma=self.sigma)

    def draw(self, key, query):
        """See `Environment`."""
        mean = self._mean_of(query)
        noise = each_key(lambda one: jax.random.normal(one, mean.shape[:1]), key)
        return mean + expand_items(jnp.asarray(self.sigma, mean.dtype)) * noise


@pytree_dataclass
class PoissonArms(_Arms):
    """Counts with the given means."""

    @property
    def family(self):
        """The rewards' family."""
        return families.Poisson()

    def draw(self, key, query):
        """See `Environment`."""
        mean = self._mean_of(query)
        return each_key(jax.random.poisson, key, mean).astype(mean.dtype)


@pytree_dataclass
class ExponentialArms(_Arms):
    """Waiting times with the given means."""

    @property
    def family(self):
        """The rewards' family."""
        return families.Exponential()

    def draw(self, key, query):
        """See `Environment`."""
        mean = self._mean_of(query)
        return mean * each_key(lambda one: jax.random.exponential(one, mean.shape[:1]), key)
