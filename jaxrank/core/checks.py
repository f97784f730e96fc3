"""Eager checks at the public doors: each error names the argument, the rule and the value.

A traced value has no number to look at, so every check lets it pass.
"""

import operator
from typing import Any

import numpy as np
from jax.core import Tracer


def concrete(value: Any) -> np.ndarray | None:
    """The value as a NumPy array, or None where it is traced."""
    return None if isinstance(value, Tracer) else np.asarray(value)


def require(holds: bool, name: str, rule: str, value: Any) -> None:
    """Raise unless the rule holds."""
    if not holds:
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
        require(False, name, "must not contain NaN", f"NaN at index {where[0] if len(where) == 1 else where}")
    return array


def inside(name: str, value: Any, low: float, high: float, *, closed: tuple[bool, bool]) -> None:
    """Every number lies between low and high; `closed` says which ends belong to the range."""
    array = numbers(name, value)
    if array is None:
        return
    good = (array >= low if closed[0] else array > low) & (array <= high if closed[1] else array < high)
    if high == np.inf:
        good &= np.isfinite(array)
    if low == -np.inf:
        rule = "must be finite" if high == np.inf else f"must be {'at most' if closed[1] else 'below'} {high:g}"
    elif high == np.inf:
        rule = f"must be finite and {'at least' if closed[0] else 'above'} {low:g}"
    else:
        rule = f"must lie in {'[' if closed[0] else '('}{low:g}, {high:g}{']' if closed[1] else ')'}"
    if not good.all():
        first = np.atleast_1d(array)[~np.atleast_1d(good)][0]
        require(False, name, rule, f"{first:g}" if array.ndim == 0 else f"{first:g} among its {array.size} values")


def real(value: Any) -> Any:
    """Python's whole numbers as floats, so that epsilon = 0 and epsilon = 0.05 share a compilation."""
    return float(value) if isinstance(value, int) else value


def whole(name: str, value: Any, *, low: int, high: int | None = None) -> int:
    """A Python int (or something that is one) between low and high."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number, got {value!r}") from None
    rule = f"must be at least {low}" if high is None else f"must lie in [{low}, {high}]"
    require(low <= number and (high is None or number <= high), name, rule, number)
    return number
