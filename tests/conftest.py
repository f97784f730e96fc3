import jax
import jax.numpy as jnp
import pytest

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def key():
    return jax.random.key(20180409)


@pytest.fixture(scope="session")
def experiment_1():
    """Means of the paper's Experiment 1; its boundaries are (3, 12)."""
    return jnp.array([0.5] + [0.5 - a / 40 for a in range(2, 16)])
