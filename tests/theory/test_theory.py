from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq, linprog, minimize

import jaxrank as jr
from jaxrank import theory
from jaxrank.core.precision import enable_x64

pytestmark = pytest.mark.once

DATA = Path(__file__).parents[3] / "shared" / "data"
EXPERIMENT_1 = jr.paper.EXPERIMENT_1
# Divergences written from their definitions.
DIVERGENCES = {
    "Bernoulli": lambda x, y: x * np.log(x / y) + (1 - x) * np.log((1 - x) / (1 - y)),
    "Gaussian": lambda x, y: (x - y) ** 2 / (2 * 0.7**2),
    "Poisson": lambda x, y: y - x + x * np.log(x / y),
    "Exponential": lambda x, y: x / y - 1 - np.log(x / y),
}
FAMILIES = dict(zip(DIVERGENCES, (jr.Bernoulli(), jr.Gaussian(sigma=0.7), jr.Poisson(), jr.Exponential()), strict=True))


def chernoff(d, x, y):
    """Where d(z, x) = d(z, y), by bisection; means too close for that are as good as equal."""
    if abs(x - y) < 1e-7:
        return (x - y) ** 2 / (8 * x * (1 - x))
    z = brentq(lambda z: d(z, x) - d(z, y), min(x, y), max(x, y), xtol=1e-15, rtol=1e-14)
    return d(z, x)


@pytest.mark.parametrize("name", FAMILIES)
def test_chernoff_information_and_divergence_against_the_definition(name):
    rng = np.random.default_rng(0)
    for x, y in rng.uniform(0.01, 0.99, (50, 2)):
        found = theory.chernoff_information(x, y, FAMILIES[name])
        assert found == pytest.approx(chernoff(DIVERGENCES[name], x, y), rel=1e-9)
        assert found == pytest.approx(theory.chernoff_information(y, x, FAMILIES[name]), rel=1e-12)
        assert theory.divergence(x, y, FAMILIES[name]) == pytest.approx(DIVERGENCES[name](x, y), rel=1e-9, abs=1e-15)


def test_chernoff_information_at_the_ends_and_for_equal_means():
    assert theory.chernoff_information(0.0, 0.3) == pytest.approx(-np.log(0.7))
    assert theory.chernoff_information(0.3, 1.0) == pytest.approx(-np.log(0.3))
    assert theory.chernoff_information(0.0, 1.0) == np.inf
    assert theory.chernoff_information(0.0, 2.0, jr.Poisson()) == pytest.approx(2.0)
    np.testing.assert_array_equal(theory.chernoff_information([0.0, 0.3, 1.0], [0.0, 0.3, 1.0]), 0)
    # The limit from inside is the value at the end.
    assert theory.chernoff_information(1e-300, 0.3) == pytest.approx(-np.log(0.7), rel=2e-2)
    # So close that the difference of logarithms would lose its digits: d* tends to gap^2 / (8 x (1-x)).
    assert theory.chernoff_information(0.4, 0.4 + 1e-7) == pytest.approx(1e-14 / (8 * 0.24), rel=1e-5)


