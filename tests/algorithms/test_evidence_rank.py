"""EvidenceRank: what it samples, what it proves, what it costs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr

EXPERIMENT_1 = jr.paper.EXPERIMENT_1
SETTING = {"num_items": 15, "boundaries": (3, 12)}


def likelihood(sums, pulls):
    mean = np.clip(sums / pulls, 1e-300, 1 - 1e-16)
    return sums * np.log(mean) + (pulls - sums) * np.log1p(-mean)


def transport_cost(sums, pulls, a, b):
    both = likelihood(sums[a] + sums[b], pulls[a] + pulls[b])
    return likelihood(sums[a], pulls[a]) + likelihood(sums[b], pulls[b]) - both


def test_every_round_samples_the_pair_that_is_cheapest_to_be_wrong_about(key):
    """Against the definition, pair by pair; what counts as proven is taken from the state and checked apart."""
    means, cuts = np.asarray([0.9, 0.3, 0.7, 0.5, 0.1, 0.2]), (2, 4)
    algorithm = jr.EvidenceRank(num_items=6, boundaries=cuts, delta=0.2)
    arms = jr.BernoulliArms(means=means)
    ask, tell, draw = jax.jit(algorithm.ask), jax.jit(algorithm.tell), jax.jit(arms.draw)
    # Clusters of two: 2 * 2 + 2 * 2 pairs of adjacent ones.
    threshold = float(algorithm.threshold())
    assert threshold == pytest.approx(np.log(8 / 0.2))
    state, turn = algorithm.init(key), 0
    proven = np.zeros((6, 6), bool)
    while not bool(algorithm.done(state)):
        query = ask(key, state)
        if int(state.rounds) > 0:
            pulls = np.asarray(state.tally.pulls, float)
            sums = np.asarray(state.tally.sums, float)
            order = sorted(range(6), key=lambda item: (-sums[item] / pulls[item], int(state.priority[item])))
            cluster = {item: int(np.searchsorted(cuts, place, side="right")) for place, item in enumerate(order)}
            prices = {
                (a, b): transport_cost(sums, pulls, a, b) + np.log(pulls[a]) + np.log(pulls[b])
                for a in range(6)
                for b in range(6)
                if cluster[a] < cluster[b] and not proven[a, b]
            }
            for place in range(2):
                mine = {pair: price for pair, price in prices.items() if cluster[pair[0]] == place}
                asked = tuple(np.asarray(query.item)[2 * place : 2 * place + 2].tolist())
                assert bool(query.mask[2 * place]) == bool(mine)
                if mine:
                    assert mine[asked] == pytest.approx(min(mine.values()), abs=1e-3)
        state, turn = tell(state, query, draw(jax.random.fold_in(key, turn), query)), turn + 1
        new = np.asarray(state.proven) & ~proven
        if new.any():
            pulls, mean = np.asarray(state.tally.pulls), np.asarray(state.tally.means)
            for a, b in np.argwhere(new):
                assert float(jr.log_evidence(mean[a], pulls[a], mean[b], pulls[b])) >= threshold - 1e-3
        assert not (proven & ~np.asarray(state.proven)).any(), "a proof is for good"
        proven = np.asarray(state.proven)
    cluster = np.asarray(algorithm.clusters(state))
    np.testing.assert_array_equal(cluster, [0, 1, 0, 1, 2, 2])
    assert proven[cluster[:, None] < cluster[None]].all()


@pytest.mark.once
def test_the_certificate_says_what_is_missing(key):
    algorithm = jr.EvidenceRank(num_items=4, boundaries=(2,), delta=0.1)
    arms = jr.BernoulliArms(means=np.asarray([0.9, 0.55, 0.45, 0.05]))
    ask, tell, draw = jax.jit(algorithm.ask), jax.jit(algorithm.tell), jax.jit(arms.draw)
    state, turn, forecasts = algorithm.init(key), 0, []
    while not bool(algorithm.done(state)):
        query = ask(key, state)
        state, turn = tell(state, query, draw(jax.random.fold_in(key, turn), query)), turn + 1
        if turn % 200 == 0:
            certificate = jax.jit(algorithm.certificate)(state)
            missing = np.asarray(certificate.needed & ~certificate.proven)
            forecasts.append((int(state.tally.pulls.sum()), float(certificate.more_samples[missing].max(initial=0))))
            assert (np.asarray(certificate.more_samples)[missing] > 0).all()
            assert (np.asarray(certificate.more_samples)[~missing] == 0).all()
            assert float(certificate.threshold) == pytest.approx(np.log(4 / 0.1))
    final = algorithm.certificate(state)
    assert bool(jnp.all(final.proven | ~final.needed))
    assert int(final.needed.sum()) == 4
    total = int(state.tally.pulls.sum())
    # Rough: from the last third on, within a factor of 4 of what it then took.
    late = [(spent, more) for spent, more in forecasts if 2 * total / 3 < spent < 0.9 * total]
    assert late
    for spent, more in late:
        assert 0.25 < (spent + more) / total < 4


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize(
    ("setting", "samples", "slack", "trials"),
    [
        ({"delta": 0.1}, 60_000, 4_000, 64),
        ({"delta": 0.1, "epsilon": 0.05}, 10_300, 1_000, 100),
        ({"delta": 0.001}, 93_000, 6_000, 60),
        ({"delta": 0.1, "pulls_per_item": 32}, 62_600, 5_000, 64),
    ],
    ids=str,
)
def test_samples_on_experiment_1(setting, samples, slack, trials):
    """Means of an independent implementation; the slack is more than two standard errors of ours."""
    algorithm = jr.EvidenceRank(**SETTING, **setting)
    arms = jr.BernoulliArms(means=EXPERIMENT_1)
    runs = jr.simulate(jax.random.key(0), algorithm, arms, trials, progress=False)
    assert abs(runs.samples.mean() - samples) < slack
    wrong = jr.metrics.mistakes(runs.order, EXPERIMENT_1, (3, 12), setting.get("epsilon", 0.0))
    # At most delta, and two standard errors of so many trials.
    assert np.mean(wrong) <= setting["delta"] + 2 * (setting["delta"] / trials) ** 0.5


@pytest.mark.slow
@pytest.mark.once
def test_ten_thousand_trials_on_random_instances_err_at_most_delta():
    """100 instances of 6 items, 100 trials each, delta = .1; two standard errors of 10,000 trials are .006."""
    means = np.random.default_rng(0).uniform(size=(100, 6))
    algorithm = jr.EvidenceRank(num_items=6, boundaries=(1, 4), delta=0.1, epsilon=0.1)
    runs = jr.simulate(jax.random.key(1), algorithm, jr.BernoulliArms(means=means), 100, progress=False)
    assert runs.done.all()
    wrong = np.asarray(jr.metrics.mistakes(runs.order, means[:, None], (1, 4), 0.1))
    assert wrong.shape == (100, 100)
    assert wrong.mean() <= 0.1 + 0.006


@pytest.mark.slow
@pytest.mark.once
def test_many_items_look_at_their_pairs_now_and_then():
    """With 60 items a look comes every other round, so that a trial in company must still equal one alone."""
    means = np.linspace(0.95, 0.05, 60)
    algorithm = jr.EvidenceRank(num_items=60, boundaries=(20, 40), delta=0.1, epsilon=0.2)
    arms = jr.BernoulliArms(means=means)
    runs = jr.simulate(jax.random.key(3), algorithm, arms, 5, max_samples=6_000, progress=False)
    for trial in (0, 4):
        alone = jax.jit(jr.run)(jax.random.fold_in(jax.random.key(3), trial), algorithm, arms, max_samples=6_000)
        np.testing.assert_array_equal(alone.pulls, runs.pulls[trial])
        np.testing.assert_array_equal(alone.order, runs.order[trial])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["EvidenceRank", "mixture"])
def test_one_delta_per_instance(kind):
    """A smaller risk costs more samples, and every instance is as it would be alone."""
    means, deltas = np.asarray([0.9, 0.6, 0.2]), np.asarray([0.2, 1e-6])
    arms = jr.BernoulliArms(means=means)

    def make(delta):
        setting = {"num_items": 3, "boundaries": (1,), "delta": delta, "epsilon": 0.1}
        return jr.EvidenceRank(**setting) if kind == "EvidenceRank" else jr.LUCBRank(**setting, confidence=jr.Mixture())

    runs = jr.simulate(jax.random.key(0), make(deltas), arms, 6, progress=False)
    assert runs.samples.shape == (2, 6)
    assert runs.samples[0].mean() < runs.samples[1].mean()
    alone = jr.simulate(jax.random.key(0), make(1e-6), arms, 6, progress=False)
    np.testing.assert_array_equal(alone.samples, runs.samples[1])


def test_bad_input(key):
    arms = jr.BernoulliArms(means=np.asarray([0.9, 0.5, 0.5]))
    with pytest.raises(ValueError, match="epsilon must be above 0, or max_samples given"):
        jr.run(key, jr.EvidenceRank(num_items=3, boundaries=(2,), delta=0.1), arms)
    with pytest.raises(ValueError, match=r"family must be Bernoulli .* use LUCBRank, got Poisson"):
        jr.EvidenceRank(num_items=3, boundaries=(1,), delta=0.1, family=jr.Poisson()).check()
    with pytest.raises(ValueError, match=r"delta must lie in \(0, 1\), got 2"):
        jr.run(key, jr.EvidenceRank(num_items=3, boundaries=(1,), delta=2), arms)
