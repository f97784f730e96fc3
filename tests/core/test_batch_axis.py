import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry2x32_p

from jaxrank.core import batch_axis, prng


def test_the_hash_is_the_one_of_jax():
    words = jax.random.bits(jax.random.key(0), (4, 1000), jnp.uint32)
    for ours, theirs in zip(prng._threefry(*words), threefry2x32_p.bind(*words), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("implementation", ["threefry2x32", "rbg"])
def test_a_batch_of_keys_gives_what_each_key_gives(implementation):
    keys = jax.random.split(jax.random.key(1, impl=implementation), 3)
    numbers = jnp.array([0, 5, 2**20])
    together = prng.fold_in(keys, numbers)
    for n in range(3):
        alone = jax.random.fold_in(keys[n], numbers[n])
        np.testing.assert_array_equal(jax.random.key_data(alone), jax.random.key_data(together[n]))
        one = prng.fold_in(keys[n], numbers[n])
        np.testing.assert_array_equal(jax.random.key_data(alone), jax.random.key_data(one))
        np.testing.assert_array_equal(prng.bits(keys, 5)[:, n], prng.bits(keys[n], 5))
        np.testing.assert_array_equal(prng.uniform(keys, 5)[:, n], prng.uniform(keys[n], 5))


def test_uniform_numbers_are_uniform():
    """Kolmogorov-Smirnov distance below 1.95 / sqrt(n): passed by a uniform sample in 999 of 1,000 cases."""
    numbers = np.sort(np.asarray(prng.uniform(jax.random.split(jax.random.key(4), 500), 7)).ravel().astype(float))
    assert numbers[0] >= 0
    assert numbers[-1] < 1
    grid = np.arange(numbers.size + 1) / numbers.size
    distance = max((grid[1:] - numbers).max(), (numbers - grid[:-1]).max())
    assert distance < 1.95 / np.sqrt(numbers.size)


def test_pick_from_a_shared_table_and_from_one_per_trial():
    index = jnp.array([[0, 2], [1, 1]])
    shared = jnp.array([10, 11, 12])
    np.testing.assert_array_equal(batch_axis.gather(shared, index), [[10, 12], [11, 11]])
    own = jnp.array([[10, 20], [11, 21], [12, 22]])
    np.testing.assert_array_equal(batch_axis.gather(own, index), [[10, 22], [11, 21]])


def test_put_and_add_in_few_and_in_many_rows():
    rng = np.random.default_rng(0)
    table = rng.integers(0, 100, (40, 3))
    for count in (5, batch_axis.MAX_UNROLLED_ROWS + 1):
        place = np.stack([rng.permutation(40)[:count] for _ in range(3)], axis=1)
        value = rng.integers(0, 100, place.shape)
        expected, added = table.copy(), table.copy()
        np.put_along_axis(expected, place, value, axis=0)
        np.add.at(added, (place, np.arange(3)[None]), value)
        arrays = (jnp.asarray(table), jnp.asarray(place), jnp.asarray(value))
        np.testing.assert_array_equal(batch_axis.set_rows(*arrays), expected)
        np.testing.assert_array_equal(batch_axis.add_rows(*arrays), added)
        one = tuple(array[:, 1] for array in arrays)
        np.testing.assert_array_equal(batch_axis.set_rows(*one), expected[:, 1])
        np.testing.assert_array_equal(batch_axis.add_rows(*one), added[:, 1])


@pytest.mark.parametrize("implementation", ["threefry2x32", "rbg"])
def test_keys_are_split_as_jax_splits_them(implementation):
    keys = jax.random.split(jax.random.key(1, impl=implementation), 3)
    together = prng.split(keys, 4)
    for n in range(3):
        alone = jax.random.key_data(jax.random.split(keys[n], 4))
        np.testing.assert_array_equal(alone, jax.random.key_data(together[:, n]))
        np.testing.assert_array_equal(alone, jax.random.key_data(prng.split(keys[n], 4)))


def test_permutations_are_uniform():
    """6,000 permutations of three: each of the six 1,000 times, give or take 4.5 standard deviations of 29."""
    orders = np.asarray(prng.permutation(jax.random.split(jax.random.key(2), 6_000), 3))
    assert (np.sort(orders, axis=0) == np.arange(3)[:, None]).all()
    counts = np.unique(orders.T @ [9, 3, 1], return_counts=True)[1]
    assert len(counts) == 6
    assert (abs(counts - 1_000) < 130).all()


@pytest.mark.parametrize("size", [3, 40])
def test_rows_are_fetched_and_entries_replaced_in_small_and_large_tables(size):
    assert (size > batch_axis.MAX_ROWS_COMPARED) == (size == 40)
    rng = np.random.default_rng(size)
    table, value = rng.normal(size=(size, size, 4)), rng.normal(size=(2, 4))
    row = np.stack([rng.permutation(size)[:2] for _ in range(4)], axis=1)
    column, now = rng.integers(size, size=(2, 4)), np.asarray([[True, True, False, True], [True, False, False, True]])
    inputs = [jnp.asarray(x) for x in (table, row, column, value, now)]
    together, fetched = batch_axis.set_one_per_row(*inputs), batch_axis.gather_rows(*inputs[:2])
    for n in range(4):
        expected = np.array(inputs[0][..., n])
        for place in range(2):
            if now[place, n]:
                expected[row[place, n], column[place, n]] = inputs[3][place, n]
        np.testing.assert_array_equal(together[..., n], expected)
        np.testing.assert_array_equal(fetched[..., n], inputs[0][row[:, n], :, n])
        alone = [x[..., n] for x in inputs]
        np.testing.assert_array_equal(batch_axis.set_one_per_row(*alone), expected)
        np.testing.assert_array_equal(batch_axis.gather_rows(*alone[:2]), fetched[..., n])
