"""Eager checks of public arguments: each error names the argument, the rule and the value.

A traced value has no number to look at, so every check lets it pass.
"""

import operator
from collections.abc import Callable
from typing import Any, NoReturn, SupportsIndex

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer


def concrete(value: Any) -> np.ndarray | None:
    """The value as a NumPy array, or None where it is traced."""
    return None if isinstance(value, Tracer) else np.asarray(value)


def require(holds: bool, name: str, rule: str, value: Any) -> None:
    """Raise `ValueError` unless the rule holds."""
    if not holds:
        fail(name, rule, value)


def fail(name: str, rule: str, value: Any) -> NoReturn:
    """Raise `ValueError` with the argument's name, the rule it breaks and its value."""
    raise ValueError(f"{name} {rule}, got {value}")


def numbers(name: str, value: Any) -> np.ndarray | None:
    """Real numbers without NaN."""
    array = concrete(value)
    if array is None:
        return None
    require(np.issubdtype(array.dtype, np.number) and not np.iscomplexobj(array), name, "must be numeric", value)
    array = array.astype(np.float64)
    if np.isnan(array).any():
        where = tuple(int(i) for i in np.argwhere(np.isnan(array))[0])
        place = f" at index {where[0] if len(where) == 1 else where}" if where else ""
        fail(name, "must not contain NaN", f"NaN{place}")
    return array


def inside(name: str, value: Any, low: float, high: float, ends: str = "[]") -> None:
    """Every number lies between low and high; `ends`, such as "[)", says which of the two are allowed themselves."""
    array = numbers(name, value)
    if array is None:
        return
    good = (array >= low if ends[0] == "[" else array > low) & (array <= high if ends[1] == "]" else array < high)
    if (low, high) == (-np.inf, np.inf):
        rule = "must be finite"
    elif high == np.inf:
        rule = f"must be finite and {'at least' if ends[0] == '[' else 'above'} {low:g}"
    elif low == -np.inf:
        rule = f"must be finite and {'at most' if ends[1] == ']' else 'below'} {high:g}"
    else:
        rule = f"must lie in {ends[0]}{low:g}, {high:g}{ends[1]}"
    good &= np.isfinite(array)
    if not good.all():
        first = np.atleast_1d(array)[~np.atleast_1d(good)][0]
        fail(name, rule, f"{first:g}" if array.ndim == 0 else f"{first:g} among its {array.size} values")


def probability(name: str, value: Any) -> None:
    """Every number lies strictly between 0 and 1."""
    inside(name, value, 0, 1, "()")


def risk(name: str, value: Any) -> None:
    """Every number lies strictly between 0 and 1, and is a normal number of the default float type."""
    probability(name, value)
    array, kind = numbers(name, value), jnp.finfo(jnp.result_type(float))
    if array is not None and (array < kind.tiny).any():
        rule = f"must be at least {float(kind.tiny):.2g}, the smallest normal number of {kind.bits} bits"
        fail(name, rule, f"{float(array.min()):g}")


def positive(name: str, value: Any) -> None:
    """Every number is finite and above 0."""
    inside(name, value, 0, np.inf, "()")


def nonnegative(name: str, value: Any) -> None:
    """Every number is finite and at least 0."""
    inside(name, value, 0, np.inf, "[)")


def finite(name: str, value: Any) -> None:
    """Every number is finite."""
    inside(name, value, -np.inf, np.inf, "()")


def whole(name: str, value: Any, *, low: int, high: int | None = None) -> int:
    """A Python int (or something that is one) between low and high."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number, got {value!r}") from None
    rule = f"must be at least {low}" if high is None else f"must lie in [{low}, {high}]"
    require(low <= number and (high is None or number <= high), name, rule, number)
    return number


def whole_number(name: str, *, low: int) -> Callable[[SupportsIndex], int]:
    """`whole` as a field's converter."""
    return lambda value: whole(name, value, low=low)


def one_of(name: str, *choices: Any) -> Callable[[Any], Any]:
    """A field's converter that lets only these choices pass."""

    def choose(value: Any) -> Any:
        require(value in choices, name, f"must be {' or '.join(map(repr, choices))}", repr(value))
        return value

    return choose
