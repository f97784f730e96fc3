import os
from pathlib import Path

import pytest

# Compiled programs are shared by all workers and by the programs that tests start, and kept for the next run.
CACHE = Path(__file__).parents[1] / ".pytest_cache" / "compiled"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.02")

TRACED_ROOMS = ("core", "stats", "environments", "algorithms", "simulation")
if os.environ.get("CHECK_TYPES"):  # shapes and types of all arguments and results are what the annotations say
    import jaxtyping

    checker = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
    jaxtyping.install_import_hook([f"jaxrank.{room}" for room in TRACED_ROOMS], checker)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def key():
    return jax.random.key(20180409)


@pytest.fixture(scope="session")
def experiment_1():
    """Means of the paper's Experiment 1, as the paper states them; its boundaries are (3, 12)."""
    return jnp.array([0.5] + [0.5 - a / 40 for a in range(2, 16)])
