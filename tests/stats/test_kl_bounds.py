import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from scipy.special import lambertw
from scipy.special import zeta as scipy_zeta

import jaxrank as jr
from jaxrank.core.precision import enable_x64
from jaxrank.stats.numerics import scaled_excess
from jaxrank.stats.sequences import Design, smallest_k1
from jaxrank.stats.tracked_bounds import Bounds, tracked_bounds

# A bound is accepted if it is on the outer side of the float64 solution up to one rounding of the bound itself, and
# if its width is right to RELATIVE plus a dozen roundings of the mean.
UNIT = float(jnp.finfo(jnp.zeros(()).dtype).eps)
RELATIVE = 64 * UNIT

kl_lower, kl_upper = jax.jit(jr.kl_lower), jax.jit(jr.kl_upper)


def assert_bound(bound, exact, mean, sign):
    bound = float(bound)
    rounding = UNIT * max(abs(exact), abs(mean))
    assert sign * (bound - exact) >= -rounding, "bound lies inside the exact interval"
    assert sign * (bound - exact) <= RELATIVE * abs(exact - mean) + 12 * rounding


@pytest.mark.parametrize("pulls", [1, 2, 7, 100, 10_000, 10**6, 10**8])
@pytest.mark.parametrize("share", [0.0, 1e-3, 0.02, 0.4, 0.5, 0.97, 1.0])
def test_bernoulli_bounds_against_float64(share, pulls):
    # The mean as the package sees it, so that only the inversion is under test.
    mean = float(jnp.asarray(share, float))
    upper = kl_upper(jnp.asarray(mean), jnp.asarray(pulls), 18.5)
    lower = kl_lower(jnp.asarray(mean), jnp.asarray(pulls), 18.5)
    level = 18.5 / pulls
    precise_up = reference.invert(accurate_kl, mean, pulls, 18.5, 1.0)
    precise_down = reference.invert(accurate_kl, mean, pulls, 18.5, 0.0)
    if share == 0:
        precise_up, precise_down = -np.expm1(-level), 0.0
    if share == 1:
        precise_up, precise_down = 1.0, np.exp(-level)
    assert_bound(upper, precise_up, mean, +1)
    assert_bound(lower, precise_down, mean, -1)
    assert 0 <= float(lower) <= mean <= float(upper) <= 1


def accurate_kl(p, q):
    """Bernoulli divergence for tiny differences: the terms that cancel are taken out by log1p of the ratio."""
    h = np.longdouble(q) - np.longdouble(p)
    p = np.longdouble(p)
    with np.errstate(divide="ignore"):
        first = -p * np.log1p(h / p) if p > 0 else np.longdouble(0)
        second = -(1 - p) * np.log1p(-h / (1 - p)) if p < 1 else np.longdouble(0)
    return float(first + second)


def test_edges_are_exact():
    level = 20.0 / 3
    tolerance = 8 * UNIT
    assert float(jr.kl_upper(jnp.zeros(()), jnp.asarray(3), 20.0)) == pytest.approx(-np.expm1(-level), rel=tolerance)
    assert float(jr.kl_lower(jnp.ones(()), jnp.asarray(3), 20.0)) == pytest.approx(np.exp(-level), rel=1e3 * tolerance)
    assert float(jr.kl_lower(jnp.zeros(()), jnp.asarray(3), 20.0)) == 0
    assert float(jr.kl_upper(jnp.ones(()), jnp.asarray(3), 20.0)) == 1


def test_no_pulls_give_the_whole_domain():
    zero = jnp.zeros((), int)
    for family, low, high in [
        (jr.Bernoulli(), 0, 1),
        (jr.Gaussian(sigma=2.0), -np.inf, np.inf),
        (jr.Poisson(), 0, np.inf),
        (jr.Exponential(), 0, np.inf),
    ]:
        assert float(jr.kl_lower(jnp.asarray(0.3), zero, 20.0, family)) == low
        assert float(jr.kl_upper(jnp.asarray(0.3), zero, 20.0, family)) == high


