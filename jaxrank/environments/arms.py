"""Items that answer with a reward of their own: the paper's direct feedback."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from numpy.typing import ArrayLike

from jaxrank.core import checks
from jaxrank.core.batch_axis import expand_items, gather
from jaxrank.core.prng import each_key, uniform
from jaxrank.core.protocol import Number, Query
from jaxrank.core.pytrees import leaf, pytree_dataclass
from jaxrank.stats import families
from jaxrank.stats.families import Family


@pytree_dataclass
class _Arms:
    means: Float[ArrayLike, "*I K"] = leaf(1)

    batched: ClassVar[bool] = True
    answers_pairs = False

    @property
    def num_items(self) -> int:
        """How many items there are, K."""
        return np.shape(self.means)[-1]

    @property
    def family(self) -> Family:
        """The rewards' family."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise `ValueError` unless there are at least two means, all in the family's domain."""
        self.family.check()
        self.family.check_means("means", self.means)
        shape = np.shape(self.means)
        checks.require(1 <= len(shape) <= 2, "means", "must be one number per item (or a stack of such)", shape)
        checks.require(shape[-1] >= 2, "means", "must name at least two items", shape[-1])

    def _mean_of(self, query: Query) -> Float[Array, "B *T"]:
        return gather(jnp.asarray(self.means, float), query.item)


@pytree_dataclass
class BernoulliArms(_Arms):
    """Rewards 0 and 1 with the given means.

    Args:
      means: probability of a 1 for every item, shape (K,); a leading axis is an instance axis.

    Example:
      >>> arms = jr.BernoulliArms(means=[0.9, 0.5, 0.1])
      >>> arms.num_items, arms.family
      (3, Bernoulli())
    """

    @property
    def family(self) -> Family:
        """The rewards' family."""
        return families.Bernoulli()

    def draw(self, key: Key[Array, "*T"], query: Query) -> Float[Array, "B *T"]:
        """See `Environment`."""
        mean = self._mean_of(query)
        return (uniform(key, mean.shape[0]) < mean).astype(mean.dtype)


@pytree_dataclass
class GaussianArms(_Arms):
    """Normal rewards with the given means and one known standard deviation.

    Args:
      means: mean reward of every item, shape (K,); a leading axis is an instance axis.
      sigma: standard deviation of all rewards.

    Example:
      >>> arms = jr.GaussianArms(means=[1.0, 0.0], sigma=2.0)
      >>> arms.family
      Gaussian(sigma=2.0)
    """

    sigma: Number = leaf(0, default=1.0)

    @property
    def family(self) -> Family:
        """The rewards' family."""
        return families.Gaussian(sigma=self.sigma)

    def draw(self, key: Key[Array, "*T"], query: Query) -> Float[Array, "B *T"]:
        """See `Environment`."""
        mean = self._mean_of(query)
        noise = each_key(lambda one: jax.random.normal(one, mean.shape[:1]), key)
        return mean + expand_items(jnp.asarray(self.sigma, mean.dtype)) * noise


@pytree_dataclass
class PoissonArms(_Arms):
    """Counts with the given means.

    Args:
      means: mean count of every item, shape (K,), not negative; a leading axis is an instance axis.

    Example:
      >>> arms = jr.PoissonArms(means=[6.0, 3.0, 1.0])
      >>> algorithm = jr.LUCBRank(num_items=3, boundaries=(1,), delta=0.1, epsilon=1.0, family=jr.Poisson())
      >>> jr.run(jax.random.key(0), algorithm, arms).order.tolist()
      [0, 1, 2]
    """

    @property
    def family(self) -> Family:
        """The rewards' family."""
        return families.Poisson()

    def draw(self, key: Key[Array, "*T"], query: Query) -> Float[Array, "B *T"]:
        """See `Environment`."""
        mean = self._mean_of(query)
        return each_key(jax.random.poisson, key, mean).astype(mean.dtype)


@pytree_dataclass
class ExponentialArms(_Arms):
    """Waiting times with the given means.

    Args:
      means: mean waiting time of every item, shape (K,), above 0; a leading axis is an instance axis.

    Example:
      >>> arms = jr.ExponentialArms(means=[9.0, 3.0, 1.0])
      >>> algorithm = jr.LUCBRank(num_items=3, boundaries=(1,), delta=0.1, epsilon=0.5, family=jr.Exponential())
      >>> jr.run(jax.random.key(0), algorithm, arms).order.tolist()
      [0, 1, 2]
    """

    @property
    def family(self) -> Family:
        """The rewards' family."""
        return families.Exponential()

    def draw(self, key: Key[Array, "*T"], query: Query) -> Float[Array, "B *T"]:
        """See `Environment`."""
        mean = self._mean_of(query)
        return mean * each_key(lambda one: jax.random.exponential(one, mean.shape[:1]), key)
