import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank.simulation import cpu_kernel, lanes

MEANS = np.array([0.8, 0.6, 0.45, 0.3, 0.1])
EASY = {"num_items": 5, "boundaries": (1, 3), "delta": 0.1, "epsilon": 0.2}


@pytest.fixture(scope="module")
def runs():
    return jr.simulate(jax.random.key(3), jr.LUCBRank(**EASY), jr.BernoulliArms(means=MEANS), num_trials=64)


def test_shapes_and_consistency(runs):
    assert runs.samples.shape == runs.rounds.shape == runs.done.shape == (64,)
    assert runs.order.shape == runs.pulls.shape == runs.means.shape == (64, 5)
    assert runs.done.all()
    np.testing.assert_array_equal(runs.pulls.sum(axis=1), runs.samples)
    # K samples to open, then two per active boundary and round: even, and at most four a round.
    assert ((runs.samples - 5) % 2 == 0).all()
    assert (runs.samples - 5 <= 4 * (runs.rounds - 1)).all()


def test_instances_are_a_leading_axis(key):
    stacked = jr.BernoulliArms(means=np.stack([MEANS, MEANS[::-1], MEANS**2]))
    algorithm = jr.LUCBRank(**{**EASY, "delta": np.array([0.1, 0.01, 0.2]), "epsilon": 0.25})
    both = jr.simulate(key, algorithm, stacked, num_trials=6, num_lanes=5)
    assert both.samples.shape == (3, 6)
    assert both.order.shape == (3, 6, 5)
    for instance, delta in enumerate([0.1, 0.01, 0.2]):
        alone = jr.simulate(
            key,
            jr.LUCBRank(**{**EASY, "delta": delta, "epsilon": 0.25}),
            jr.BernoulliArms(means=stacked.means[instance]),
            num_trials=6,
        )
        chex.assert_trees_all_equal(alone[:6], tuple(field[instance] for field in both[:6]))


@pytest.mark.once
def test_stacked_duels(key):
    scores = np.array([[3.0, 1.0, 0.0, -1.0, -3.0], [-3.0, 0.0, 1.0, 2.0, 3.0]])
    matrices = 1 / (1 + np.exp(scores[:, None, :] - scores[:, :, None]))
    algorithm = jr.LUCBRank(**EASY)
    by_scores = jr.simulate(key, algorithm, jr.Duels.btl(scores), num_trials=5)
    by_matrix = jr.simulate(key, algorithm, jr.Duels(probabilities=matrices), num_trials=5)
    chex.assert_trees_all_equal(by_scores, by_matrix)
    alone = jr.simulate(key, algorithm, jr.Duels.btl(scores[1]), num_trials=5)
    chex.assert_trees_all_equal(alone[:6], tuple(field[1] for field in by_scores[:6]))


def test_a_stack_of_standard_deviations(key):
    sigmas = np.array([0.2, 0.4])
    algorithm = jr.LUCBRank(**{**EASY, "family": jr.Gaussian(sigma=sigmas)})
    both = jr.simulate(key, algorithm, jr.GaussianArms(means=MEANS, sigma=sigmas), num_trials=3)
    assert both.samples.shape == (2, 3)
    assert (both.samples[0] < both.samples[1]).all()
    alone = jr.LUCBRank(**{**EASY, "family": jr.Gaussian(sigma=0.4)})
    one = jr.simulate(key, alone, jr.GaussianArms(means=MEANS, sigma=0.4), num_trials=3)
    np.testing.assert_array_equal(one.samples, both.samples[1])


@pytest.mark.once
def test_orders_are_recorded_at_the_first_round_that_reaches_them(key):
    algorithm = jr.LUCBRank(**EASY)
    arms = jr.BernoulliArms(means=MEANS)
    marks = [3, 50, 51, 400, 10**6]
    curve = jr.simulate(key, algorithm, arms, num_trials=8, record_at=marks, num_lanes=3, chunk_rounds=11)
    np.testing.assert_array_equal(curve.record_at, marks)
    assert curve.recorded_orders.shape == (8, 5, 5)
    chex.assert_trees_all_equal(curve[:6], jr.simulate(key, algorithm, arms, num_trials=8)[:6])
    np.testing.assert_array_equal(curve.recorded_orders[:, -1], curve.order)
    for trial in range(8):
        init_key, ask_key, answer_key = jax.random.split(jax.random.fold_in(key, trial), 3)
        state, samples, turn, seen = algorithm.init(init_key), 0, 0, []
        while len(seen) < 3:
            query = algorithm.ask(ask_key, state)
            state = algorithm.tell(state, query, arms.draw(jax.random.fold_in(answer_key, turn), query))
            samples, turn = samples + int(query.mask.sum()), turn + 1
            seen += [np.asarray(algorithm.order(state))] * sum(samples >= mark for mark in marks[len(seen) : 3])
        np.testing.assert_array_equal(curve.recorded_orders[trial, :3], seen)