def test_the_numbers_of_experiment_1():
    """Worked out by independent NumPy code from the paper, to the digits that it printed."""
    cuts = (3, 12)
    assert theory.chernoff_information(0.425, 0.4) == pytest.approx(3.224839e-4, abs=5e-11)
    for alpha, constant in ((1.1, 4.011736), (1.5, 5.690345), (2, 8.095688)):
        assert theory.c0(alpha) == pytest.approx(constant, abs=5e-7)
    np.testing.assert_allclose([theory.k1(a, 3) for a in (1.1, 1.5, 2)], [1142.678, 55.3656, 17.3097], rtol=1e-6)
    np.testing.assert_allclose([theory.k1(a, 5) for a in (1.1, 1.5, 2)], [1143.822, 57.194, 20.310], rtol=2e-5)
    exact, loose = theory.hardness(EXPERIMENT_1, cuts, 0), theory.hardness(EXPERIMENT_1, cuts, 0.05)
    assert exact.value == pytest.approx(46790.38, abs=5e-3)
    np.testing.assert_allclose(exact.b, [0.412487, 0.187310], rtol=0, atol=5e-7)
    assert loose.value == pytest.approx(7847.346, abs=5e-4)
    np.testing.assert_allclose(loose.b, [0.425, 0.175], rtol=0, atol=5e-7)
    middle = [0.4125, 0.1875]
    for epsilon, value in ((0, 46801.38), (0.05, 8320.03)):
        distance = np.maximum(theory.boundary_distances(EXPERIMENT_1, cuts, middle), epsilon**2 / 2)
        assert (1 / distance).sum() == pytest.approx(value, abs=5e-3)
    for epsilon, bounds in ((0, (9.2515e6, 13.9487e6, 23.3001e6)), (0.05, (1.4279e6, 2.1002e6, 3.4540e6))):
        for alpha, bound in zip((1.1, 1.5, 2), bounds, strict=True):
            assert theory.upper_bound(EXPERIMENT_1, cuts, epsilon=epsilon, alpha=alpha) == pytest.approx(bound, abs=50)
    assert (1 / theory.kl_distances(EXPERIMENT_1, cuts)).sum() == pytest.approx(3507.022, abs=5e-4)
    assert theory.lower_bound(EXPERIMENT_1, cuts) == pytest.approx(5004.93, abs=5e-3)
    best = theory.characteristic_time(EXPERIMENT_1, cuts)
    assert best.time == pytest.approx(6138.73, abs=5e-3)
    assert theory.sharp_lower_bound(EXPERIMENT_1, cuts) == pytest.approx(10_790, abs=1)
    weights = (
        "0.00825 0.03625 0.25243 0.25283 0.03588 0.01467 0.00798 0.00500 0.00553 0.00983 0.02325 0.15708 0.16036 "
        "0.02198 0.00870"
    )
    # The optimum is flat: solvers that agree on T* to six digits differ by a unit in the last digit here.
    np.testing.assert_allclose(best.weights, np.asarray(weights.split(), float), rtol=0, atol=1e-5)


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the data folder beside the project")
def test_street_view_pentiles():
    scores = np.loadtxt(DATA / "chicago" / "btl_scores.csv")
    means = theory.borda_scores(1 / (1 + np.exp(scores[None] - scores[:, None])))
    cuts = jr.quantiles(5)
    assert (1 / theory.kl_distances(means, cuts)).sum() == pytest.approx(433_944, abs=0.5)
    assert theory.lower_bound(means, cuts, delta=0.1) == pytest.approx(619_288, abs=0.5)


def test_the_stand_in_for_street_view():
    draws = np.sort(np.random.default_rng(2245).normal(size=100))
    scores = 3.9 * (draws - draws[0]) / (draws[-1] - draws[0])
    means = theory.borda_scores(1 / (1 + np.exp(scores[None] - scores[:, None])))
    assert theory.complete_ranking_hardness(means) == pytest.approx(322.36e6, abs=5e3)


