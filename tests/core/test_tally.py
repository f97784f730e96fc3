import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank.core.tally import Tally


def query(items, mask):
    items = jnp.asarray(items)
    return jr.Query(item=items, opponent=jnp.full_like(items, jr.ANYONE), mask=jnp.asarray(mask))


@pytest.mark.parametrize("num_items", [4, 5000])
def test_add_credits_repeated_items_and_skips_masked_ones(num_items):
    asked = query([2, 0, 2, 1], [True, True, True, False])
    answers = Tally.empty((num_items,)).add(asked, jnp.asarray([1.0, 0.5, 0.25, 9.0]))
    np.testing.assert_array_equal(answers.pulls[:4], [1, 0, 2, 0])
    np.testing.assert_array_equal(answers.means[:4], [0.5, 0, 0.625, 0])


@pytest.mark.parametrize("num_items", [4, 5000])
def test_a_trailing_trial_axis_keeps_trials_apart(num_items):
    items, mask = np.array([[2, 0], [1, 0]]), np.array([[True, True], [True, True]])
    rewards = jnp.asarray([[1.0, 2.0], [3.0, 4.0]])
    answers = Tally.empty((num_items, 2)).add(query(items, mask), rewards)
    np.testing.assert_array_equal(answers.pulls[:3], [[0, 2], [1, 0], [1, 0]])
    np.testing.assert_array_equal(answers.sums[:3], [[0, 6], [3, 0], [1, 0]])


def test_counting_goes_on_beyond_the_precision_of_32_bit_floats():
    """2^24 + 1 is not a float32; the second number of the sum keeps what the first one drops."""
    many = 2**24
    answers = Tally(pulls=jnp.full(2, many), sums=jnp.full(2, float(many)), lost=jnp.zeros(2))
    for _ in range(5):
        answers = answers.add(query([0], [True]), jnp.ones(1))
    assert int(answers.pulls[0]) == many + 5
    assert float(answers.sums[0]) + float(answers.lost[0]) == many + 5
    assert float(answers.means[0]) == 1


def test_answers_of_another_shape_are_refused():
    """Otherwise they would be broadcast, and credited to items that nobody asked about."""
    with pytest.raises(AssertionError, match="assert_equal_shape"):
        Tally.empty((4,)).add(query([2, 0], [True, True]), jnp.ones(1))
