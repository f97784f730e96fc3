import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry2x32_p

from jaxrank import trials


def test_the_hash_is_the_one_of_jax():
    words = jax.random.bits(jax.random.key(0), (4, 1000), jnp.uint32)
    for ours, theirs in zip(trials._threefry(*words), threefry2x32_p.bind(*words), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("implementation", ["threefry2x32", "rbg"])
def test_a_batch_of_keys_gives_what_each_key_gives(implementation):
    keys = jax.random.split(jax.random.key(1, impl=implementation), 3)
    numbers = jnp.array([0, 5, 2**20])
    together = trials.fold_in(keys, numbers)
    for n in range(3):
        alone = jax.random.fold_in(keys[n], numbers[n])
        np.testing.assert_array_equal(jax.random.key_data(alone), jax.random.key_data(together[n]))
        one = trials.fold_in(keys[n], numbers[n])
        np.testing.assert_array_equal(jax.random.key_data(alone), jax.random.key_data(one))
        np.testing.assert_array_equal(trials.bits(keys, 5)[:, n], trials.bits(keys[n], 5))
        np.testing.assert_array_equal(trials.uniform(keys, 5)[:, n], trials.uniform(keys[n], 5))


def test_uniform_numbers_are_uniform():
    """Kolmogorov-Smirnov distance below 1.95 / sqrt(n): passed by a uniform sample in 999 of 1,000 cases."""
    numbers = np.sort(np.asarray(trials.uniform(jax.random.split(jax.random.key(4), 500), 7)).ravel().astype(float))
    assert numbers[0] >= 0
    assert numbers[-1] < 1
    grid = np.arange(numbers.size + 1) / numbers.size
    distance = max((grid[1:] - numbers).max(), (numbers - grid[:-1]).max())
    assert distance < 1.95 / np.sqrt(numbers.size)


def test_pick_from_a_shared_table_and_from_one_per_trial():
    index = jnp.array([[0, 2], [1, 1]])
    shared = jnp.array([10, 11, 12])
    np.testing.assert_array_equal(trials.pick(shared, index), [[10, 12], [11, 11]])
    own = jnp.array([[10, 20], [11, 21], [12, 22]])
    np.testing.assert_array_equal(trials.pick(own, index), [[10, 22], [11, 21]])
