"""EvidenceRank: what it samples, what it proves, what it takes."""

import functools
import itertools

import evidence_reference as reference
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr

EXPERIMENT_1 = jr.paper.EXPERIMENT_1
SETTING = {"num_items": 15, "boundaries": (3, 12)}
MEANS, CUTS = np.asarray([0.9, 0.3, 0.7, 0.5, 0.1, 0.2]), (2, 4)


@functools.cache
def history(levels=2, epsilon=0.0, pull="one"):
    """All states of a run on six items, with the questions asked in each."""
    algorithm = jr.EvidenceRank(num_items=6, boundaries=CUTS, delta=0.2, levels=levels, epsilon=epsilon, pull=pull)
    arms = jr.BernoulliArms(means=MEANS)
    ask, tell, draw = jax.jit(algorithm.ask), jax.jit(algorithm.tell), jax.jit(arms.draw)
    key, states = jax.random.key(2), []
    state = jax.jit(algorithm.init)(key)
    while not bool(algorithm.done(state)):
        turn, other = jax.random.split(jax.random.fold_in(key, len(states)))
        query = ask(other, state)
        states.append((jax.device_get(state), jax.device_get(query)))
        state = tell(state, query, draw(turn, query))
    return algorithm, [*states, (jax.device_get(state), None)]


def standing(state):
    """Sums, pulls, the order and the cluster of every item, by the definition."""
    pulls, sums = np.asarray(state.tally.pulls, float), np.asarray(state.tally.sums, float)
    order = sorted(range(6), key=lambda item: (-sums[item] / pulls[item], int(state.priority[item])))
    cluster = {item: int(np.searchsorted(CUTS, place, side="right")) for place, item in enumerate(order)}
    return sums, pulls, order, cluster


@pytest.mark.parametrize(("levels", "epsilon"), [(2, 0.0), (1, 0.0), (2, 0.1)])
def test_every_update_finds_the_pairs_that_are_cheapest_to_be_wrong_about(levels, epsilon):
    """Against the definition, pair by pair; which levels are reached is taken from the state and checked apart."""
    algorithm, states = history(levels, epsilon)
    updates = 0
    for (before, _), (state, _) in itertools.pairwise(states):
        if state.rounds == 0 or before.rounds % algorithm.update_every:
            continue
        updates += 1
        sums, pulls, order, cluster = standing(state)
        weak = reference.weak_pairs(order, CUTS) if levels == 2 and epsilon == 0 else []
        prices = {}
        for a in range(6):
            for b in range(6):
                if cluster[a] < cluster[b] and state.level[a, b] < (1 if (a, b) in weak else algorithm.levels):
                    mean = sums[a] / pulls[a], max(sums[b] / pulls[b] - epsilon, 0)
                    cost = reference.likelihood_ratio(mean[0] * pulls[a], pulls[a], mean[1] * pulls[b], pulls[b])[0]
                    factor = 0.75 if levels == 2 and epsilon == 0 and (a, b) not in weak else 1
                    prices[a, b] = factor * cost + np.log(pulls[a]) + np.log(pulls[b])
        for place in range(2):
            mine = {pair: price for pair, price in prices.items() if cluster[pair[0]] == place}
            assert bool(state.active[place]) == bool(mine)
            if mine:
                found = tuple(state.critical[place].tolist())
                assert mine[found] == pytest.approx(min(mine.values()), abs=1e-3)
    assert updates > 10