@pytest.mark.parametrize("budget", [None, 60])
def test_marks_above_the_budget_have_the_order_at_the_end(key, budget):
    """Beyond what 32-bit counts can hold, too."""
    arms, marks = jr.BernoulliArms(means=MEANS), [30, 2**30 + 7, 2**31, 2**40]
    runs = jr.simulate(key, jr.LUCBRank(**EASY), arms, num_trials=8, record_at=marks, max_samples=budget)
    assert runs.record_at.tolist() == marks
    for place in (1, 2, 3):
        np.testing.assert_array_equal(runs.recorded_orders[:, place], runs.order)
    assert runs.samples.max() <= (budget or 10**6)


def test_more_lanes_than_trials_cost_nothing(key, monkeypatch):
    arms, widths = jr.BernoulliArms(means=MEANS), []
    fill = lanes.fill
    monkeypatch.setattr(lanes, "fill", lambda job, *rest: widths.append(job.shape) or fill(job, *rest))
    many = jr.simulate(key, jr.LUCBRank(**EASY), arms, num_trials=20, num_lanes=100_000)
    assert max(widths)[0] <= 32
    chex.assert_trees_all_equal(many, jr.simulate(key, jr.LUCBRank(**EASY), arms, num_trials=20))


def test_one_compilation_across_settings(key):
    compiled = lanes._jitted_chunk(cpu_kernel.compiler_options() is not None)
    compiled.clear_cache()
    for delta, epsilon, seed, scale in [
        (0.1, 0.2, 0, 1.0),
        (0.01, 0, 1, 0.9),
        (np.float32(0.2), 0.3, 2, 0.8),
    ]:
        jr.simulate(
            jax.random.key(seed),
            jr.LUCBRank(**{**EASY, "delta": delta, "epsilon": epsilon}),
            jr.BernoulliArms(means=MEANS * scale),
            num_trials=4,
            max_samples=100,
        )
    assert compiled._cache_size() == 1


def test_vmap_over_delta(key):
    def samples(delta):
        algorithm = jr.LUCBRank(**{**EASY, "delta": delta})
        return jr.run(key, algorithm, jr.BernoulliArms(means=MEANS)).samples

    deltas = jnp.array([0.5, 0.1, 0.001])
    together = jax.vmap(samples)(deltas)
    np.testing.assert_array_equal(together, [samples(delta) for delta in deltas])
    assert together[0] < together[2]


def test_run_inside_a_scan_of_ones_own(key):
    algorithm, arms = jr.LUCBRank(**EASY), jr.BernoulliArms(means=MEANS)

    def body(total, trial):
        result = jr.run(jax.random.fold_in(key, trial), algorithm, arms, max_samples=200)
        return total + result.samples, result.done

    total, done = jax.jit(lambda: jax.lax.scan(body, jnp.zeros((), int), jnp.arange(5)))()
    each = jr.simulate(key, algorithm, arms, num_trials=5, max_samples=200)
    assert int(total) == each.samples.sum()
    np.testing.assert_array_equal(done, each.done)


@pytest.mark.slow
def test_rewards_between_0_and_1_and_other_families(key):
    for arms, family in [
        (jr.GaussianArms(means=MEANS, sigma=0.3), jr.Gaussian(sigma=0.3)),
        (jr.PoissonArms(means=MEANS * 5), jr.Poisson()),
        (jr.ExponentialArms(means=np.array([9.0, 3.0, 2.5, 0.5, 0.4])), jr.Exponential()),
    ]:
        algorithm = jr.LUCBRank(**{**EASY, "family": family, "epsilon": 0.6})
        runs = jr.simulate(key, algorithm, arms, num_trials=8)
        assert runs.done.all()
        assert not np.asarray(jr.metrics.mistakes(runs.order, arms.means, (1, 3), epsilon=0.6)).any()


def test_save_and_load(runs, tmp_path):
    runs.save(str(tmp_path / "runs.npz"))
    chex.assert_trees_all_equal(jr.Runs.load(str(tmp_path / "runs.npz")), runs)


def test_progress_bar_only_on_request_or_on_a_terminal(key, capsys):
    algorithm, arms = jr.LUCBRank(**EASY), jr.BernoulliArms(means=MEANS)
    jr.simulate(key, algorithm, arms, num_trials=2, max_samples=20)
    assert capsys.readouterr().err == ""
