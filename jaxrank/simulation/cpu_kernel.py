"""A whole loop as one kernel on a CPU.

XLA runs a compiled program on a CPU as a list of small kernels, handed one by one to a pool of threads; a round of an
inner loop is a hundred of them, and handing them out costs as much as running them. XLA can also compile a called
computation to a single function, which it does by itself for very small loops. The attributes below ask for it.

They are not a public interface of XLA. So a small loop is tried once per process, and if it fails or gives another
result, all loops are compiled in the usual way: slower, with the same results. The same goes for loops with operations
that XLA's emitter for such functions does not know (a sort, a scatter, a matrix product, a callback).
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import ClosedJaxpr, Jaxpr, jaxpr_as_fun

State = TypeVar("State")

CANDIDATE_OPTIONS = ({"xla_cpu_experimental_ynn_fusion_type": ""}, {})
"""Options of the jitted program around the kernel, in order of preference.

Reductions by an outside library, where XLA has one, cannot stand inside a function and are switched off. Versions of
XLA without that library do not know the option.
"""


FIRST_VERSION = (0, 10)
"""Versions of JAX before this one abort the process while they compile some loops in this form, past any exception."""


@functools.cache
def compiler_options() -> dict[str, Any] | None:
    """Options with which a small loop was seen to work as one kernel in this process; None if it was not."""
    if jax.__version_info__ < FIRST_VERSION:
        return None

    def loop(start: jax.Array) -> jax.Array:
        def turn(carry: jax.Array) -> jax.Array:
            return jnp.where(carry > 3, carry / 2, carry * 3 + jnp.sum(carry) / 100)

        return jax.lax.fori_loop(0, 5, lambda _, carry: turn(carry), start)

    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        start = jnp.arange(1.0, 9.0)
        expected = jax.jit(loop)(start)
        for options in CANDIDATE_OPTIONS:
            try:
                result = jax.jit(one_kernel(loop), compiler_options=options)(start)
            except Exception:  # whatever this version of XLA makes of an option or attribute that it does not know
                continue
            if bool(jnp.allclose(result, expected, rtol=1e-5)):
                return options
    return None


_NAMES = (
    "abs add add_any and argmax argmin atan2 bitcast_convert_type broadcast_in_dim ceil clamp clz concatenate cond "
    "convert_element_type copy copy_p cos cummax cummin cumprod cumsum custom_jvp_call custom_vjp_call digamma div "
    "dynamic_slice dynamic_update_slice eq erf erf_inv erfc exp exp2 expm1 floor gather ge gt integer_pow iota "
    "is_finite jit le lgamma log log1p logistic lt max min mul ne neg nextafter not or pad pjit population_count "
    "pow random_bits random_fold_in random_gamma random_seed random_split random_unwrap random_wrap reduce_and "
    "reduce_max reduce_min reduce_or reduce_precision reduce_prod reduce_sum rem reshape reshard rev round rsqrt "
    "scan select_n shift_left shift_right_arithmetic shift_right_logical sign sin slice split sqrt square squeeze "
    "stack stop_gradient sub tan tanh threefry2x32 transpose while xor "
)
_KNOWN = frozenset(_NAMES.split())


def one_kernel(function: Callable[[State], State]) -> Callable[[State], State]:
    """`function`, to be compiled to a single kernel if all its operations allow it."""

    def call(state: State) -> State:
        closed, shape = jax.make_jaxpr(function, return_shape=True)(state)
        if not set(_operations(closed.jaxpr)) <= _KNOWN:
            return function(state)

        def kernel(constants: list, leaves: list) -> tuple[list, list]:
            results = jaxpr_as_fun(ClosedJaxpr(closed.jaxpr, constants))(*leaves)
            return results, jax.lax.optimization_barrier(constants)

        # XLA aborts the process on a parameter of the kernel that no operation uses, and it may find out late that one
        # is of no use. So what the function closes over is returned as well, and barriers keep JAX from dropping it.
        results = set_xla_metadata(
            jax.jit(kernel)(closed.consts, jax.tree.leaves(state)), xla_cpu_small_call="true", inlineable="false"
        )
        leaves, _ = jax.lax.optimization_barrier(results)
        return cast(State, jax.tree.unflatten(jax.tree.structure(shape), leaves))

    return call


def _operations(jaxpr: Jaxpr) -> Iterator[str]:
    """Names of all primitives, those of inner programs included."""
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for value in jax.tree.leaves(equation.params, is_leaf=lambda part: isinstance(part, Jaxpr | ClosedJaxpr)):
            if isinstance(value, Jaxpr | ClosedJaxpr):
                yield from _operations(value.jaxpr if isinstance(value, ClosedJaxpr) else value)