@pytest.mark.parametrize(("levels", "epsilon"), [(2, 0.0), (1, 0.0), (2, 0.1)])
def test_a_level_is_reached_by_evidence_and_kept(levels, epsilon):
    """Whatever is newly proven has the evidence by the slow reference; the run ends when the definition says so."""
    algorithm, states = history(levels, epsilon)
    thresholds = reference.thresholds((2, 2, 2), 0.2) if levels == 2 else [reference.threshold_one_level(6, 0.2)]
    if epsilon > 0:
        thresholds = [reference.threshold_tolerance((2, 2, 2), 0.2)] * levels
    np.testing.assert_allclose(algorithm.thresholds(), thresholds, rtol=1e-6)
    proven = 0
    for (before, _), (state, _) in itertools.pairwise(states):
        assert (state.level >= before.level).all()
        if state.rounds == 0:
            continue
        sums, pulls, _, _ = standing(state)
        for a, b in np.argwhere(state.level > before.level):
            proven += 1
            for level in range(before.level[a, b], state.level[a, b]):
                found = reference.log_evidence(sums[a], pulls[a], sums[b], pulls[b], epsilon, level + 1)
                assert found >= thresholds[level] - 1e-3
    assert proven >= 12
    final = states[-1][0]
    _, _, order, cluster = standing(final)
    weak = reference.weak_pairs(order, CUTS) if levels == 2 else []
    for a in range(6):
        for b in range(6):
            if cluster[a] < cluster[b]:
                assert final.level[a, b] >= (1 if (a, b) in weak and epsilon == 0 else levels)
    assert [cluster[item] for item in range(6)] == [0, 1, 0, 1, 2, 2]


def test_one_item_of_a_pair_is_sampled_more_often_the_one_with_fewer_samples():
    """With 30 and 10 samples, the first is asked with probability 1/4; four standard errors of 2,000 draws are .039."""
    algorithm, states = history()
    state = next(state for state, _ in states if state.rounds > 0 and state.active.all())
    state = jax.tree.map(jnp.asarray, state)
    a, b = np.asarray(state.critical[0])
    pulls = state.tally.pulls.at[a].set(30).at[b].set(10)
    state = state._replace(tally=state.tally._replace(pulls=pulls))
    query = jax.jit(jax.vmap(algorithm.ask, (0, None)))(jax.random.split(jax.random.key(1), 2_000), state)
    asked = np.asarray(query.item[:, 0])
    assert set(asked) == {a, b}
    assert np.mean(asked == a) == pytest.approx(0.25, abs=0.039)


def test_both_items_of_a_pair_are_sampled_if_so_asked():
    _, states = history(pull="both")
    for state, query in states[:-1]:
        if state.rounds > 0:
            np.testing.assert_array_equal(query.item, state.critical.reshape(-1))


def test_an_update_has_no_loop_of_unknown_length_and_does_not_look_at_other_trials():
    """In the program for many trials there is no `while`, no `cond`, and nothing adds up or compares trials."""
    algorithm = jr.EvidenceRank(num_items=30, boundaries=(10, 20), delta=0.1)
    keys = jax.random.split(jax.random.key(0), 7)
    state = algorithm.init(keys)
    query = algorithm.ask(keys, state)
    program = jax.make_jaxpr(algorithm.tell)(state, query, jnp.zeros(query.item.shape))
    names = set()

    def visit(jaxpr):
        for equation in jaxpr.eqns:
            names.add(equation.primitive.name)
            if equation.primitive.name.startswith("reduce"):
                shape = equation.invars[0].aval.shape
                assert len(shape) - 1 not in equation.params.get("axes", ()) or shape[-1] != 7
            for part in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda leaf: hasattr(leaf, "eqns")):
                if hasattr(part, "eqns"):
                    visit(part)

    visit(program.jaxpr)
    assert "scan" in names
    assert not {"while", "cond"} & names