@pytest.mark.parametrize("pulls", [1, 5, 1000, 10**8])
@pytest.mark.parametrize("mean", [0.0, 0.01, 1.0, 40.0])
def test_other_families_against_closed_forms(mean, pulls):
    mean = float(jnp.asarray(mean, float))
    level = 18.5 / pulls
    bounds = {}
    sigma = 2.5
    bounds["gaussian"] = (mean - sigma * np.sqrt(2 * level), mean + sigma * np.sqrt(2 * level))
    families = {
        "gaussian": jr.Gaussian(sigma=sigma),
        "poisson": jr.Poisson(),
        "exponential": jr.Exponential(),
    }
    if mean == 0:
        bounds["poisson"] = (0.0, level)
    elif 1e-4 < level / mean < 500:  # the Lambert closed form loses all digits below and underflows above
        inner = -np.exp(-1 - level / mean)
        bounds["poisson"] = (-mean * lambertw(inner, 0).real, -mean * lambertw(inner, -1).real)
    if mean > 0 and level > 1e-4:
        inner = -np.exp(-1 - level)
        bounds["exponential"] = (mean / -lambertw(inner, -1).real, mean / -lambertw(inner, 0).real)
    for name, (low, high) in bounds.items():
        # Closed forms through Lambert's W lose about sqrt(eps) where the level is small.
        slack = 1e-6 * abs(high - mean) if name != "gaussian" else 0
        lower = kl_lower(jnp.asarray(mean), jnp.asarray(pulls), 18.5, families[name])
        upper = kl_upper(jnp.asarray(mean), jnp.asarray(pulls), 18.5, families[name])
        unit = 12 * UNIT * max(abs(high), abs(mean))
        # The exponential's bound grows like exp(level), so a relative error of the level counts level times.
        relative = RELATIVE * (1 + level)
        assert float(upper) == pytest.approx(high, rel=0, abs=relative * abs(high - mean) + unit + slack), name
        assert float(lower) == pytest.approx(low, rel=0, abs=relative * abs(mean - low) + unit + slack), name
        assert float(upper) >= high - unit - slack
        assert float(lower) <= low + unit + slack


def test_scaled_excess_has_no_cancellation():
    ratio = np.concatenate([-np.logspace(-8, np.log10(0.999), 200), np.logspace(-8, 6, 200)])
    ratio = np.asarray(jnp.asarray(ratio, float), np.longdouble)
    exact = ratio - np.log1p(ratio)
    series = sum((-ratio) ** n / n for n in range(2, 12))
    exact = np.where(abs(ratio) < 1e-3, series, exact).astype(float)
    ours = np.asarray(scaled_excess(jnp.ones(400), jnp.asarray(ratio.astype(float), float)), float)
    np.testing.assert_allclose(ours, exact, rtol=32 * UNIT)


def test_tracked_bounds_follow_bisection_through_a_run():
    """Warm-started Newton steps stay outside the exact bounds and within a millionth of their width."""
    rng = np.random.default_rng(3)
    rates = np.array([0.001, 0.02, 0.125, 0.5, 0.9, 0.999, 0.0, 1.0])
    asked = np.concatenate([[[0, 1, 2], [3, 4, 5], [6, 7, 7]], rng.integers(0, 8, (2000, 3))])
    hit = np.zeros((len(asked), 8), int)
    np.put_along_axis(hit, asked, 1, axis=1)
    won = (rng.random(hit.shape) < rates) & (hit == 1)
    pulls, sums = np.cumsum(hit, 0), np.cumsum(won, 0)
    t = np.maximum(np.arange(-2, 2001), 1)[:, None]
    x = np.log(1142.68 * 15 * t**1.1 / 0.1)
    beta = jnp.asarray(x + np.log(x), float)
    means, pulls = jnp.asarray(sums / np.maximum(pulls, 1), float), jnp.asarray(pulls)

    def step(bounds, inputs):
        means, pulls, beta, asked = inputs
        bounds = tracked_bounds(bounds, means, pulls, beta, jr.Bernoulli(), asked, num_parts=1, large_changes=False)
        return bounds, bounds

    start = Bounds(jnp.zeros(8), jnp.ones(8), beta[0])
    _, (lower, upper, _) = jax.lax.scan(step, start, (means, pulls, beta, jnp.asarray(asked)))
    exact_lower, exact_upper = jr.kl_lower(means, pulls, beta), jr.kl_upper(means, pulls, beta)
    for ours, exact, sign in [(lower, exact_lower, -1), (upper, exact_upper, 1)]:
        apart = sign * np.asarray(ours - exact, float)
        width = np.asarray(abs(exact - means), float)
        assert (apart >= -2 * UNIT).all()
        assert (apart <= 3e-6 * width + 2 * UNIT).all()


def test_newton_is_outside_from_any_guess_and_soon_close():
    """Whatever the guess, a step gives a valid bound; from a bad one a handful of rounds is enough."""
    rng = np.random.default_rng(0)
    pulls = np.floor(10 ** rng.uniform(0, 7, 3000))
    means = np.round(rng.uniform(0, 1, 3000) ** 3 * pulls) / pulls
    means, pulls = (
        jnp.asarray(np.where(rng.random(3000) < 0.5, means, 1 - means), float),
        jnp.asarray(pulls, int),
    )
    beta = jnp.asarray(rng.uniform(8, 40, 3000), float)
    exact = np.asarray(kl_lower(means, pulls, beta), float), np.asarray(kl_upper(means, pulls, beta), float)
    bounds = Bounds(*jnp.asarray(rng.uniform(0, 1, (2, 3000)), float), beta)
    everyone = jnp.arange(3000)
    step = jax.jit(lambda bounds: tracked_bounds(bounds, means, pulls, beta, jr.Bernoulli(), everyone, 1, False))
    for _ in range(8):
        bounds = step(bounds)
        assert (np.asarray(bounds[0], float) <= exact[0] + 2 * UNIT).all()
        assert (np.asarray(bounds[1], float) >= exact[1] - 2 * UNIT).all()
    widths = np.asarray(exact[1] - exact[0])
    assert (abs(np.asarray(bounds[0], float) - exact[0]) <= 3e-6 * widths + 2 * UNIT).all()
    assert (abs(np.asarray(bounds[1], float) - exact[1]) <= 3e-6 * widths + 2 * UNIT).all()


