"""GapRank: which clustering it finds, what it samples, what it says where the answer is not clear."""

import jax
import numpy as np
import pytest
from clusterings import allowed_cuts, plain, random_limits, value

import jaxrank as jr
from jaxrank.stats import gaps


def test_every_round_samples_where_the_two_best_clusterings_differ(key):
    """Against the definition: leader and rival by trying all, critical items by sorting bounds."""
    means = np.asarray([0.9, 0.8, 0.35, 0.3, 0.25, 0.1])
    algorithm = jr.GapRank(num_items=6, num_clusters=3, delta=0.1, smallest=1, largest=4)
    arms = jr.BernoulliArms(means=means)
    ask, tell, draw = jax.jit(algorithm.ask), jax.jit(algorithm.tell), jax.jit(arms.draw)
    state, changed = algorithm.init(key), 0
    for turn in range(400):
        query = ask(key, state)
        state = tell(state, query, draw(jax.random.fold_in(key, turn), query))
        if int(state.rounds) == 0 or turn % 7:
            continue
        lower, upper = np.asarray(state.bounds.lower, float), np.asarray(state.bounds.upper, float)
        low = -np.sort(-lower)[:-1] + np.sort(-upper)[1:]
        high = -np.sort(-upper)[:-1] + np.sort(-lower)[1:]
        every = list(allowed_cuts(algorithm.limits))
        leader, rival = (plain(cuts.boundaries, 6) for cuts in (state.leader, state.rival))
        assert value(low, leader) == pytest.approx(max(value(low, cuts) for cuts in every), abs=1e-5)

        def more(cuts, leader=leader, low=low, high=high):
            return sum(high[cut - 1] for cut in set(cuts) - set(leader)) - sum(
                low[cut - 1] for cut in set(leader) - set(cuts)
            )

        assert rival != leader
        assert more(rival) == pytest.approx(max(more(cuts) for cuts in every if cuts != leader), abs=1e-5)
        decided = more(rival) <= 0
        wanted = [(cut not in rival and not decided) or low[cut - 1] <= 0 for cut in leader]
        wanted += [cut not in leader and not decided for cut in rival]
        assert np.asarray(state.active).tolist() == wanted
        order = np.asarray(algorithm.order(state))
        for place, cut in enumerate((*leader, *rival)):
            top, rest = order[:cut], order[cut:]
            width = upper - lower
            above = {top[np.argmin(lower[top])], top[np.argmin(upper[top])]}
            below = {rest[np.argmax(upper[rest])], rest[np.argmax(lower[rest])]}
            for item, choice in zip(np.asarray(state.critical)[place], (above, below), strict=True):
                # Items with the same answers are exchangeable.
                assert width[item] >= max(width[other] for other in choice) - 1e-6
        changed += 1
    assert changed > 20


PLANTED = {
    "3, 9 and 3": (np.repeat([0.85, 0.5, 0.15], (3, 9, 3)), {"num_clusters": 3}, (3, 12)),
    "one gap": (np.asarray([0.8, 0.75, 0.7, 0.3, 0.25]), {}, (3,)),
    "number not given": (np.asarray([0.9, 0.85, 0.5, 0.45, 0.1, 0.05]), {"largest": 3}, (2, 4)),
    "wider gap not allowed": (np.asarray([0.95, 0.6, 0.55, 0.3, 0.2]), {"num_clusters": 2, "smallest": 2}, (3,)),
    "a limit for each": (
        np.asarray([0.9, 0.85, 0.8, 0.45, 0.4, 0.1]),
        {"num_clusters": 3, "smallest": [1, 2, 1], "largest": [3, 4, 2]},
        (3, 5),
    ),
}


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("name", PLANTED)
def test_planted_clusters_are_found(name, key):
    """At delta = .05 more than 6 of 40 trials fail with probability below .005; none should."""
    means, limits, cuts = PLANTED[name]
    means = np.random.default_rng(1).permutation(means)
    algorithm = jr.GapRank(num_items=len(means), delta=0.05, **limits)
    runs = jr.simulate(key, algorithm, jr.BernoulliArms(means=means), 40, max_samples=200_000)
    assert runs.done.all()
    right = np.asarray([plain(found, len(means)) == cuts for found in runs.found_boundaries])
    wrong = ~right | np.asarray(jr.metrics.mistakes(runs.order, means, cuts))
    assert wrong.sum() <= 6


