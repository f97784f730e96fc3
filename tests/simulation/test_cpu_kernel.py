import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank.simulation import cpu_kernel
from jaxrank.simulation.cpu_kernel import compiler_options, one_kernel

pytestmark = pytest.mark.skipif(
    jax.__version_info__ < cpu_kernel.FIRST_VERSION, reason="loops are compiled in the usual way there"
)

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
    whole = jax.jit(one_kernel(function), compiler_options=compiler_options())
    assert ("xla_cpu_small_call" in whole.lower(START).as_text()) == (name in PLAIN)
    np.testing.assert_allclose(whole(START), jax.jit(function)(START), rtol=1e-5)


@pytest.mark.parametrize("known", [True, False])
def test_what_turns_out_to_be_of_no_use_does_not_stop_the_compiler(known):
    """XLA would abort the process on what a loop closes over and drops when simplified, be it a constant or traced."""
    idle = jnp.arange(12)[:, None]

    def whole(start, idle):
        return one_kernel(loop(lambda x: 0.5 * x + (idle * 0).astype(x.dtype)))(start)

    compiled = jax.jit((lambda start, _: whole(start, idle)) if known else whole, compiler_options=compiler_options())
    assert "xla_cpu_small_call" in compiled.lower(START, idle).as_text()
    np.testing.assert_allclose(compiled(START, idle), START * 0.5**5, rtol=1e-5)


def broken(options):
    def one_kernel(function):
        def call(state):
            if options == "raises":
                raise RuntimeError("no such attribute")
            return function(state) + 1

        return call

    return one_kernel


@pytest.mark.slow
@pytest.mark.parametrize("failure", ["raises", "is wrong"])
def test_where_it_does_not_work_the_usual_form_gives_the_same_results(monkeypatch, failure):
    """As with a version of XLA that does not know the attribute, or takes it and gets it wrong."""
    algorithm = jr.LUCBRank(num_items=5, boundaries=(2,), delta=0.1, epsilon=0.3)
    setting = jax.random.key(0), algorithm, jr.BernoulliArms(means=[0.9, 0.7, 0.5, 0.3, 0.1]), 8
    expected = jr.simulate(*setting)
    with monkeypatch.context() as patched:
        patched.setattr(cpu_kernel, "one_kernel", broken(failure))
        compiler_options.cache_clear()
        assert compiler_options() is None
        result = jr.simulate(*setting)
    compiler_options.cache_clear()
    assert compiler_options() is not None, "it works here"
    for name in ("samples", "order", "pulls"):
        np.testing.assert_array_equal(getattr(result, name), getattr(expected, name))