@pytest.mark.once
def test_the_certificate_says_what_is_missing():
    algorithm, states = history()
    certificate_of = jax.jit(algorithm.certificate)
    total, forecasts = int(states[-1][0].tally.pulls.sum()), []
    for state, _ in states[10::20]:
        certificate = certificate_of(state)
        missing = np.asarray(certificate.needed & ~certificate.proven)
        assert (np.asarray(certificate.more_samples)[missing] > 0).all()
        assert (np.asarray(certificate.more_samples)[~missing] == 0).all()
        np.testing.assert_allclose(certificate.thresholds, reference.thresholds((2, 2, 2), 0.2), rtol=1e-6)
        _, _, order, _ = standing(state)
        weak = [tuple(pair) for pair in np.argwhere(certificate.weak).tolist()]
        assert weak == sorted(reference.weak_pairs(order, CUTS))
        forecasts.append((int(state.tally.pulls.sum()), float(certificate.more_samples[missing].max(initial=0))))
    final, state = certificate_of(states[-1][0]), states[-1][0]
    assert bool(jnp.all(final.proven | ~final.needed))
    assert int(final.needed.sum()) == 12
    sums, pulls, _, _ = standing(state)
    for a, b in np.argwhere(final.needed):
        for level in (0, 1):
            exact = reference.log_evidence(sums[a], pulls[a], sums[b], pulls[b], 0.0, level + 1)
            assert float(final.log_evidence[level, a, b]) == pytest.approx(exact, abs=0.02)
    # Rough: from the last third on, within a factor of 4 of what it then took.
    late = [(spent, more) for spent, more in forecasts if 2 * total / 3 < spent < 0.9 * total]
    assert late
    for spent, more in late:
        assert 0.25 < (spent + more) / total < 4


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize(
    ("setting", "samples", "slack"),
    [
        ({"delta": 0.1}, 38_500, 2_500),
        ({"delta": 0.1, "levels": 1}, 44_600, 3_000),
        ({"delta": 0.01}, 53_600, 3_500),
        ({"delta": 0.1, "epsilon": 0.05}, 8_640, 500),
        ({"delta": 0.1, "pulls_per_item": 32}, 39_500, 2_500),
    ],
    ids=str,
)
def test_samples_on_experiment_1(setting, samples, slack):
    """Means of an independent implementation; the slack is more than two standard errors of ours over 200 trials."""
    algorithm = jr.EvidenceRank(**SETTING, **setting)
    arms = jr.BernoulliArms(means=EXPERIMENT_1)
    runs = jr.simulate(jax.random.key(0), algorithm, arms, 200, progress=False)
    assert abs(runs.samples.mean() - samples) < slack
    wrong = jr.metrics.mistakes(runs.order, EXPERIMENT_1, (3, 12), setting.get("epsilon", 0.0))
    # At most delta, and two standard errors of so many trials.
    assert np.mean(wrong) <= setting["delta"] + 2 * (setting["delta"] / 200) ** 0.5


def random_instances(rng):
    """A hundred instances of six items: any means, clumps of nearly equal ones, and ties inside clusters."""
    means = rng.uniform(size=(100, 6))
    means[40:70] = np.repeat(rng.uniform(size=(30, 3)), 2, axis=1) + rng.normal(0, 0.02, (30, 6))
    top, middle, bottom = rng.uniform([[0.7], [0.4], [0.05]], [[0.95], [0.6], [0.3]], (30, 3, 1))[:, :, 0].T
    means[70:] = np.stack([top, middle, middle, middle, bottom, bottom], axis=1)
    return np.clip(means, 0, 1)


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize(("epsilon", "levels"), [(0.1, 2), (0.0, 2), (0.0, 1)])
def test_ten_thousand_trials_on_random_instances_err_at_most_delta(epsilon, levels):
    """100 instances of 6 items, 100 trials each, delta = .1; two standard errors of 10,000 trials are .006.

    Without a tolerance, a trial that has not stopped after 20,000 samples has made no mistake.
    """
    means = random_instances(np.random.default_rng(0))
    algorithm = jr.EvidenceRank(num_items=6, boundaries=(1, 4), delta=0.1, epsilon=epsilon, levels=levels)
    arms, key = jr.BernoulliArms(means=means), jax.random.key(1)
    runs = jr.simulate(key, algorithm, arms, 100, progress=False, max_samples=20_000)
    assert runs.done.mean() > (0.999 if epsilon > 0 else 0.6)
    wrong = np.asarray(jr.metrics.mistakes(runs.order, means[:, None], (1, 4), epsilon)) & runs.done
    assert wrong.shape == (100, 100)
    assert wrong.mean() <= 0.1 + 0.006


FAMILIES = {
    "Gaussian": (jr.Gaussian(sigma=0.5), jr.GaussianArms(means=[3.0, 2.0, 1.9, 0.5], sigma=0.5)),
    "Poisson": (jr.Poisson(), jr.PoissonArms(means=[6.0, 3.0, 2.9, 1.0])),
    "Exponential": (jr.Exponential(), jr.ExponentialArms(means=[9.0, 3.0, 2.9, 1.0])),
}


