"""A trial is a trial: its decisions are the same alone and in any batch, chunk, worker, device, and after a resume.

Instances are such that many counts are equal and many scores tied but for rounding, which is where trials part ways if
rounding decides. Means are compared to rounding, everything else exactly.
"""

import dataclasses
import functools
import os
import pickle
import subprocess
import sys

import jax
import numpy as np
import pytest

import jaxrank as jr
from jaxrank import algorithms, environments
from jaxrank.simulation import simulate as engine

K = 9
SPREAD = np.array([0.9, 0.86, 0.82, 0.56, 0.5, 0.5, 0.44, 0.12, 0.1])
TIERS = {"num_items": K, "boundaries": (3, 7), "delta": 0.1}
BATCH = {"pulls_per_item": 4}
ARMS, DUELS = jr.BernoulliArms(means=SPREAD), jr.Duels.btl(3 * SPREAD)
MATRIX = jr.Duels(probabilities=1 / (1 + np.exp(3 * (SPREAD[None] - SPREAD[:, None]))))
NOISY = jr.Duels.noisy_permutation(np.arange(K), error=0.2)
GAUSSIAN, POISSON, EXPONENTIAL = jr.Gaussian(sigma=0.4), jr.Poisson(), jr.Exponential()
CASES = {
    "LUCBRank": (jr.LUCBRank(**TIERS, epsilon=0.2), ARMS),
    "LUCBRank, provable": (jr.LUCBRank(**TIERS, epsilon=0.2, variant="provable", sample_once=True), DUELS),
    "LUCBRank, batches": (jr.LUCBRank(**TIERS, epsilon=0.2, **BATCH), MATRIX),
    "LUCBRank, mixture": (jr.LUCBRank(**TIERS, epsilon=0.1, confidence=jr.Mixture()), NOISY),
    "LUCBRank, Gaussian": (
        jr.LUCBRank(**TIERS, epsilon=0.4, family=GAUSSIAN),
        jr.GaussianArms(means=2 * SPREAD, sigma=0.4),
    ),
    "LUCBRank, Poisson": (jr.LUCBRank(**TIERS, epsilon=2.0, family=POISSON), jr.PoissonArms(means=6 * SPREAD)),
    "LUCBRank, exponential": (
        jr.LUCBRank(**TIERS, epsilon=0.9, family=EXPONENTIAL),
        jr.ExponentialArms(means=2 * SPREAD),
    ),
    "EvidenceRank": (jr.EvidenceRank(**TIERS, epsilon=0.05), ARMS),
    "EvidenceRank, exact": (jr.EvidenceRank(**TIERS), jr.BernoulliArms(means=np.linspace(0.95, 0.05, K))),
    "EvidenceRank, batches": (jr.EvidenceRank(**TIERS, epsilon=0.1, sample_once=True, **BATCH), DUELS),
    "EvidenceRank, 60 items": (
        jr.EvidenceRank(num_items=60, boundaries=(20, 40), delta=0.1, epsilon=0.3),
        jr.Duels.thurstone(np.linspace(5, 0, 60)),
    ),
    "GapRank": (jr.GapRank(num_items=K, num_clusters=3, delta=0.1, epsilon=0.1), ARMS),
    "GapRank, free": (jr.GapRank(num_items=K, smallest=2, largest=4, delta=0.1, epsilon=0.1), ARMS),
    "GapRank, batches": (jr.GapRank(num_items=K, num_clusters=2, delta=0.1, **BATCH), DUELS),
    "ActiveRanking": (jr.ActiveRanking(**TIERS, factor="code"), ARMS),
    "Quicksort": (jr.Quicksort(num_items=K, boundaries=(3, 7), repeats=30), DUELS),
    "Uniform": (jr.Uniform(num_items=K), ARMS),
    "Uniform, pairs": (jr.Uniform(num_items=K, pairs=True), jr.Duels.thurstone(3 * SPREAD, sigma=0.8)),
    "ByLikelihood": (jr.ByLikelihood(algorithm=jr.Uniform(num_items=K, pairs=True)), DUELS),
}
USUAL = ("LUCBRank", "EvidenceRank", "GapRank", "ActiveRanking", "Quicksort", "Uniform", "ByLikelihood")
TRIALS, MOST = 200, 3_000
WAYS = [(1, 64, 1, 12), (3, 1, 2, 12), (8, 7, 2, TRIALS), (64, 64, 1, TRIALS), (200, 7, 2, TRIALS)]
"""Lanes, rounds in a chunk, workers, trials."""
KEY = 5


