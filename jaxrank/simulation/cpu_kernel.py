"""A whole loop as one kernel on a CPU.

XLA runs a compiled program on a CPU as a list of small kernels, handed one by one to a pool of threads; a round of an
inner loop is a hundred of them, and handing them out costs as much as running them. XLA can also compile a called
computation to a single function, which it does by itself for very small loops. The attributes below ask for it.

It takes only operations that XLA's emitter for such functions knows. Loops with others (a sort, a scatter, a matrix
product, a callback) are left as they are: slower, with the same results.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar, cast

import jax
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import ClosedJaxpr, Jaxpr

State = TypeVar("State")

COMPILER_OPTIONS = {"xla_cpu_experimental_ynn_fusion_type": ""}
"""The jitted program around it needs these: reductions by an outside library cannot stand inside a function."""

_NAMES = (
    "abs add add_any and argmax argmin atan2 bitcast_convert_type broadcast_in_dim ceil clamp clz concatenate "
    "cond convert_element_type copy copy_p cos cummax cummin cumprod cumsum custom_jvp_call custom_vjp_call "
    "digamma div dynamic_slice dynamic_update_slice eq erf erf_inv erfc exp exp2 expm1 floor gather ge gt "
    "integer_pow iota is_finite jit le lgamma log log1p logistic lt max min mul ne neg nextafter not or pad pjit "
    "population_count pow random_bits random_fold_in random_gamma random_seed random_split random_unwrap "
    "random_wrap reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum rem reshape reshard rev round "
    "rsqrt scan select_n shift_left shift_right_arithmetic shift_right_logical sign sin slice split sqrt square "
    "squeeze stack stop_gradient sub tan tanh threefry2x32 transpose while xor "
)
_KNOWN = frozenset(_NAMES.split())


def one_kernel(function: Callable[[State], State]) -> Callable[[State], State]:
    """`function`, to be compiled to a single kernel if all its operations allow it."""

    def call(state: State) -> State:
        jaxpr = jax.make_jaxpr(function)(state).jaxpr
        if not set(_operations(jaxpr)) <= _KNOWN:
            return function(state)
        return cast(State, set_xla_metadata(jax.jit(function)(state), xla_cpu_small_call="true", inlineable="false"))

    return call


def _operations(jaxpr: Jaxpr) -> Iterator[str]:
    """Names of all primitives, those of inner programs included."""
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for value in jax.tree.leaves(equation.params, is_leaf=lambda part: isinstance(part, Jaxpr | ClosedJaxpr)):
            if isinstance(value, Jaxpr | ClosedJaxpr):
                yield from _operations(value.jaxpr if isinstance(value, ClosedJaxpr) else value)
