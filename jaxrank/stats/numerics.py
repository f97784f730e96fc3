"""Functions whose rounding decides between items: precise, and the same whatever the shape of the array.

One trial by itself and the same trial among many must not part ways. The compiler's own logarithms round differently in
scalar and in vector code; the forms here are sums and products only, and round alike in both. And where two products
are added up, the compiler joins the sum with one or the other to an operation that rounds once, and not always with the
same one: `product` leaves it no choice.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

LOG_2_HIGH, LOG_2_LOW = 355 / 512, -2.121944400546905827679e-4
"""log 2 in two parts, so that its rounding does not count."""

TIE = {4: 2**-17, 8: 2**-36}
"""Numbers closer than this, relative to their size, count as tied, by size of the float.

Items with equal answers have equal scores but for rounding. A random priority, not rounding, must choose among them.
"""


def product(a: Float[Array, "..."], b: Float[Array, "..."]) -> Float[Array, "..."]:
    """a * b, rounded by itself, whatever it is added to."""
    return rounded(a * b)


def rounded(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """x, whose last operation is not joined with the next one; minus infinity becomes the least finite number.

    A single instruction on a CPU. `jax.lax.reduce_precision` to the same precision looks made for it, and XLA drops it.
    """
    least = float(jnp.finfo(x.dtype).min)
    return jnp.where(x < least, least, x)


def log(x: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""Natural logarithm of positive normal numbers, to two units in the last place.

    With x = 2^k (1 + f) it is $k \log 2 + f - \varphi(f)$, where $\varphi(r) = r - \log(1 + r)$.
    """
    power, shrink = _power_of_two(x)
    return _log(power, x * shrink - 1)


def log1p(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """log(1 + x) for x above -1, to a few units in the last place."""
    power, shrink = _power_of_two(1 + x)
    return _log(power, x * shrink + (shrink - 1))


def _log(power: Int[Array, "..."], rest: Float[Array, "..."]) -> Float[Array, "..."]:
    """log(2^power (1 + rest))."""
    power = power.astype(rest.dtype)
    return power * LOG_2_HIGH + ((rest - rounded(_near_excess(rest))) + power * LOG_2_LOW)


def log_inverse(risk: Float[Array, "..."]) -> Float[Array, "..."]:
    """log(1 / risk); infinite where the risk is no probability, or too small for a normal number.

    So no threshold that is made from it is reached where a traced delta makes no sense.
    """
    sound = (risk >= jnp.finfo(risk.dtype).tiny) & (risk < 1)
    return jnp.where(sound, -log(jnp.where(sound, risk, 0.5)), jnp.inf)


def scaled_excess(scale: Float[Array, "..."], step: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""Scale * phi(step / scale), with $\varphi(r) = r - \log(1 + r)$, to a few units in the last place.

    With 1 + r = 2^k (1 + f), $\varphi(r) = (r - f - k \log 2) + \varphi(f)$. At scale 0 the limit is `step`.
    """
    some = scale > 0
    ratio = step * (1 / jnp.where(some, scale, 1))
    return jnp.where(some, jnp.where(ratio > -1, scale * _excess(ratio), jnp.inf), step)


def _excess(ratio):
    """phi(ratio) for ratios above -1."""
    power, shrink = _power_of_two(1 + ratio)
    rest = ratio * shrink + (shrink - 1)
    power = power.astype(ratio.dtype)
    far = ((ratio - power * LOG_2_HIGH) - rest) - power * LOG_2_LOW
    return far + rounded(_near_excess(rest))


def _power_of_two(x):
    """The whole k with x / 2^k between the square roots of 1/2 and of 2, and 2^-k, from the bits of x > 0."""
    info, whole = jnp.finfo(x.dtype), jnp.dtype(f"int{jnp.finfo(x.dtype).bits}")
    near_half = np.asarray(0.5**0.5, x.dtype).view(whole)
    power = (jax.lax.bitcast_convert_type(x, whole) - near_half) >> info.nmant
    return power, jax.lax.bitcast_convert_type((info.maxexp - 1 - power) << info.nmant, x.dtype)


def _near_excess(rest):
    r"""phi(f) for 1 + f between the square roots of 1/2 and of 2.

    With s = f / (2 + f), $\varphi(f) = s f - 2 (s^3/3 + s^5/5 + ...)$, whose terms do not cancel.
    """
    half = rest / (2 + rest)
    square = half * half
    # s^2 < .03: n terms leave .17^(2n+1) / (2n + 3) of the whole; 4 are enough for 32 bit, 11 for 64.
    series = jnp.zeros_like(half)
    for order in range(9 if jnp.finfo(rest.dtype).bits == 32 else 23, 1, -2):
        series = (series + 1.0 / order) * square
    return half * (rest - 2 * series)