def decisions(runs, count=None):
    fields = ("samples", "rounds", "done", "order", "pulls", "found_boundaries")
    return {name: np.asarray(getattr(runs, name))[:count] for name in fields}


def differing(first, second):
    """Trials in which two results differ."""
    return [
        trial
        for trial in range(len(first["samples"]))
        if any((first[name][trial] != second[name][trial]).any() for name in first)
    ]


def simulate(name, **options):
    algorithm, environment = CASES[name]
    return jr.simulate(jax.random.key(KEY), algorithm, environment, **{"max_samples": MOST, **options})


@functools.cache
def whole(name):
    """All trials, simulated in the usual way, once per process."""
    return simulate(name, num_trials=TRIALS)


def grouped(names, *marks):
    """Cases of one name go to one worker, which then has their compiled programs and results."""
    return [pytest.param(name, marks=[pytest.mark.xdist_group(name), *marks]) for name in names]


def test_every_algorithm_and_environment_is_here():
    for public, place in ((algorithms, 0), (environments, 1)):
        names = {name for name in public.__all__ if dataclasses.is_dataclass(getattr(public, name))}
        assert names <= {type(case[place]).__name__ for case in CASES.values()}


QUICK = ("EvidenceRank", "LUCBRank")


@pytest.mark.parametrize(
    "name", [*grouped(QUICK), *grouped([name for name in CASES if name not in QUICK], pytest.mark.slow)]
)
def test_alone_and_in_a_batch(name, monkeypatch):
    check_ways(name, WAYS[2:3], monkeypatch)
    algorithm, environment = CASES[name]
    folded = jax.jit(lambda key: jr.run(key, algorithm, environment, max_samples=MOST))
    check_alone(name, folded)


@pytest.mark.slow
@pytest.mark.parametrize("name", grouped(USUAL))
def test_in_every_batch_and_with_settings_as_arguments(name, monkeypatch):
    check_ways(name, WAYS[:2] + WAYS[3:], monkeypatch)
    algorithm, environment = CASES[name]
    given = jax.jit(lambda key, algorithm, environment: jr.run(key, algorithm, environment, max_samples=MOST))
    check_alone(name, lambda key: given(key, algorithm, environment))


def check_ways(name, ways, monkeypatch):
    """With so many lanes, rounds in a chunk, workers and trials, the trials are the same."""
    for lanes, chunk, workers, count in ways:
        monkeypatch.setattr(engine, "_num_workers", lambda mesh, workers=workers: workers)
        again = simulate(name, num_trials=count, num_lanes=lanes, chunk_rounds=chunk)
        expected = decisions(whole(name), count)
        assert differing(decisions(again), expected) == [], f"{lanes} lanes, {chunk} rounds in a chunk"
        np.testing.assert_allclose(again.means, whole(name).means[:count], rtol=1e-5)


