import numpy as np
import pytest

import jaxrank as jr
from jaxrank import metrics
from jaxrank.core.precision import enable_x64
from jaxrank.planning import plan as planning
from jaxrank.stats.sequences import Design

pytestmark = pytest.mark.once

MEANS = np.asarray([0.9, 0.7, 0.4, 0.1])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["EvidenceRank", "LUCBRank"])
def test_plan_predicts_what_simulate_takes(name):
    """Experiment 1 at epsilon = 0.05: within 10%, with other random numbers (two standard errors are about 3%)."""
    means = jr.paper.EXPERIMENT_1
    environment = jr.BernoulliArms(means=means)
    settings = {"epsilons": [0.05, 0.1], "trials": 40, "seed": 1, "progress": False}
    plan = jr.plan(environment, (3, 12), algorithm=name, **settings)
    algorithm = getattr(jr, name)(num_items=15, boundaries=(3, 12), delta=0.1, epsilon=0.05)
    runs = jr.simulate(jax_key(2), algorithm, environment, 200, progress=False)
    forecast = plan.forecasts[-1]
    assert forecast.epsilon == 0.05
    assert forecast.source == "simulated"
    assert forecast.samples == pytest.approx(runs.samples.mean(), rel=0.1)
    assert forecast.interval_low < forecast.samples < forecast.interval_high < forecast.quantile_95
    assert forecast.samples < forecast.upper_bound
    assert plan.lower_bounds[0.1] == pytest.approx(10_790, abs=1)


def jax_key(seed):
    import jax

    return jax.random.key(seed)


def test_budget_uniform_and_extrapolation():
    environment = jr.BernoulliArms(means=MEANS)
    plan = jr.plan(environment, (1, 3), epsilons=[0.01, 0.3], trials=8, budget=400, max_samples=500, progress=False)
    assert plan.algorithm == "EvidenceRank"
    assert [row.epsilon for row in plan.forecasts] == [0.3, 0.01]
    first, second = plan.forecasts
    assert first.source == "simulated"
    assert second.source == "extrapolated"
    assert np.isnan(second.interval_low)
    assert second.samples == pytest.approx(first.samples * second.upper_bound / first.upper_bound)
    assert plan.all_pairs is None
    assert not plan.interrupted
    # 100 pulls each: these means are told apart nearly always.
    assert plan.at_budget.samples == 400
    assert plan.at_budget.adaptive > 0.95
    assert plan.at_budget.uniform > 0.95


@pytest.mark.slow
def test_uniform_samples_by_hand():
    """The pulls per item at which the bounds around both boundaries stop overlapping by 0.2, found one by one."""
    arms = jr.BernoulliArms(means=MEANS)
    plan = jr.plan(arms, (1, 3), epsilons=[0.2], algorithm="LUCBRank", trials=4, progress=False)
    rate = jr.ExplorationRate(alpha=1.1)
    pulls = int(plan.forecasts[0].uniform) // 4

    def overlap(pulls):
        import jax.numpy as jnp

        with enable_x64(True):
            beta = rate.threshold(
                means=jnp.zeros(4),
                pulls=jnp.zeros(4, int),
                rounds=jnp.asarray(pulls),
                delta=0.1,
                design=Design(4, 2),
            )
            low = np.asarray(jr.kl_lower(jnp.asarray([0.9, 0.4]), jnp.full(2, pulls), beta))
            high = np.asarray(jr.kl_upper(jnp.asarray([0.7, 0.1]), jnp.full(2, pulls), beta))
        return (high - low).max()

    assert overlap(pulls) < 0.2 <= overlap(pulls - 1)

    plan = jr.plan(arms, (1, 3), epsilons=[0.2], trials=4, progress=False)
    pulls = int(plan.forecasts[0].uniform) // 4
    # Clusters of 1, 2 and 1: two, one and two pairs of different ones, at a positive epsilon all count.
    needed = np.log(5 / 0.1)

    def least(pulls):
        pairs = [(a, b) for a, b in ((0, 1), (0, 2), (0, 3), (1, 3), (2, 3))]
        return min(float(jr.log_evidence(MEANS[a], pulls, MEANS[b], pulls, 0.2)) for a, b in pairs)

    assert least(pulls) >= needed - 1e-3
    assert least(pulls - 1) <= needed + 1e-3


