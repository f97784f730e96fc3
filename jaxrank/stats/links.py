r"""Pairwise models: how the gap of two scores turns into the probability of a win.

For a gap x = s_i - s_j, with P(-x) = 1 - P(x): the probability P, its logarithm, the logarithm's slope
$\mathrm{d} \log P / \mathrm{d}x$ and its curvature $-\mathrm{d}^2 \log P / \mathrm{d}x^2 > 0$, all without overflow.
"""

from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxrank.core.pytrees import pytree_dataclass

Gap = Float[Array, "..."]


@runtime_checkable
class Link(Protocol):
    """A pairwise model."""

    def probability(self, gap: Gap) -> Gap:
        """P(gap)."""
        ...

    def log_probability(self, gap: Gap) -> Gap:
        """Its logarithm."""
        ...

    def slope(self, gap: Gap) -> Gap:
        """The logarithm's derivative."""
        ...

    def curvature(self, gap: Gap) -> Gap:
        """Minus the logarithm's second derivative."""
        ...


@pytree_dataclass
class BTL:
    """Bradley-Terry-Luce: P = 1 / (1 + exp(-gap))."""

    def probability(self, gap):
        """See `Link`."""
        return jax.nn.sigmoid(gap)

    def log_probability(self, gap):
        """See `Link`."""
        return jax.nn.log_sigmoid(gap)

    def slope(self, gap):
        """1 - P."""
        return jax.nn.sigmoid(-gap)

    def curvature(self, gap):
        """P (1 - P)."""
        return jax.nn.sigmoid(gap) * jax.nn.sigmoid(-gap)


@pytree_dataclass
class Thurstone:
    """Thurstone's case V with unit noise on each item: P = Phi(gap / sqrt(2))."""

    def probability(self, gap):
        """See `Link`."""
        return jax.scipy.special.ndtr(_standard(gap))

    def log_probability(self, gap):
        """See `Link`."""
        return jax.scipy.special.log_ndtr(_standard(gap))

    def slope(self, gap):
        """The inverse Mills ratio phi(z) / Phi(z) of z = gap / sqrt(2), over sqrt(2)."""
        return _mills(_standard(gap)) * 2**-0.5

    def curvature(self, gap):
        """With the ratio m: m (z + m) / 2; positive, though both terms grow like |z| to the left."""
        z = _standard(gap)
        ratio = _mills(z)
        return jnp.maximum(ratio * (z + ratio), 0) / 2


def _standard(gap):
    return gap * 2**-0.5


def _mills(z):
    return jnp.exp(-z * z / 2 - jax.scipy.special.log_ndtr(z)) * (2 * jnp.pi) ** -0.5


LINKS: dict[str, Link] = {"btl": BTL(), "thurstone": Thurstone()}
