"""How much r exceeds log(1 + r): what all divergences are made of, without cancellation."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def scaled_excess(scale: Float[Array, "..."], step: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""Scale * phi(step / scale), with $\varphi(r) = r - \log(1 + r)$, to a few units in the last place.

    With 1 + r = 2^k (1 + f) and 1 + f between the square roots of 1/2 and of 2,
    $\varphi(r) = (r - f - k \log 2) + \varphi(f)$, and with s = f / (2 + f),
    $\varphi(f) = s f - 2 (s^3/3 + s^5/5 + ...)$, whose terms do not cancel. At scale 0 the limit is `step`.
    """
    some = scale > 0
    ratio = step * (1 / jnp.where(some, scale, 1))
    return jnp.where(some, jnp.where(ratio > -1, scale * _excess(ratio), jnp.inf), step)


def _excess(ratio):
    """phi(ratio) for ratios above -1."""
    info, whole = jnp.finfo(ratio.dtype), jnp.dtype(f"int{jnp.finfo(ratio.dtype).bits}")
    near_half = np.asarray(0.5**0.5, ratio.dtype).view(whole)
    power = (jax.lax.bitcast_convert_type(1 + ratio, whole) - near_half) >> info.nmant
    shrink = jax.lax.bitcast_convert_type((info.maxexp - 1 - power) << info.nmant, ratio.dtype)
    rest = ratio * shrink + (shrink - 1)
    half = rest / (2 + rest)
    square = half * half
    # s^2 < .03: n terms leave .17^(2n+1) / (2n + 3) of the whole; 4 are enough for 32 bit, 11 for 64.
    series = jnp.zeros_like(half)
    for order in range(9 if info.bits == 32 else 23, 1, -2):
        series = (series + 1.0 / order) * square
    power = power.astype(ratio.dtype)
    # log 2 in two parts, so that its rounding does not count.
    far = ((ratio - power * LOG_2_HIGH) - rest) - power * LOG_2_LOW
    return far + half * (rest - 2 * series)


LOG_2_HIGH, LOG_2_LOW = 355 / 512, float(np.log(2) - 355 / 512)