@pytest.mark.slow
def test_duels_are_set_beside_every_pair_once():
    plan = jr.plan(
        jr.Duels.btl(np.linspace(3, 0, 6)), (2,), epsilons=[0.3], deltas=[0.2, 0.1], trials=6, progress=False
    )
    assert plan.duels
    assert plan.all_pairs.samples == 15
    assert 0.5 < plan.all_pairs.uniform < 1
    assert [row.delta for row in plan.forecasts] == [0.2, 0.1]
    assert set(plan.lower_bounds) == {0.1, 0.2}


@pytest.mark.slow
def test_every_pair_once_against_counting():
    """Three items: who wins how often in three duels can be counted; ties are broken at random."""
    chance = {(0, 1): 0.9, (0, 2): 0.8, (1, 2): 0.7}
    expected = 0.0
    for first in (0, 1):
        for second in (0, 1):
            for third in (0, 1):
                wins, weight = np.zeros(3), 1.0
                for (a, b), won in zip(chance, (first, second, third), strict=True):
                    wins[a if won else b] += 1
                    weight *= chance[a, b] if won else 1 - chance[a, b]
                if wins.max() == 2:
                    expected += weight * (1.0 if wins.argmax() == 0 else 1 / 3)
                else:
                    # A circle: each is on top in a third of the cases; if not item 0, two items are misplaced.
                    expected += weight * (1 / 3 + 2 / 3 * 1 / 3)
    matrix = np.full((3, 3), 0.5)
    for (a, b), p in chance.items():
        matrix[a, b], matrix[b, a] = p, 1 - p
    plan = jr.plan(jr.Duels(probabilities=matrix), (1,), epsilons=[0.3], trials=4, progress=False)
    # 400 trials; a trial's share is 1 or 1/3, so four standard errors are below 0.07.
    assert plan.all_pairs.uniform == pytest.approx(expected, abs=0.07)


def test_share_placed_by_hand():
    order = np.asarray([[0, 1, 2, 3], [1, 0, 2, 3], [3, 2, 1, 0]])
    np.testing.assert_allclose(metrics.share_placed(order, MEANS, (1, 3)), [1, 0.5, 0.5])


def test_an_interrupt_keeps_what_was_simulated(monkeypatch):
    """The second setting is interrupted: it counts with the trials it has unless they are biased; nothing follows."""
    calls = []

    def interrupted(biased):
        def simulate(*arguments, **options):
            runs = jr.simulate(*arguments, **options)
            calls.append(runs)
            if len(calls) == 1:
                return runs
            few = {name: getattr(runs, name)[:3] for name in ("samples", "done", "trial")}
            return runs._replace(**few, interrupted=True, biased=biased)

        return simulate

    settings = {"epsilons": [0.4, 0.3, 0.2], "trials": 6, "budget": 50, "progress": False}
    for biased, trials in ((False, [6, 3]), (True, [6])):
        calls.clear()
        monkeypatch.setattr(planning, "simulate", interrupted(biased))
        plan = jr.plan(jr.BernoulliArms(means=MEANS), (1, 3), **settings)
        assert [row.trials for row in plan.forecasts] == trials
        assert {row.source for row in plan.forecasts} == {"simulated"}
        assert plan.at_budget is None
        assert plan.interrupted
        assert len(calls) == 2


def test_ties_and_bad_input():
    tied = jr.BernoulliArms(means=np.asarray([0.9, 0.5, 0.5, 0.1]))
    plan = jr.plan(tied, (2,), epsilons=[0.3, 0.0], trials=4, progress=False)
    assert plan.forecasts[0].source == "simulated"
    assert plan.forecasts[1].samples == np.inf
    assert plan.lower_bounds[0.1] == np.inf
    good = jr.BernoulliArms(means=MEANS)
    with pytest.raises(ValueError, match="epsilon must not be empty"):
        jr.plan(good, (1,), epsilons=[])
    with pytest.raises(ValueError, match=r"delta must lie in \(0, 1\), got 2"):
        jr.plan(good, (1,), deltas=[2])
    with pytest.raises(ValueError, match="algorithm must be one of EvidenceRank, LUCBRank, got Uniform"):
        jr.plan(good, (1,), algorithm="Uniform")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="alpha belongs to LUCBRank's rate"):
        jr.plan(good, (1,), alpha=1.5)
    with pytest.raises(ValueError, match="budget must be at least 4, got 3"):
        jr.plan(good, (1,), budget=3)
    with pytest.raises(ValueError, match="trials must be at least 2, got 1"):
        jr.plan(good, (1,), trials=1)