def instances(count, most_items, seed, edges=False):
    """Random means, boundaries and, if asked for, a mean of exactly 0 and one of exactly 1."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        items = int(rng.integers(3, most_items + 1))
        means = rng.uniform(0.05, 0.95, items)
        if edges:
            means[:2] = [0.0, 1.0]
        clusters = int(rng.integers(2, min(items, 4) + 1))
        yield means, tuple(int(c) for c in np.sort(rng.choice(np.arange(1, items), clusters - 1, replace=False)))


def total_cost(means, cuts, b, epsilon):
    """H* for these points, item by item."""
    ranked = np.sort(means)[::-1]
    d = DIVERGENCES["Bernoulli"]

    def distance(x, y):
        if x == y:
            return 0.0
        if x in (0, 1):
            return -np.log(1 - abs(y - x))
        return chernoff(d, x, y)

    total = 0.0
    for rank, mean in enumerate(ranked):
        cluster = sum(rank >= cut for cut in cuts)
        near = [distance(mean, b[i]) for i in (cluster - 1, cluster) if 0 <= i < len(cuts)]
        total += (
            1 / max(*near, epsilon**2 / 2, 1e-300) if len(near) == 1 else 1 / max(min(near), epsilon**2 / 2, 1e-300)
        )
    return total


def least_cost(means, cuts, epsilon):
    """The smallest sum found downhill from a few random places."""
    ranked, rng = np.sort(means)[::-1], np.random.default_rng(0)
    low, high = ranked[list(cuts)], ranked[np.asarray(cuts) - 1]

    def cost(share):
        return total_cost(means, cuts, low + np.clip(share, 1e-9, 1 - 1e-9) * (high - low), epsilon)

    options = {"xatol": 1e-7, "fatol": 1e-9, "maxiter": 400}
    starts = rng.uniform(0.02, 0.98, (6, len(cuts)))
    return min(minimize(cost, start, method="Nelder-Mead", options=options).fun for start in starts)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("edges", [False, True])
def test_hardness_against_a_brute_force_search(epsilon, edges):
    for means, cuts in instances(3, 7, seed=int(10 * epsilon) + 7 * edges, edges=edges):
        found = theory.hardness(means, cuts, epsilon)
        assert found.value == pytest.approx(total_cost(means, cuts, found.b, epsilon), rel=1e-8)
        best = least_cost(means, cuts, epsilon)
        assert found.value <= best * (1 + 1e-6)
        assert found.value == pytest.approx(best, rel=2e-3)


def characteristic_time_by_cutting_planes(means, cuts):
    """Max t over shares w with t <= w_a d(p_a, m) + w_b d(p_b, m) for more and more points m of every pair."""
    order = np.argsort(-means)
    p, ends, count = means[order], (0, *cuts, len(means)), len(means)
    pairs = [
        (a, b) for h in range(len(cuts)) for a in range(ends[h], ends[h + 1]) for b in range(ends[h + 1], ends[h + 2])
    ]

    def d(x, y):
        return sum(u * np.log(u / v) for u, v in ((x, y), (1 - x, 1 - y)) if u > 0)

    # The solver's tolerances are absolute: distances are scaled to be of order 1.
    unit = min(d(p[a], (p[a] + p[b]) / 2) + d(p[b], (p[a] + p[b]) / 2) for a, b in pairs) / count
    w, rows = np.full(count, 1 / count), []
    for _ in range(60):
        values = []
        for a, b in pairs:
            wa, wb = max(w[a], 1e-9), max(w[b], 1e-9)
            m = (wa * p[a] + wb * p[b]) / (wa + wb)
            row = np.zeros(count + 1)
            row[a], row[b], row[-1] = -d(p[a], m) / unit, -d(p[b], m) / unit, 1
            rows.append(row)
            values.append((w[a] * d(p[a], m) + w[b] * d(p[b], m)) / unit)
        result = linprog(
            np.append(np.zeros(count), -1.0),
            A_ub=np.asarray(rows),
            b_ub=np.zeros(len(rows)),
            A_eq=np.append(np.ones(count), 0.0)[None],
            b_eq=[1.0],
            bounds=[(0, 1)] * count + [(0, None)],
        )
        if min(values) >= -result.fun * (1 - 1e-8):
            break
        w = result.x[:-1]
    shares = np.zeros(count)
    shares[order] = w
    return -1 / (result.fun * unit), shares


@pytest.mark.slow
@pytest.mark.parametrize("edges", [False, True])
def test_characteristic_time_against_cutting_planes(edges):
    for means, cuts in instances(4, 6, seed=3, edges=edges):
        found = theory.characteristic_time(means, cuts)
        time, weights = characteristic_time_by_cutting_planes(means, cuts)
        assert found.time == pytest.approx(time, rel=1e-6)
        np.testing.assert_allclose(found.weights, weights, rtol=0, atol=1e-3)
        assert found.weights.sum() == pytest.approx(1)


def test_characteristic_time_of_two_items_by_hand():
    """Two normal items: half the samples each, and 1/T* = gap^2 / 8."""
    found = theory.characteristic_time([0.3, 1.1], (1,), jr.Gaussian())
    assert found.time == pytest.approx(8 / 0.8**2, rel=1e-9)
    np.testing.assert_allclose(found.weights, 0.5, atol=1e-6)
    time, weights = characteristic_time_by_cutting_planes(EXPERIMENT_1, (3, 12))
    assert time == pytest.approx(6138.731, abs=2e-3)
    np.testing.assert_allclose(weights, theory.characteristic_time(EXPERIMENT_1, (3, 12)).weights, rtol=0, atol=1e-4)


def test_the_order_of_the_items_does_not_matter():
    mixed = np.random.default_rng(1).permutation(15)
    means = EXPERIMENT_1[mixed]
    assert theory.hardness(means, (3, 12), 0.02).value == theory.hardness(EXPERIMENT_1, (3, 12), 0.02).value
    np.testing.assert_allclose(
        theory.characteristic_time(means, (3, 12)).weights,
        theory.characteristic_time(EXPERIMENT_1, (3, 12)).weights[mixed],
        rtol=1e-6,
    )
    straight = theory.kl_distances(EXPERIMENT_1, (3, 12))
    np.testing.assert_array_equal(theory.kl_distances(means, (3, 12)), straight[mixed])


@pytest.mark.slow
@pytest.mark.parametrize(
    "quantity",
    [
        lambda m: theory.hardness(m, (1, 3), 0.0).value,
        lambda m: theory.hardness(m, (1, 3), 0.25).value,
        lambda m: theory.upper_bound(m, (1, 3), delta=0.1, epsilon=0.1),
        lambda m: theory.lower_bound(m, (1, 3)),
        lambda m: theory.characteristic_time(m, (1, 3)).time,
    ],
)
def test_derivatives_and_vmap(quantity):
    means = np.asarray([0.8, 0.57, 0.45, 0.21])
    with enable_x64(True):
        slope = np.asarray(jax.grad(quantity)(jnp.asarray(means)))
        many = jax.jit(jax.vmap(quantity))(jnp.stack([jnp.asarray(means), jnp.asarray(means[::-1])]))
    for item in range(4):
        step = np.eye(4)[item] * 1e-6
        expected = (quantity(means + step) - quantity(means - step)) / 2e-6
        assert slope[item] == pytest.approx(expected, rel=1e-3, abs=1e-3 * abs(slope).max())
    np.testing.assert_allclose(many, quantity(means), rtol=1e-7)


def test_characteristic_time_has_no_derivatives_in_32_bit():
    with enable_x64(False), pytest.raises(ValueError, match=r"means must have 64 bits .*, got float32"):
        jax.grad(lambda m: theory.characteristic_time(m, (1,)).time)(jnp.asarray([0.8, 0.5, 0.2]))


def test_traced_values_keep_the_precision_of_the_caller():
    with enable_x64(False):
        traced = jax.jit(lambda m: theory.hardness(m, (3, 12), 0.05).value)(jnp.asarray(EXPERIMENT_1))
        assert traced.dtype == jnp.float32
        assert float(traced) == pytest.approx(7847.346, rel=1e-3)
        time = jax.jit(lambda m: theory.characteristic_time(m, (3, 12)).time)(jnp.asarray(EXPERIMENT_1))
        assert float(time) == pytest.approx(6138.73, rel=5e-3)
        assert theory.hardness(EXPERIMENT_1, (3, 12), 0.05).value.dtype == np.float64


def test_bad_input():
    tied = [0.9, 0.5, 0.5, 0.1]
    message = r"means must differ across every boundary, got 0.5 for both item 1 and item 2 around the one after rank 2"
    for call in (
        lambda: theory.hardness(tied, (2,), 0),
        lambda: theory.lower_bound(tied, (2,)),
        lambda: theory.characteristic_time(tied, (2,)),
        lambda: theory.upper_bound(tied, (2,)),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert np.isfinite(theory.upper_bound(tied, (2,), epsilon=0.1))
    assert np.isfinite(theory.lower_bound(tied, (1,)))
    with pytest.raises(ValueError, match=r"means must lie in \[0, 1\], got 1.2 among its 2 values"):
        theory.hardness([1.2, 0.1], (1,))
    with pytest.raises(ValueError, match=r"means must be one number per item, got shape \(1, 2\)"):
        theory.lower_bound([[0.1, 0.2]], (1,))
    with pytest.raises(ValueError, match="epsilon must be finite and at least 0, got -1"):
        theory.hardness([0.2, 0.1], (1,), -1)
    with pytest.raises(ValueError, match=r"delta must lie in \(0, 0.15\], got 0.2"):
        theory.lower_bound([0.2, 0.1], (1,), delta=0.2)
    with pytest.raises(ValueError, match=r"delta must lie in \(0, 1\), got 0"):
        theory.upper_bound([0.2, 0.1], (1,), delta=0)
    with pytest.raises(ValueError, match="alpha must be finite and above 1, got 1"):
        theory.c0(1)
    with pytest.raises(ValueError, match=r"b must lie in \[0.1, 0.2\] at the boundary after rank 1, got 0.3"):
        theory.boundary_distances([0.2, 0.1], (1,), [0.3])
    with pytest.raises(ValueError, match=r"b must have one point for each of \(1,\), got shape \(2,\)"):
        theory.boundary_distances([0.2, 0.1], (1,), [0.15, 0.12])
