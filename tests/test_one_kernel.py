import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrank.simulation.cpu_kernel import COMPILER_OPTIONS, one_kernel

START = jnp.linspace(0.1, 0.9, 12 * 512).reshape(12, 512)


def loop(change):
    def function(state):
        return jax.lax.while_loop(
            lambda carry: carry[0] < 5, lambda carry: (carry[0] + 1, change(carry[1])), (jnp.zeros((), int), state)
        )[1]

    return function


PLAIN = {
    "elementwise": lambda x: jnp.exp(-x) * 0.7,
    "reductions": lambda x: 0.5 * x + 0.1 * jnp.max(x, axis=0)[None] - 0.1 * jnp.sum(x, axis=0)[None] / 12,
    "gather": lambda x: x[jnp.argmin(x, axis=0), jnp.arange(512)][None] * 0.5 + 0.5 * x,
    "cumulative": lambda x: jnp.cumsum(x, axis=0) / 12,
    "branches": lambda x: jax.lax.cond(jnp.sum(x) > 1, lambda y: 0.5 * y, lambda y: y + 0.1, x),
    "random": lambda x: x * jax.random.uniform(jax.random.key(0), x.shape),
}
OTHERS = {
    "sort": lambda x: jnp.sort(x, axis=0) * 0.9,
    "scatter": lambda x: x.at[jnp.argmax(x, axis=0), jnp.arange(512)].set(0.0),
    "product": lambda x: (x @ x.T / 512) @ x * 0.1,
    "callback": lambda x: jax.pure_callback(lambda y: np.asarray(y) * 0.5, jax.typeof(x), x),
}


@pytest.mark.parametrize("name", [*PLAIN, *OTHERS])
def test_same_result_and_one_kernel_where_the_operations_allow_it(name):
    function = loop({**PLAIN, **OTHERS}[name])
    whole = jax.jit(one_kernel(function), compiler_options=COMPILER_OPTIONS)
    assert ("xla_cpu_small_call" in whole.lower(START).as_text()) == (name in PLAIN)
    np.testing.assert_allclose(whole(START), jax.jit(function)(START), rtol=1e-5)
