import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank.core import ranks


@pytest.mark.parametrize(
    ("num_items", "boundaries", "expected"),
    [
        (15, (3, 12), (3, 12)),
        (15, (3, 12, 15), (3, 12)),
        (15, [3, np.int64(12)], (3, 12)),
        (15, jr.sizes(3, 9, 3), (3, 12)),
        (100, jr.quantiles(5), (20, 40, 60, 80)),
        (10, jr.quantiles(3), (3, 7)),
        (7, jr.top(2), (2,)),
        (4, jr.complete(), (1, 2, 3)),
    ],
)
def test_cut_points(num_items, boundaries, expected):
    assert jr.cut_points(num_items, boundaries) == expected


@pytest.mark.parametrize(
    ("boundaries", "message"),
    [
        ((12, 3), r"boundaries must be strictly increasing, got \(12, 3\)"),
        ((3, 3), r"boundaries must be strictly increasing, got \(3, 3\)"),
        ((0, 3), "boundaries must be at least 1, got 0"),
        ((3, 16), r"boundaries must not exceed the number of items, 15, got \(3, 16\)"),
        ((), r"boundaries must cut the items into at least two clusters, got \(\)"),
        ((15,), r"boundaries must cut the items into at least two clusters, got \(\)"),
        ((2.5,), "boundaries must be a whole number, got 2.5"),
        (7, "boundaries must be a sequence of whole numbers or a cut rule, got 7"),
        (jr.sizes(3, 9), r"sizes must add up to 15 items, got \(3, 9\)"),
        (jr.quantiles(16), "c must be at most the number of items, 15, got 16"),
        (jr.top(15), r"top\(15\) must cut the items into at least two clusters"),
        (jr.top(16), r"top\(16\) must not exceed the number of items, 15, got \(16,\)"),
    ],
)
def test_bad_boundaries(boundaries, message):
    with pytest.raises(ValueError, match=message):
        jr.cut_points(15, boundaries)


def test_one_item_cannot_be_ranked():
    with pytest.raises(ValueError, match="num_items must be at least 2, got 1"):
        jr.cut_points(1, (1,))


@pytest.mark.parametrize("num_items", [9, 300])
def test_ranks_agree_with_a_stable_sort(num_items):
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 4, num_items) / 4
    priority = rng.permutation(num_items)
    expected = np.empty(num_items, int)
    expected[sorted(range(num_items), key=lambda a: (-scores[a], priority[a]))] = np.arange(num_items)
    ours = ranks.ranks(jnp.asarray(scores, float), jnp.asarray(priority))
    np.testing.assert_array_equal(ours, expected)
    batched = ranks.ranks(jnp.asarray(scores, float)[:, None], jnp.asarray(priority)[:, None])
    np.testing.assert_array_equal(batched[:, 0], expected)


def test_cluster_of_rank():
    np.testing.assert_array_equal(ranks.cluster_of_rank(jnp.arange(6), (1, 4)), [0, 1, 1, 1, 2, 2])


@pytest.mark.parametrize("batch", [(), (6,)])
def test_updated_ranks_are_the_ranks_counted_anew(batch):
    """Small integer scores, so that ties abound; movers repeat, and some do not move."""
    rng = np.random.default_rng(0)
    shape = (9, *batch)
    priority = jnp.asarray(np.argsort(rng.random(shape), axis=0))
    scores = jnp.asarray(rng.integers(0, 4, shape), float)
    rank = ranks.ranks(scores, priority)
    for _ in range(50):
        changed = rng.integers(0, 9, (4, *batch))
        values = np.array(scores)
        moved = np.where(rng.random(changed.shape) < 0.8, rng.integers(0, 4, changed.shape), -1)
        for number in range(4):
            index = (changed[number], *np.ogrid[tuple(slice(n) for n in batch)])
            values[index] = np.where(moved[number] < 0, values[index], moved[number])
        scores = jnp.asarray(values, float)
        rank = ranks.updated_ranks(rank, scores, priority, jnp.asarray(changed))
        np.testing.assert_array_equal(rank, ranks.ranks(scores, priority))
