"""Numbers that decide between items are the same to the last bit, however many trials stand beside each other.

A compiler may turn a product and a sum into one operation with one rounding, and does so differently in scalar code and
in vectors of every width. Where two products are added up, there are two ways to do it.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank.core.precision import enable_x64
from jaxrank.core.tally import Tally
from jaxrank.stats import evidence, gaps, numerics, sequences, tracked_bounds
from jaxrank.stats.sequences import Design

pytestmark = pytest.mark.once

WIDTHS = (1, 2, 3, 6, 8, 16, 64)
COUNT, COUNT_OF_EVIDENCE = 64 * 100, 64 * 18
FAMILIES = {
    "Bernoulli": jr.Bernoulli(),
    "Gaussian": jr.Gaussian(sigma=0.7),
    "Poisson": jr.Poisson(),
    "Exponential": jr.Exponential(),
}
DESIGN = Design(15, 3, 3, single_pulls=False)


@pytest.fixture(params=[False, True], ids=["32 bit", "64 bit"])
def wide(request):
    with enable_x64(request.param):
        yield request.param


def on_first_axis(function):
    """For functions of items x trials: a single item."""

    @functools.wraps(function)
    def call(*arguments):
        return jax.tree.map(lambda leaf: leaf[0], function(*(argument[None] for argument in arguments)))

    return call


def bounds_after(family, mean, pulls, threshold, num_parts=1):
    """Tracked bounds, from those of one pull and a little less of everything before."""
    before = tracked_bounds.bisected_bounds(mean * 0.97, pulls, threshold * 0.98, family)
    listed = jnp.zeros((num_parts, *mean.shape[1:]), int)
    answers = mean, pulls + num_parts
    return tracked_bounds.tracked_bounds(before, *answers, threshold, family, listed, num_parts, num_parts == 1)


def functions():
    """Name, function of (mean, pulls, mean, pulls, threshold): all trials on the last axis."""
    yield "mixture_regret", lambda a, n, b, m, t: sequences.mixture_regret(a, n)
    yield "log", lambda a, n, b, m, t: (numerics.log(t), numerics.log_inverse(a * 0.9))
    yield "log1p", lambda a, n, b, m, t: (numerics.log1p(-0.9 * a), numerics.log1p(t * b))
    yield "scaled_excess", lambda a, n, b, m, t: numerics.scaled_excess(a, b - a)
    for name, sequence in (("Mixture", jr.Mixture()), ("ExplorationRate", jr.ExplorationRate())):

        def threshold(a, n, b, m, t, sequence=sequence):
            return sequence.threshold(means=a, pulls=n, rounds=m[0], delta=b[0] * 0.9 + 0.01, design=DESIGN)

        yield f"{name}.threshold", on_first_axis(threshold)
    for name, family in FAMILIES.items():
        yield f"kl_upper, {name}", lambda a, n, b, m, t, family=family: jr.kl_upper(a, n, t, family)
        yield f"kl_lower, {name}", lambda a, n, b, m, t, family=family: jr.kl_lower(a, n, t, family)
        yield (
            f"tracked_bounds, {name}",
            on_first_axis(lambda a, n, b, m, t, family=family: bounds_after(family, a, n, t)),
        )
        yield (
            f"tracked_bounds of several answers, {name}",
            on_first_axis(lambda a, n, b, m, t, family=family: bounds_after(family, a, n, t, 2)),
        )

        def log_evidence(a, n, b, m, t, family=family):
            epsilon = jnp.where(t > 30, 0.05, jnp.where(t > 20, 0.4, 0))
            return jr.log_evidence(a, n, b, m, epsilon, 1 + m % 2, family, num_steps=5)

        yield f"log_evidence, {name}", log_evidence

        def costs(a, n, b, m, t, family=family):
            means, pulls = jnp.stack([a, b]), jnp.stack([n, m])
            answers = Tally(pulls=pulls, sums=means * pulls.astype(means.dtype), lost=jnp.zeros_like(means))
            everyone = jax.lax.broadcasted_iota(n.dtype, means.shape, 0)
            return evidence.transport_costs(answers, everyone, everyone, jnp.where(t > 20, 0.05, 0), family)

        yield f"transport_costs, {name}", costs
    yield "gap_bounds", lambda a, n, b, m, t: gaps.gap_bounds(*(jnp.stack([x, y]) for x, y in ((b, a), (t, b))))
    cuts = gaps.limits(9, None, 1, 3)

    def best_gaps(a, n, b, m, t):
        low = jnp.stack([a, b, 0.1 * t, a * b, 1 - a, 1 - b, a * t, b * t])
        high = low * (1 + jnp.stack([a, b] * 4))
        best = gaps.best_clustering(low, cuts)
        rest = (low, high, cuts, best.boundaries)
        values = gaps.average_gap(low, best.boundaries), gaps.best_rival(*rest), gaps.best_through_each(*rest)
        return best, values

    yield "best_clustering, best_rival", best_gaps


FUNCTIONS = dict(functions())
SLOW = ("best_clustering", "log_evidence", "Poisson", "Exponential", "Gaussian")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if any(word in name for word in SLOW) else []) for name in FUNCTIONS],
)
def test_the_same_bits_at_every_width(name, wide):
    rng, count = np.random.default_rng(0), COUNT_OF_EVIDENCE if "log_evidence" in name else COUNT
    pulls = np.exp(rng.uniform(0, np.log(3e4), (2, count))).astype(int)
    means = rng.binomial(pulls, rng.uniform(size=(2, count))) / pulls
    means[1, ::3] = means[0, ::3]
    means[:, ::17] = 1
    if "Poisson" in name or "Exponential" in name:
        means = 3 * means + 0.1
    inputs = [means[0], pulls[0], means[1], pulls[1], rng.uniform(2, 40, count)]
    inputs = [np.asarray(jnp.asarray(x, float if x.dtype.kind == "f" else int)) for x in inputs]
    program = jax.jit(FUNCTIONS[name])
    found = {}
    for width in WIDTHS:
        blocks = [[x[start : start + width] for x in inputs] for start in range(0, count, width)]
        results = [jax.tree.leaves(program(*block)) for block in blocks]
        found[width] = [
            np.concatenate([np.asarray(part) for part in parts], axis=-1) for parts in zip(*results, strict=True)
        ]
    for width in WIDTHS[:-1]:
        for one, other in zip(found[width], found[64], strict=True):
            different = ~((one == other) | (np.isnan(one) & np.isnan(other)))
            assert different.sum() == 0, f"{different.sum()} of {different.size} differ at width {width}"