def test_mistakes_by_hand():
    means = np.asarray([0.9, 0.8, 0.5, 0.45, 0.1])
    limits = gaps.limits(5, None, 1, 3)
    good = [0, 1, 2, 3, 4]
    # The gaps are .1, .3, .05 and .35. A cut after rank 4 alone would leave four items together, so 2 and 4 are best.
    cases = [
        (good, [2, 4, 5, 5], 0.0, False),
        (good, [2, 5, 5, 5], 0.0, True),
        (good, [2, 5, 5, 5], 0.03, False),
        (good, [1, 4, 5, 5], 0.05, True),
        ([1, 0, 3, 2, 4], [2, 4, 5, 5], 0.0, False),
        ([0, 2, 1, 3, 4], [2, 4, 5, 5], 0.0, True),
        ([0, 2, 1, 3, 4], [2, 4, 5, 5], 0.9, True),
    ]
    for order, found, epsilon, wrong in cases:
        assert bool(jr.metrics.gap_mistakes(np.asarray(order), np.asarray(found), means, limits, epsilon)) == wrong


def test_a_flat_instance_is_said_to_be_ambiguous(key):
    means = np.linspace(0.7, 0.3, 6)
    algorithm = jr.GapRank(num_items=6, num_clusters=3, delta=0.1)
    with pytest.raises(ValueError, match="epsilon must be above 0, or max_samples given, where clusterings are tied"):
        jr.run(key, algorithm, jr.BernoulliArms(means=means))
    with pytest.raises(ValueError, match="max_samples must be given where items at the best boundaries are tied"):
        jr.run(key, algorithm, jr.BernoulliArms(means=np.full(6, 0.5)))
    for flat in (means, np.full(6, 0.5)):
        state = after(algorithm, jr.BernoulliArms(means=flat), key, rounds=500)
        known = algorithm.clustering(state)
        assert not bool(known.certified)
        assert bool(known.ambiguous)
        assert int(known.possible.sum()) > 2
    clear = np.asarray([0.95, 0.9, 0.5, 0.5, 0.1, 0.05])
    state = after(algorithm, jr.BernoulliArms(means=clear), key, rounds=20_000)
    known = algorithm.clustering(state)
    assert bool(known.certified)
    assert not bool(known.ambiguous)
    assert np.flatnonzero(known.possible).tolist() == [1, 3]
    assert (np.asarray(known.gap_lower) > 0).all()
    assert (np.asarray(known.gap_lower) <= 0.4).all()
    assert (np.asarray(known.gap_upper) >= 0.4).all()
    assert np.asarray(algorithm.clusters(state)).tolist() == [0, 0, 1, 1, 2, 2]


def after(algorithm, environment, key, rounds):
    """The state of one trial after so many rounds."""
    ask, tell, draw = jax.jit(algorithm.ask), jax.jit(algorithm.tell), jax.jit(environment.draw)
    done, state = jax.jit(algorithm.done), algorithm.init(key)
    for turn in range(rounds):
        if bool(done(state)):
            break
        query = ask(key, state)
        state = tell(state, query, draw(jax.random.fold_in(key, turn), query))
    return state


HARD = {
    # With the best clustering's rival of two boundaries, the gap that both have weighs differently in their averages.
    "fewer cuts": ([0.95, 0.45, 0.25, 0.25, 0.25, 0.05, 0.05], {"largest": 3}),
    # Within the tolerance a clustering with two equal items at a boundary is as good, but its sides never part.
    "tied sides": (
        [0.8, 0.7, 0.6, 0.5, 0.5, 0.4, 0.35],
        {"num_clusters": 3, "smallest": (1, 3, 1), "largest": (6, 3, 6), "epsilon": 0.3},
    ),
}


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("name", HARD)
def test_a_run_ends_wherever_the_answer_is_clear(name, key):
    means, limits = HARD[name]
    algorithm = jr.GapRank(num_items=7, delta=0.1, **limits)
    runs = jr.simulate(key, algorithm, jr.BernoulliArms(means=np.asarray(means)), 10, max_samples=300_000)
    assert runs.done.all()
    found, limits = runs.found_boundaries, algorithm.limits
    wrong = jr.metrics.gap_mistakes(runs.order, found, np.asarray(means), limits, algorithm.epsilon)
    # More than 4 of 10 fail with probability below .002.
    assert wrong.sum() <= 4