@pytest.mark.parametrize("family", [pytest.param(name, marks=pytest.mark.slow) for name in FAMILIES])
@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_other_families_end_with_the_right_clusters(family, epsilon):
    """Two hundred trials, delta = .1: at most a tenth wrong, and two standard errors, .04."""
    kind, arms = FAMILIES[family]
    algorithm = jr.EvidenceRank(num_items=4, boundaries=(1, 3), delta=0.1, epsilon=epsilon, family=kind)
    runs = jr.simulate(jax.random.key(0), algorithm, arms, 200, progress=False)
    assert runs.done.all()
    assert np.mean(jr.metrics.mistakes(runs.order, arms.means, (1, 3), epsilon)) <= 0.1 + 0.04


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["delta", "epsilon", "sigma", "mixture"])
def test_one_setting_per_instance(kind):
    """A smaller risk, a smaller tolerance or more noise cost more samples, and each is as it would be alone."""
    means = np.asarray([0.9, 0.6, 0.2])
    arms = jr.GaussianArms(means=means, sigma=0.3) if kind == "sigma" else jr.BernoulliArms(means=means)

    def make(value):
        setting = {"num_items": 3, "boundaries": (1,), "delta": 0.1, "epsilon": 0.1}
        if kind == "sigma":
            return jr.EvidenceRank(**setting, family=jr.Gaussian(sigma=value))
        if kind == "mixture":
            return jr.LUCBRank(**{**setting, "delta": value}, confidence=jr.Mixture())
        return jr.EvidenceRank(**{**setting, kind: value})

    easy, hard = {"epsilon": (0.2, 0.0), "sigma": (0.3, 1.0)}.get(kind, (0.2, 1e-6))
    runs = jr.simulate(jax.random.key(0), make(np.asarray([easy, hard])), arms, 6, progress=False)
    assert runs.samples.shape == (2, 6)
    assert runs.samples[0].mean() < runs.samples[1].mean()
    for place, value in enumerate((easy, hard)):
        alone = jr.simulate(jax.random.key(0), make(value), arms, 6, progress=False)
        np.testing.assert_array_equal(alone.samples, runs.samples[place])


def test_with_nearly_as_many_boundaries_as_items_there_is_one_level():
    """Where the lower of two thresholds would be above the single one; two items have no other nulls at all."""
    assert jr.EvidenceRank(num_items=2, boundaries=(1,), delta=0.1).levels == 1
    assert jr.EvidenceRank(num_items=6, boundaries=(1, 2, 3), delta=0.1).levels == 1
    assert jr.EvidenceRank(num_items=6, boundaries=(1, 3), delta=0.1).levels == 2


def test_bad_input(key):
    arms = jr.BernoulliArms(means=np.asarray([0.9, 0.5, 0.5]))
    with pytest.raises(ValueError, match="epsilon must be above 0, or max_samples given"):
        jr.run(key, jr.EvidenceRank(num_items=3, boundaries=(2,), delta=0.1), arms)
    with pytest.raises(ValueError, match=r"delta must lie in \(0, 1\), got 2"):
        jr.run(key, jr.EvidenceRank(num_items=3, boundaries=(1,), delta=2), arms)
    with pytest.raises(ValueError, match="levels must be 1 or 2, got 3"):
        jr.EvidenceRank(num_items=3, boundaries=(1,), delta=0.1, levels=3)
    with pytest.raises(ValueError, match=r"pull must be 'one' or 'both', got 'two'"):
        jr.EvidenceRank(num_items=3, boundaries=(1,), delta=0.1, pull="two")

    class Unknown:
        low, high = 0.0, 1.0

    with pytest.raises(ValueError, match=r"family must have exponential supermartingales .* use LUCBRank, got Unknown"):
        jr.EvidenceRank(num_items=3, boundaries=(1,), delta=0.1, family=Unknown()).check()  # pyright: ignore[reportArgumentType]