@pytest.mark.parametrize(
    ("clusters", "alpha", "expected"),
    # The main text's formula by hand, as printed in the notes on the paper.
    [
        (3, 1.1, 1142.678),
        (3, 1.5, 55.3656),
        (3, 2, 17.3097),
        (5, 1.1, 1143.822),
        (5, 1.5, 57.194),
        (5, 2, 20.310),
    ],
)
def test_smallest_k1(clusters, alpha, expected):
    design = Design(num_items=15, num_boundaries=clusters - 1)
    assert float(smallest_k1(jnp.asarray(alpha, float), design)) == pytest.approx(expected, rel=2e-5)


@pytest.mark.parametrize("alpha", [1.1, 1.5, 2.0, 4.0])
def test_smallest_k1_for_batches_by_direct_summation(alpha):
    design = Design(num_items=15, num_boundaries=2, pulls_per_round=64, single_pulls=False)
    log_sum = -(scipy_zeta(alpha + 1e-6) - scipy_zeta(alpha - 1e-6)) / 2e-6
    expected = 2 * np.e * (2 * log_sum + (1 + 2 * np.log(64)) * scipy_zeta(alpha))
    assert float(smallest_k1(jnp.asarray(alpha, float), design)) == pytest.approx(expected, rel=1e-4)


def test_exploration_rate_of_a_round():
    rate = jr.ExplorationRate(alpha=2.0)
    design = Design(num_items=15, num_boundaries=2)
    x = np.log(17.3097 * 15 * 9**2 / 0.1)
    means = jnp.zeros(15)
    beta = rate.threshold(
        means=means, pulls=jnp.ones(15, int), rounds=jnp.asarray(9), delta=jnp.asarray(0.1), design=design
    )
    assert beta.shape == (1,)
    assert float(beta[0]) == pytest.approx(x + np.log(x), rel=1e-5)


FAMILIES = {
    "Bernoulli": (jr.Bernoulli(), [0.03, 0.5, 0.97]),
    "Gaussian": (jr.Gaussian(sigma=0.7), [-2.0, 0.0, 1.5]),
    "Poisson": (jr.Poisson(), [0.2, 1.0, 30.0]),
    "Exponential": (jr.Exponential(), [0.2, 1.0, 30.0]),
}


@pytest.mark.parametrize("bound", [jr.kl_upper, jr.kl_lower])
@pytest.mark.parametrize("name", FAMILIES)
def test_derivatives_of_bounds_are_those_of_the_equation_they_solve(name, bound):
    """Against central differences of the bisection in 64 bit, in the mean, the pulls, the threshold and sigma."""
    family, means = FAMILIES[name]
    slopes = jax.vmap(jax.grad(bound, argnums=(0, 1, 2, 3)), (0, None, None, None))
    found = slopes(jnp.asarray(means), 20.0, 3.0, family)
    with enable_x64(True):
        exact = slopes(jnp.asarray(means), 20.0, 3.0, family)
        point = (jnp.asarray(means), 20.0, 3.0, family)
        leaves, tree = jax.tree.flatten(point)
        for place, slope in enumerate(jax.tree.leaves(exact)):
            # Steps that balance the curvature against the last bits of the bisection.
            up, down = (
                bound(*jax.tree.unflatten(tree, [leaf + way * (place == i) for i, leaf in enumerate(leaves)]))
                for way in (1e-5, -1e-5)
            )
            np.testing.assert_allclose(slope, (up - down) / 2e-5, rtol=1e-6)
    # A bound has lost digits of its distance from the mean, and of that from the end of the domain.
    place = np.asarray(bound(np.asarray(means), 20.0, 3.0, family))
    from_end = np.minimum(np.abs(place - family.low), np.abs(family.high - place))
    digits_lost = 1 + np.abs(means) / np.minimum(from_end, np.abs(place - np.asarray(means)))
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(exact), strict=True):
        one, other = np.asarray(one, float), np.asarray(other)
        assert (np.abs(one - other) <= 32 * UNIT * digits_lost * (np.abs(other) + UNIT)).all()


def test_derivatives_of_bounds_at_the_ends_of_the_domain():
    """A bound at the end of the domain stays there; that of a mean at the other end moves with the threshold."""
    in_mean, in_threshold = (jax.grad(jr.kl_upper, argnums=place) for place in (0, 2))
    assert (float(in_mean(1.0, 10, 3.0)), float(in_threshold(1.0, 10, 3.0))) == (0, 0)
    assert float(in_threshold(0.0, 10, 3.0)) == pytest.approx(np.exp(-0.3) / 10, rel=1e-5)
    assert float(in_threshold(0.5, 0, 3.0)) == 0
