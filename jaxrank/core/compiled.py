"""Functions that are compiled when they are called with numbers; where anything is traced they are as written."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
from jax.core import Tracer

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    """`function`, compiled once for all calls from the host with arguments of the same shapes.

    Without it, a loop or a branch inside is compiled anew by every such call, because its body is a new object each
    time. Inside a traced program the function is as written. `options` are those of `jax.jit`.
    """
    program = jax.jit(function, **options)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        traced = any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((args, kwargs)))
        return (function if traced else program)(*args, **kwargs)

    return call