@pytest.mark.slow
@pytest.mark.once
def test_clusters_are_never_outside_the_limits(key):
    rng = np.random.default_rng(3)
    for number in range(2):
        limits = random_limits(rng)
        items = limits.num_items
        lows, highs = zip(*limits.sizes, strict=True)
        fixed = {"num_clusters": limits.counts[0] + 1, "smallest": lows, "largest": highs}
        free = {"smallest": lows[0], "largest": highs[0]}
        algorithm = jr.GapRank(num_items=items, delta=0.3, **(fixed if len(limits.counts) == 1 else free))
        arms = jr.BernoulliArms(means=rng.uniform(size=items))
        for budget in (items, 500):
            runs = jr.simulate(jax.random.fold_in(key, number), algorithm, arms, 10, max_samples=budget)
            for found in runs.found_boundaries:
                assert plain(found, items) in set(allowed_cuts(limits))


@pytest.mark.slow
@pytest.mark.once
def test_at_most_delta_of_the_results_are_wrong():
    """Random instances at delta = .3: sets that are wrong, or another clustering wider by more than epsilon.

    With a true rate of .3, 2,000 trials give more than .3 + 3 standard errors = .331 with probability .001.
    """
    rng = np.random.default_rng(4)
    means = rng.uniform(0.05, 0.95, size=(200, 6))
    algorithm = jr.GapRank(num_items=6, num_clusters=3, delta=0.3, epsilon=0.1)
    runs = jr.simulate(jax.random.key(5), algorithm, jr.BernoulliArms(means=means), 10, max_samples=30_000)
    assert runs.done.mean() > 0.8
    widths = -np.diff(-np.sort(-means))
    wrong = np.zeros(runs.done.shape, bool)
    for instance in range(200):
        best = max(value(widths[instance], cuts) for cuts in allowed_cuts(algorithm.limits))
        for trial in range(10):
            cuts = plain(runs.found_boundaries[instance, trial], 6)
            placed = bool(jr.metrics.mistakes(runs.order[instance, trial], means[instance], cuts))
            wrong[instance, trial] = placed or value(widths[instance], cuts) < best - 0.1
    assert wrong[runs.done].mean() <= 0.331
    judged = jr.metrics.gap_mistakes(runs.order, runs.found_boundaries, means[:, None], algorithm.limits, epsilon=0.1)
    np.testing.assert_array_equal(judged, wrong)
    # The bounds are far from tight, and the result is far better than promised.
    assert wrong[runs.done].mean() <= 0.02


def test_other_rewards_and_batches_and_files(key, tmp_path):
    means = np.asarray([5.0, 4.8, 2.0, 1.9, 1.8])
    algorithm = jr.GapRank(num_items=5, delta=0.1, family=jr.Gaussian(sigma=0.5), pulls_per_item=3, sample_once=True)
    runs = jr.simulate(key, algorithm, jr.GaussianArms(means=means, sigma=0.5), 20)
    assert (runs.found_boundaries == 2).all()
    runs.save(tmp_path / "runs.npz")
    np.testing.assert_array_equal(jr.Runs.load(tmp_path / "runs.npz").found_boundaries, runs.found_boundaries)
    given = jr.simulate(key, jr.Uniform(num_items=5), jr.BernoulliArms(means=means / 10), 2, max_samples=10)
    assert given.found_boundaries.shape == (2, 0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_clusters": 1}, r"num_clusters must lie in \[2, 6\], got 1"),
        ({"num_clusters": 7}, r"num_clusters must lie in \[2, 6\], got 7"),
        ({"num_clusters": 3, "smallest": 3}, "smallest and largest must allow 3 clusters of these sizes for 6 items"),
        ({"smallest": 4}, "smallest and largest must allow clusters of these sizes for 6 items, got 4 and None"),
        ({"num_clusters": 2, "smallest": 0}, "smallest must be at least 1"),
        ({"num_clusters": 2, "smallest": [1, 2, 3]}, "smallest must have one size for each of 2"),
        ({"smallest": [1, 2]}, "num_clusters must be given with a size for each cluster"),
        ({"epsilon": -1.0}, "epsilon must be finite and at least 0"),
        ({"family": jr.Poisson(), "confidence": jr.Mixture()}, "family"),
    ],
)
def test_bad_input(wrong, message, key):
    with pytest.raises(ValueError, match=message):
        jr.run(key, jr.GapRank(**{"num_items": 6, "delta": 0.1, **wrong}), jr.BernoulliArms(means=np.linspace(0, 1, 6)))