def check_alone(name, run):
    """One by one, the trials are the same."""
    alone = [run(jax.random.fold_in(jax.random.key(KEY), trial)) for trial in range(24)]
    alone = jax.tree.map(lambda *values: np.stack(values), *alone)
    assert differing(decisions(alone), decisions(whole(name), 24)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", grouped([*USUAL, "LUCBRank, batches", "GapRank, free"]))
def test_stacked_or_alone(name):
    """Two instances, with a delta of their own each where there is one, in one call and in two."""
    algorithm, environment = CASES[name]
    field = next(name for name in ("probabilities", "scores", "means") if name in environment.__dataclass_fields__)
    values = getattr(environment, field)
    order = np.arange(K)[::-1]
    others = [values, values[order][:, order] if values.ndim == 2 else values[order]]
    deltas = [0.1, 0.01]

    def simulate(delta, values):
        asking = dataclasses.replace(algorithm, delta=delta) if hasattr(algorithm, "delta") else algorithm
        answering = dataclasses.replace(environment, **{field: values})
        return jr.simulate(jax.random.key(KEY), asking, answering, 60, max_samples=MOST)

    both = simulate(np.array(deltas), np.stack(others))
    for place in range(2):
        alone = decisions(simulate(deltas[place], others[place]))
        assert differing(alone, {name: getattr(both, name)[place] for name in alone}) == []


EXPERIMENT_1 = jr.paper.EXPERIMENT_1
FIFTEEN = {"num_items": 15, "boundaries": (3, 12), "delta": 0.1}
ON_EXPERIMENT_1 = {  # algorithm and budget, where it does not stop soon
    "LUCBRank": (jr.LUCBRank(**FIFTEEN), 8_000),
    "EvidenceRank": (jr.EvidenceRank(**FIFTEEN, epsilon=0.05), None),
    "GapRank": (jr.GapRank(num_items=15, num_clusters=3, delta=0.1, epsilon=0.1), 20_000),
    "ActiveRanking": (jr.ActiveRanking(**FIFTEEN, factor="code"), 8_000),
    "Quicksort": (jr.Quicksort(num_items=15, boundaries=(3, 12), repeats=30), None),
    "Uniform": (jr.Uniform(num_items=15), 4_000),
    "ByLikelihood": (jr.ByLikelihood(algorithm=jr.Uniform(num_items=15, pairs=True)), 1_000),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", grouped(ON_EXPERIMENT_1))
def test_a_thousand_trials_by_any_number_of_lanes(name):
    """Odd numbers of lanes leave remainders, which are computed without vectors."""
    assert set(ON_EXPERIMENT_1) == {type(case[0]).__name__ for case in CASES.values()}
    algorithm, budget = ON_EXPERIMENT_1[name]
    scores = np.asarray(EXPERIMENT_1)
    arms = jr.Duels.btl(8 * scores) if algorithm.asks_pairs else jr.BernoulliArms(means=scores)
    found = [
        decisions(jr.simulate(jax.random.key(KEY), algorithm, arms, 1_000, max_samples=budget, num_lanes=lanes))
        for lanes in (64, 6, 7)
    ]
    assert differing(found[1], found[0]) == []
    assert differing(found[2], found[0]) == []


def for_one_trial(thing):
    """The same thing, of a class that says it is written for one trial only."""
    cls = jr.pytree_dataclass(type(type(thing).__name__, (type(thing),), {"batched": False}))
    copy = object.__new__(cls)
    for field in dataclasses.fields(thing):
        object.__setattr__(copy, field.name, getattr(thing, field.name))
    return copy


@pytest.mark.parametrize(
    "name", [*grouped(["Uniform"]), *grouped([name for name in USUAL if name != "Uniform"], pytest.mark.slow)]
)
def test_written_for_one_trial(name):
    """`simulate` runs what is not batched under `vmap`, algorithm and environment, with the same decisions."""
    algorithm, environment = (for_one_trial(thing) for thing in CASES[name])
    plain = jr.simulate(jax.random.key(KEY), algorithm, environment, 24, max_samples=MOST)
    assert differing(decisions(plain), decisions(whole(name), 24)) == []


PROGRAM = """
import pickle, sys
sys.path.insert(0, {folder!r})
import test_identity as case
runs = {{name: case.decisions(case.simulate(name, num_trials=case.TRIALS)) for name in {names!r}}}
with open(sys.argv[1], "wb") as file:
    pickle.dump(runs, file)
"""


@pytest.mark.slow
def test_on_two_devices(tmp_path):
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    program = PROGRAM.format(folder=os.path.dirname(__file__), names=USUAL)
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "runs")], env=environment, check=True)
    runs = pickle.loads((tmp_path / "runs").read_bytes())
    for name in USUAL:
        assert differing(runs[name], decisions(whole(name))) == [], name


@pytest.mark.slow
@pytest.mark.parametrize("name", grouped(USUAL))
def test_resumed(name, tmp_path):
    """A file with some of the trials, as a kill leaves it, is completed to the same result."""
    simulate(name, num_trials=50, resume_file=tmp_path / "trials", num_lanes=3)
    again = simulate(name, num_trials=TRIALS, resume_file=tmp_path / "trials")
    assert differing(decisions(again), decisions(whole(name))) == []
