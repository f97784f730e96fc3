"""No algorithm with a proven delta is done before its guarantee, whatever numbers, rewards or noise it is given."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from public_algorithms import algorithms_of_the_package

import jaxrank as jr
from jaxrank.core.precision import enable_x64

SETTING = {"num_items": 3, "boundaries": (1, 2)}
FULL = [0, 1, 2]
EVEN = (0.6, 0.5, 0.4)
CASES = {  # how it is made from delta and other numbers; means of items on which it stops soon
    "LUCBRank": (lambda **numbers: jr.LUCBRank(**SETTING, **numbers), EVEN),
    "LUCBRank, provable": (lambda **numbers: jr.LUCBRank(**SETTING, **numbers, variant="provable", alpha=1.5), EVEN),
    "LUCBRank, bisection": (lambda **numbers: jr.LUCBRank(**SETTING, **numbers, bounds="bisection"), EVEN),
    "LUCBRank, mixture": (lambda **numbers: jr.LUCBRank(**SETTING, **numbers, confidence=jr.Mixture()), EVEN),
    "EvidenceRank": (lambda **numbers: jr.EvidenceRank(num_items=3, boundaries=(1,), **numbers), EVEN),
    "EvidenceRank, one level": (lambda **numbers: jr.EvidenceRank(**SETTING, **numbers, levels=1), EVEN),
    "GapRank": (lambda **numbers: jr.GapRank(num_items=3, num_clusters=3, **numbers), EVEN),
    # Its widths are so large that on close items it would take half a million samples.
    "ActiveRanking": (lambda **numbers: jr.ActiveRanking(**SETTING, **numbers), (0.9, 0.5, 0.1)),
}
WITH_EPSILON = [name for name in CASES if name != "ActiveRanking"]
WITH_FAMILY = [name for name in WITH_EPSILON if "mixture" not in name]
DELTAS = {
    False: (2e-38, 1e-37, 5e-36, 1e-30, 1e-10, 1e-3, 0.1, 0.5, 0.9, 0.999999),
    True: (1e-300, 1e-37, 1e-10, 1e-3, 0.1, 0.5, 0.9, 0.999999),
}
BUDGET = {False: 150_000, True: 450_000}
KEY = 3


def test_every_algorithm_with_a_delta_is_here():
    names = {cls.__name__ for _, cls in algorithms_of_the_package() if "delta" in cls.__dataclass_fields__}
    assert names == {name.split(",")[0] for name in CASES}


@pytest.fixture(params=[False, True], ids=["32 bit", "64 bit"])
def wide(request):
    with enable_x64(request.param):
        yield request.param


def simulate(name, means, deltas, trials, max_samples):
    """One row of trials for each delta."""
    algorithm = CASES[name][0](delta=np.asarray(deltas))
    arms = jr.BernoulliArms(means=np.asarray(means))
    return jr.simulate(jax.random.key(KEY), algorithm, arms, trials, max_samples=max_samples, progress=False)


def at_most(delta, share, trials):
    """With three standard errors of so many trials."""
    delta = np.asarray(delta)
    return (share <= delta + 3 * np.sqrt(delta * (1 - delta) / trials)).all()


@pytest.mark.once
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_mistakes_at_most_delta(name, wide):
    samples = []
    # Where the risk is tiny, trials are long, and a few of them would show an early stop.
    for tiny, trials in ((True, 20), (False, 500)):
        deltas = [delta for delta in DELTAS[wide] if (delta < 1e-20) == tiny]
        runs = simulate(name, CASES[name][1], deltas, trials, BUDGET[wide])
        assert runs.done.mean() > 0.9
        places = 1 if name == "EvidenceRank" else 3  # which item is first, or the full order
        wrong = (runs.order[..., :places] != FULL[:places]).any(axis=-1) & runs.done
        assert at_most(deltas, wrong.mean(axis=-1), trials)
        samples += runs.samples.mean(axis=-1).tolist()
    assert samples[0] > 4 * samples[-1]


@pytest.mark.once
@pytest.mark.parametrize("name", CASES)
def test_equal_items_are_told_apart_with_probability_delta_at_most(name, wide):
    runs = simulate(name, (0.5, 0.5, 0.5), DELTAS[wide], 500, 1_000)
    assert at_most(DELTAS[wide], runs.done.mean(axis=-1), 500)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("delta", [0, -1, float("nan"), 1, 2, 1e-320])
def test_a_bad_delta_is_refused_by_hand_too(name, delta, key):
    algorithm = CASES[name][0](delta=delta)
    for begin in (algorithm.init, jax.jit(algorithm.init), lambda key: jax.vmap(algorithm.init)(key[None])):
        with pytest.raises(ValueError, match="delta must"):
            begin(key)


@pytest.mark.parametrize("name", WITH_EPSILON)
@pytest.mark.parametrize("epsilon", [-0.5, float("nan"), float("inf")])
def test_a_bad_epsilon_is_refused_by_hand_too(name, epsilon, key):
    with pytest.raises(ValueError, match="epsilon must"):
        CASES[name][0](delta=0.1, epsilon=epsilon).init(key)


@pytest.mark.once
def test_a_delta_that_32_bits_do_not_hold_is_refused(key):
    with enable_x64(False), pytest.raises(ValueError, match=r"delta must be at least 1.2e-38, .* 32 bits, got 1e-300"):
        jr.LUCBRank(**SETTING, delta=1e-300).init(key)


def finished(algorithm, arms, key, **leaves):
    """Whether runs with these traced numbers are done after some hundred samples."""

    def one(leaves):
        return jr.run(key, dataclasses.replace(algorithm, **leaves), arms, max_samples=300).done

    leaves = {name: jnp.asarray(values, float) for name, values in leaves.items()}
    return np.asarray(jax.jit(jax.vmap(one))(leaves))


@pytest.mark.parametrize("name", CASES)
def test_a_traced_delta_that_makes_no_sense_is_never_reached(name, key):
    """Items so far apart that with a delta of .5 most are done soon."""
    algorithm, arms = CASES[name][0](delta=0.5), jr.BernoulliArms(means=np.asarray([1.0, 0.5, 0.0]))
    if name != "ActiveRanking":
        algorithm = dataclasses.replace(algorithm, epsilon=0.4)
    assert not finished(algorithm, arms, key, delta=[0, -1, np.nan, 1, 2, np.inf, 1e-320]).any()


@pytest.mark.parametrize("name", WITH_EPSILON)
def test_a_traced_epsilon_that_makes_no_sense_is_never_reached(name, key):
    arms = jr.BernoulliArms(means=np.asarray([0.6, 0.5, 0.4]))
    assert not finished(CASES[name][0](delta=0.1), arms, key, epsilon=[-0.5, -1, np.nan]).any()


@jr.pytree_dataclass
class Constant(jr.Environment):
    """Always the same rewards."""

    means: jax.Array = jr.leaf(1)
    rewards: jax.Array = jr.leaf(1)

    @property
    def num_items(self):
        return np.shape(self.means)[-1]

    def draw(self, key, query):
        del key
        return jnp.asarray(self.rewards, float)[query.item]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("reward", [3.8, -0.1, np.nan, np.inf])
def test_rewards_outside_the_domain(name, reward, key):
    """Refused at the doors; where they are not known beforehand, nothing is ever proven by them."""
    algorithm = CASES[name][0](delta=0.1)
    arms = Constant(means=np.asarray(EVEN), rewards=np.asarray([reward] * 3) * [1, 1.1, 1.2])
    if name == "ActiveRanking" and np.isfinite(reward):
        return  # it has no family: its guarantee is for rewards in [0, 1], which it cannot tell
    rule = r"the reward of Constant must (lie in \[0, 1\], got|not contain NaN|be finite)"
    for call in (
        lambda: jr.run(key, algorithm, arms, 100),
        lambda: jr.simulate(key, algorithm, arms, 2, max_samples=100),
        lambda: jax.jit(lambda key: jr.run(key, algorithm, arms, 100))(key),
        lambda: jax.vmap(lambda key: jr.run(key, algorithm, arms, 100))(key[None]),
    ):
        with pytest.raises(ValueError, match=rule):
            call()
    assert not bool(jax.jit(jr.run)(key, algorithm, arms, 1_000).done)


def test_rewards_of_the_wrong_shape_are_refused(key):
    @jr.pytree_dataclass
    class Odd(Constant):
        def draw(self, key, query):
            return jnp.ones(())

    with pytest.raises(ValueError, match=r"the reward of Odd must be one number per question, shape \(3,\), got"):
        jr.run(key, jr.LUCBRank(**SETTING, delta=0.1), Odd(means=np.asarray(EVEN), rewards=np.ones(3)), 10)


@pytest.mark.parametrize("name", WITH_FAMILY)
def test_less_noise_than_there_is_may_not_be_assumed(name, key):
    def make(sigma):
        return CASES[name][0](delta=0.1, epsilon=0.5, family=jr.Gaussian(sigma=sigma))

    arms = jr.GaussianArms(means=np.asarray([9.0, 5.0, 0.0]), sigma=2.0)
    with pytest.raises(ValueError, match=r"family must assume at least the noise of GaussianArms, Gaussian\(sigma=2"):
        jr.run(key, make(0.1), arms)
    with pytest.raises(ValueError, match="sigma must be finite and above 0, got 0"):
        jr.run(key, make(0.0), arms)
    with pytest.raises(ValueError, match="sigma must be finite and above 0, got -1"):
        make(-1.0).init(key)
    with pytest.raises(ValueError, match="sigma must be finite and above 0, got 0"):
        jr.run(key, make(1.0), dataclasses.replace(arms, sigma=0.0))
    assert bool(jr.run(key, make(3.0), arms).done)


@pytest.mark.parametrize("name", WITH_FAMILY)
def test_a_traced_sigma_that_makes_no_sense_proves_nothing(name, key):
    arms = jr.GaussianArms(means=np.asarray([9.0, 5.0, 0.0]), sigma=2.0)

    def one(sigma):
        algorithm = CASES[name][0](delta=0.1, epsilon=0.5, family=jr.Gaussian(sigma=sigma))
        return jr.run(key, algorithm, arms, max_samples=300).done

    assert not jax.jit(jax.vmap(one))(jnp.asarray([0.0, -1.0, np.nan])).any()
