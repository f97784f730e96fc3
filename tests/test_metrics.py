import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binomtest, kendalltau

import jaxrank as jr
from jaxrank import metrics

MEANS = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])


@pytest.mark.parametrize(
    ("order", "epsilon", "expected"),
    [
        ([0, 1, 2, 3, 4, 5], 0.0, False),
        ([1, 0, 3, 2, 5, 4], 0.0, False),  # swaps inside the clusters
        ([0, 2, 1, 3, 4, 5], 0.0, True),  # items 1 and 2 across the first boundary
        ([0, 2, 1, 3, 4, 5], 0.1, False),  # exactly epsilon apart
        ([0, 3, 1, 2, 4, 5], 0.1, True),  # item 3 is 0.2 below item 1
        ([0, 3, 1, 2, 4, 5], 0.2, False),
        ([5, 1, 2, 3, 4, 0], 0.3, True),
    ],
)
def test_mistakes(order, epsilon, expected):
    assert bool(metrics.mistakes(np.array(order), MEANS, (2, 4), epsilon)) is expected


def test_mistakes_over_items_in_any_order_and_over_instances():
    rng = np.random.default_rng(1)
    shuffled = rng.permutation(6)
    order = np.argsort(-MEANS[shuffled])
    assert not metrics.mistakes(order, MEANS[shuffled], (2, 4))
    means = np.stack([MEANS, MEANS[::-1]])[:, None]
    orders = np.broadcast_to(np.arange(6), (2, 3, 6))
    np.testing.assert_array_equal(metrics.mistakes(orders, means, (2, 4)), [[False] * 3, [True] * 3])


def test_equal_means_are_interchangeable():
    assert not metrics.mistakes(np.array([0, 2, 1, 3]), np.array([0.9, 0.5, 0.5, 0.1]), (2,))


def test_clusters():
    np.testing.assert_array_equal(metrics.clusters(np.array([2, 0, 1, 3]), (1, 3)), [1, 1, 0, 2])


def test_kendall_tau_distance_against_scipy():
    rng = np.random.default_rng(0)
    for _ in range(20):
        order, means = rng.permutation(9), rng.random(9)
        tau = kendalltau(np.argsort(order), -means).statistic
        assert float(metrics.kendall_tau_distance(order, means)) == pytest.approx((1 - tau) / 2, abs=1e-6)


def test_inversions_split_by_true_cluster():
    # Order 1 0 | 2 4 | 3 5: (1, 0) inverted inside a cluster, (4, 3) between two.
    split = metrics.inversions(jnp.array([1, 0, 2, 4, 3, 5]), MEANS, (2, 4))
    assert (int(split.inter), int(split.intra)) == (1, 1)
    rng = np.random.default_rng(0)
    orders = np.stack([rng.permutation(6) for _ in range(50)])
    split = metrics.inversions(orders, MEANS, (2, 4))
    total = np.asarray(metrics.kendall_tau_distance(orders, MEANS)) * 15
    np.testing.assert_allclose(np.asarray(split.inter + split.intra), total, atol=1e-4)


@pytest.mark.parametrize(("successes", "trials"), [(0, 200), (3, 40), (200, 200), (57, 113)])
def test_wilson_interval_against_scipy(successes, trials):
    expected = binomtest(successes, trials).proportion_ci(0.95, method="wilson")
    assert metrics.wilson_interval(successes, trials) == pytest.approx((expected.low, expected.high))


def test_bad_input():
    with pytest.raises(ValueError, match="means must not contain NaN, got NaN at index 1"):
        metrics.mistakes(np.arange(3), np.array([0.1, np.nan, 0.3]), (1,))
    with pytest.raises(ValueError, match=r"means must have 3 items like order, got \(4,\)"):
        metrics.mistakes(np.arange(3), MEANS[:4], (1,))
    with pytest.raises(ValueError, match="successes must be at most trials, 5, got 6"):
        jr.metrics.wilson_interval(6, 5)


def test_means_of_instances_are_matched_from_the_left():
    """As many instances as trials: broadcasting from the right would compare trial i with instance i."""
    rng = np.random.default_rng(0)
    means = rng.random((4, 6))
    orders = np.broadcast_to(np.argsort(-means, axis=-1)[:, None], (4, 4, 6))
    assert not np.asarray(metrics.mistakes(orders, means, (2, 4))).any()
    assert (np.asarray(metrics.share_placed(orders, means, (2, 4))) == 1).all()
    assert (np.asarray(metrics.kendall_tau_distance(orders, means)) == 0).all()
    assert not np.asarray(metrics.inversions(orders, means, (2, 4)).inter).any()
    assert np.asarray(metrics.mistakes(orders, means[::-1], (2, 4))).any()
    marks = np.broadcast_to(orders[:, :, None], (4, 4, 3, 6))
    assert not np.asarray(metrics.mistakes(marks, means, (2, 4))).any()
    # A tolerance of its own for every instance: only the first forgives a swap of neighbours across a boundary.
    swapped = np.broadcast_to(np.array([0, 2, 1, 3, 4, 5]), (2, 3, 6))
    wrong = metrics.mistakes(swapped, MEANS, (2, 4), np.array([0.1, 0.01]))
    np.testing.assert_array_equal(wrong, [[False] * 3, [True] * 3])
    with pytest.raises(ValueError, match=r"means must be the same for all orders or have .* \(4, 5\), got"):
        metrics.mistakes(np.broadcast_to(np.arange(6), (4, 5, 6)), np.ones((5, 6)), (2,))
    with pytest.raises(ValueError, match=r"epsilon must be the same for all orders or have their first axes"):
        metrics.mistakes(orders, means, (2,), np.zeros(3))


@pytest.mark.parametrize("order", [[0, 0, 2], [1, 2, 3], [[0, 1, 2], [0, 2, 2]]])
def test_an_order_must_be_a_permutation(order):
    for judge in (
        lambda: metrics.mistakes(np.array(order), MEANS[:3], (1,)),
        lambda: metrics.share_placed(np.array(order), MEANS[:3], (1,)),
        lambda: metrics.kendall_tau_distance(np.array(order), MEANS[:3]),
        lambda: metrics.inversions(np.array(order), MEANS[:3], (1,)),
        lambda: metrics.clusters(np.array(order), (1,)),
    ):
        with pytest.raises(ValueError, match=r"order must list every item from 0 to K-1 once, best first, got \["):
            judge()


def test_wilson_intervals_of_arrays():
    low, high = metrics.wilson_interval(np.array([0, 3, 10]), 10)
    for place, successes in enumerate((0, 3, 10)):
        assert (low[place], high[place]) == metrics.wilson_interval(successes, 10)
