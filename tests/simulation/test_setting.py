"""Bad input: every message names the argument, the rule and the value."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr

GOOD = {"num_items": 3, "boundaries": (1,), "delta": 0.1, "epsilon": 0.1}
MEANS = np.array([0.7, 0.5, 0.2])


def simulate(algorithm=None, environment=None, **options):
    algorithm = jr.LUCBRank(**GOOD) if algorithm is None else algorithm
    environment = jr.BernoulliArms(means=MEANS) if environment is None else environment
    return jr.simulate(jax.random.key(0), algorithm, environment, **{"num_trials": 1, **options})


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            jr.BernoulliArms(means=np.array([0.7, 1.2, 0.2])),
            r"means must lie in \[0, 1\], got 1.2 among its 3 values",
        ),
        (jr.BernoulliArms(means=np.array([0.7, -0.1, 0.2])), r"means must lie in \[0, 1\], got -0.1"),
        (
            jr.BernoulliArms(means=np.array([0.7, np.nan, 0.2])),
            "means must not contain NaN, got NaN at index 1",
        ),
        (jr.PoissonArms(means=np.array([0.7, -1.0, 0.2])), "means must be finite and at least 0, got -1"),
        (jr.ExponentialArms(means=np.array([0.7, 0.0, 0.2])), "means must be finite and above 0, got 0"),
        (jr.GaussianArms(means=np.array([0.7, np.inf, 0.2])), "means must be finite, got inf"),
        (jr.GaussianArms(means=MEANS, sigma=0.0), "sigma must be finite and above 0, got 0"),
        (jr.BernoulliArms(means=np.array([0.7])), "means must name at least two items, got 1"),
        (jr.BernoulliArms(means=np.array(["a", "b"])), "means must be numeric, got"),
        (
            jr.BernoulliArms(means=np.array([0.7, 0.1])),
            "num_items must equal the environment's number of items, 2, got 3",
        ),
        (
            jr.Duels(probabilities=np.ones((3, 2)) / 2),
            r"probabilities must be a K x K matrix .* got shape \(3, 2\)",
        ),
        (jr.Duels(probabilities=np.ones(3) / 2), r"probabilities must be a K x K matrix .* got shape \(3,\)"),
        (
            jr.Duels(probabilities=np.array([[0.5, 0.7], [0.4, 0.5]])),
            r"must have P\[i, j\] \+ P\[j, i\] = 1, got P\[0, 1\]",
        ),
        (
            jr.Duels(probabilities=np.array([[0.5, 1.7], [-0.7, 0.5]])),
            r"probabilities must lie in \[0, 1\], got 1.7",
        ),
        (jr.Duels.btl(np.array([0.7, np.nan, 0.2])), "scores must not contain NaN, got NaN at index 1"),
        (jr.Duels.btl(np.array([0.7, np.inf, 0.2])), r"scores must lie in \[-1e\+06, 1e\+06\], got inf"),
        (jr.Duels.thurstone(MEANS, sigma=-1.0), "sigma must be finite and above 0, got -1"),
        (jr.Duels.noisy_permutation([0, 1, 2], error=1.5), r"error must lie in \[0, 1\], got 1.5"),
    ],
)
def test_environments(environment, message):
    with pytest.raises(ValueError, match=message):
        simulate(environment=environment)


def test_noisy_permutation_wants_a_permutation():
    with pytest.raises(ValueError, match=r"order must list every item from 0 to K-1 once, best first, got \[0, 0, 2\]"):
        jr.Duels.noisy_permutation([0, 0, 2], error=0.1)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"delta": 3.0}, r"delta must lie in \(0, 1\), got 3"),
        ({"delta": 0.0}, r"delta must lie in \(0, 1\), got 0"),
        ({"delta": np.nan}, "delta must not contain NaN"),
        ({"epsilon": -0.1}, "epsilon must be finite and at least 0, got -0.1"),
        ({"alpha": 1.0}, "alpha must be finite and above 1, got 1"),
        ({"k1": 10.0}, r"k1 must be at least 1142\.\d+ for the guarantee of Theorem 1 at this alpha, got 10"),
        ({"k1": 1200.0, "pulls_per_item": 50}, r"k1 must be at least 1\d\d\d\.?\d* for the guarantee"),
    ],
)
def test_numbers_of_the_algorithm(setting, message):
    with pytest.raises(ValueError, match=message):
        simulate(algorithm=jr.LUCBRank(**{**GOOD, **setting}))
    with pytest.raises(ValueError, match=message):
        jr.run(jax.random.key(0), jr.LUCBRank(**{**GOOD, **setting}), jr.BernoulliArms(means=MEANS))


def test_a_large_enough_k1_is_taken():
    assert simulate(algorithm=jr.LUCBRank(**GOOD, k1=1500.0), max_samples=10).samples == 10


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"boundaries": (2, 1)}, r"boundaries must be strictly increasing, got \(2, 1\)"),
        ({"num_items": 1}, "num_items must be at least 2, got 1"),
        ({"num_items": 2.5}, "num_items must be a whole number, got 2.5"),
        ({"variant": "bold"}, "variant must be 'literal' or 'provable', got 'bold'"),
        ({"pulls_per_item": 0}, "pulls_per_item must be at least 1, got 0"),
        ({"alpha": 1.2, "confidence": jr.ExplorationRate()}, "give them or confidence, not both"),
    ],
)
def test_static_settings_fail_at_construction(setting, message):
    with pytest.raises(ValueError, match=message):
        jr.LUCBRank(**{**GOOD, **setting})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_trials": 0}, "num_trials must be at least 1, got 0"),
        ({"max_samples": 0}, "max_samples must be at least 1, got 0"),
        ({"max_samples": 2.5}, "max_samples must be a whole number, got 2.5"),
        ({"record_at": (5, 5)}, r"record_at must be strictly increasing, got \[5, 5\]"),
        ({"record_at": (0,)}, "record_at must be at least 1, got 0"),
        ({"num_lanes": 0}, "num_lanes must be at least 1, got 0"),
        ({"chunk_rounds": 0}, "chunk_rounds must be at least 1, got 0"),
    ],
)
def test_options_of_simulate(options, message):
    with pytest.raises(ValueError, match=message):
        simulate(**options)


def test_a_budget_beyond_what_counts_can_hold():
    most = int(jnp.iinfo(jnp.zeros((), int).dtype).max // 2)
    with pytest.raises(
        ValueError, match=f"max_samples must be at most {most}, what .*-bit counts can hold, got {most + 1}"
    ):
        simulate(max_samples=most + 1)
    assert simulate(max_samples=most).done.all()


def test_ties_at_a_boundary_never_end_without_a_budget():
    tied = jr.BernoulliArms(means=np.array([0.5, 0.5, 0.2]))
    exact = jr.LUCBRank(**{**GOOD, "epsilon": 0.0})
    rule = (
        "epsilon must be above 0, or max_samples given, where the items at boundary 1 are tied, got 0 with both means"
    )
    with pytest.raises(ValueError, match=rule):
        simulate(algorithm=exact, environment=tied)
    with pytest.raises(ValueError, match=rule):
        jr.run(jax.random.key(0), exact, tied)
    assert not simulate(algorithm=exact, environment=tied, max_samples=100).done.any()
    assert simulate(algorithm=jr.LUCBRank(**{**GOOD, "epsilon": 0.5}), environment=tied).done.all()
    elsewhere = jr.BernoulliArms(means=np.array([0.9, 0.2, 0.2]))
    assert simulate(algorithm=exact, environment=elsewhere).done.all()


def test_the_family_must_fit_the_rewards():
    with pytest.raises(ValueError, match="family must be the family of GaussianArms, Gaussian, got Bernoulli"):
        simulate(environment=jr.GaussianArms(means=MEANS))


def test_stacks_must_agree():
    stacked = jr.BernoulliArms(means=np.stack([MEANS] * 4))
    with pytest.raises(ValueError, match=r"instance axes must all have one length, got \[2, 4\]"):
        simulate(algorithm=jr.LUCBRank(**{**GOOD, "delta": np.array([0.1, 0.2])}), environment=stacked)
    with pytest.raises(ValueError, match="must be one number per item"):
        simulate(environment=jr.BernoulliArms(means=np.ones((2, 2, 3)) / 2))


def test_pair_queries_need_duels():
    @jr.pytree_dataclass
    class Pairs(jr.LUCBRank):
        asks_pairs = True

    with pytest.raises(
        ValueError, match="environment must answer pair queries: Pairs asks which of two items is better"
    ):
        simulate(algorithm=Pairs(**GOOD))


@pytest.mark.parametrize("key", [0, None, "0", np.float32(1), jnp.zeros(2), jax.random.split(jax.random.key(0), 3)])
def test_what_is_no_key(key):
    for call in (jr.run, lambda *arguments: jr.simulate(*arguments, num_trials=1)):
        with pytest.raises(ValueError, match=r"key must be a (random key such as jax.random.key\(0\)|single key), got"):
            call(key, jr.LUCBRank(**GOOD), jr.BernoulliArms(means=MEANS))


def test_raw_keys_and_lists_are_taken():
    typed = jr.run(jax.random.key(3), jr.LUCBRank(**GOOD), jr.BernoulliArms(means=MEANS))
    raw = jr.run(jax.random.PRNGKey(3), jr.LUCBRank(**GOOD), jr.BernoulliArms(means=MEANS.tolist()))
    assert int(typed.samples) == int(raw.samples)
    many = jr.simulate(jax.random.PRNGKey(3), jr.LUCBRank(**GOOD), jr.BernoulliArms(means=MEANS.tolist()), 3)
    np.testing.assert_array_equal(many.samples, simulate_with(jax.random.key(3)).samples)
    half = [[0.5, 0.6, 0.7], [0.4, 0.5, 0.6], [0.3, 0.4, 0.5]]
    for environment in (
        jr.GaussianArms(means=[0.7, 0.5, 0.2]),
        jr.PoissonArms(means=(0.7, 0.5, 0.2)),
        jr.ExponentialArms(means=[1, 2, 3]),
        jr.Duels(probabilities=half),
        jr.Duels.btl([1, 2, 3]),
        jr.Duels.thurstone([1, 2, 3]),
        jr.Duels.noisy_permutation([2, 0, 1], error=0.1),
    ):
        environment.check()
        assert len(jax.tree.leaves(environment)) <= 2
        assert environment.num_items == 3
    stacked = jr.LUCBRank(**{**GOOD, "delta": [0.1, 0.2]})
    assert simulate(algorithm=stacked).samples.shape == (2, 1)


def simulate_with(key):
    return jr.simulate(key, jr.LUCBRank(**GOOD), jr.BernoulliArms(means=MEANS), 3)
