import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference

import jaxrank as jr
from jaxrank.core import prng, ranks
from jaxrank.core.precision import enable_x64
from jaxrank.stats.tracked_bounds import Bounds


def replay(algorithm, means, key, num_turns):
    """Asked items, masks and states of a compiled run, turn by turn, with the keys that `run` uses."""
    arms = jr.BernoulliArms(means=means)
    init_key, _, answer_key = jax.random.split(key, 3)

    def turn(state, number):
        query = algorithm.ask(key, state)
        reward = arms.draw(jax.random.fold_in(answer_key, number), query)
        after = algorithm.tell(state, query, reward)
        return after, (query.item, query.mask, after)

    start = algorithm.init(init_key)
    _, (items, masks, states) = jax.lax.scan(turn, start, jnp.arange(num_turns))
    width = items.shape[1]
    numbers = jax.vmap(lambda n: prng.uniform(jax.random.fold_in(answer_key, n), width))(jnp.arange(num_turns))
    return start, np.asarray(items), np.asarray(masks), states, np.asarray(numbers)


@pytest.mark.parametrize(
    ("options", "epsilon", "num_turns"),
    [
        pytest.param({}, 0.05, 17_000, marks=pytest.mark.slow),
        ({}, 0.25, 2_500),
        pytest.param({"alpha": 2.0}, 0.25, 2_500, marks=pytest.mark.slow),
        pytest.param({"variant": "provable"}, 0.25, 2_500, marks=pytest.mark.slow),
        pytest.param({"sample_once": True}, 0.25, 2_500, marks=pytest.mark.slow),
    ],
)
def test_same_pulls_as_the_reference_until_it_stops(experiment_1, options, epsilon, num_turns):
    """Pull by pull against Algorithm 1 in NumPy, fed the same random numbers, from the first sample to the last.

    In 64 bit, where both solve for the bounds to 1e-9: in 32 bit two items whose bounds differ by less than a
    rounding may swap, after which the two runs are different but equally good trials.
    """
    with enable_x64(True):
        means = jnp.asarray(np.asarray(experiment_1, np.float64))
        algorithm = jr.LUCBRank(num_items=15, boundaries=(3, 12), delta=0.1, epsilon=epsilon, **options)
        start, items, masks, _, numbers = replay(algorithm, means, jax.random.key(5), num_turns)
        result = jr.run(jax.random.key(5), algorithm, jr.BernoulliArms(means=means))
        final_order = np.asarray(result.order).tolist()

    def answer(turn, asked):
        # A question's random number is the one of its slot: the k-th unmasked slot asks the k-th item.
        slots = np.flatnonzero(masks[turn])
        assert items[turn][slots].tolist() == asked, f"turn {turn}"
        return (numbers[turn][slots] < np.asarray(means)[asked]).tolist()

    asked, order, rounds, stopped = reference.lucbrank(
        answer,
        15,
        (3, 12),
        0.1,
        epsilon,
        np.asarray(start.priority),
        alpha=options.get("alpha", 1.1),
        provable=options.get("variant") == "provable",
        once=options.get("sample_once", False),
        max_turns=num_turns,
    )
    assert stopped
    assert bool(result.done)
    assert int(result.rounds) == rounds
    assert int(result.samples) == sum(map(len, asked))
    assert final_order == order
    assert not masks[len(asked) :].any(), "a stopped run asks nothing"


def test_decisions_are_those_of_bisection_and_sorting(key, experiment_1):
    """In the test's own precision: every choice of a long run is right for the counts it was made from.

    Recomputed from pulls and sums alone with the public bisection and NumPy's sort. A critical item may differ only
    where its bound ties with the best one to 2^-17 of the overlap, the resolution at which priority decides.
    """
    algorithm = jr.LUCBRank(num_items=15, boundaries=(3, 12), delta=0.1, epsilon=0.0)
    _, _, _, states, _ = replay(algorithm, experiment_1, key, 4_000)
    states = jax.tree.map(lambda leaf: leaf[4:], states)  # after the opening
    beta = jax.vmap(
        lambda s: algorithm.confidence.threshold(
            means=s.tally.means,
            pulls=s.tally.pulls,
            rounds=s.rounds,
            delta=jnp.asarray(0.1),
            design=algorithm.design,
        )
    )(states)
    means = states.tally.means
    lower = np.asarray(jr.kl_lower(means, states.tally.pulls, beta), np.float64)
    upper = np.asarray(jr.kl_upper(means, states.tally.pulls, beta), np.float64)
    means, priority, critical = np.asarray(means), np.asarray(states.priority), np.asarray(states.critical)
    for n in range(len(means)):
        ranked = np.lexsort((priority[n], -means[n]))
        np.testing.assert_array_equal(np.argsort(ranked), states.rank[n])
        for i, kappa in enumerate((3, 12)):
            above, below = ranked[:kappa], ranked[kappa:]
            least, most = lower[n][above].min(), upper[n][below].max()
            tie = 2**-17 * abs(most - least)
            last, first = critical[n, i]
            assert last in above
            assert lower[n][last] <= least + tie
            assert first in below
            assert upper[n][first] >= most - tie


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="paper"),
        pytest.param({"variant": "provable", "sample_once": True}, id="provable", marks=pytest.mark.slow),
        pytest.param({"pulls_per_item": 4}, id="batches", marks=pytest.mark.slow),
        pytest.param({"confidence": jr.Mixture()}, id="mixture", marks=pytest.mark.slow),
    ],
)
def test_tracked_and_bisected_bounds_make_the_same_pulls(options, key, experiment_1):
    """The short form that stands beside Algorithm 1, and the fast one, pull by pull in 64 bit.

    In 32 bit some rounds are decided by the last bits of two bounds, in which the two forms may differ; there, the test
    above holds every choice of the fast form to bisection.
    """
    settings = {"num_items": 15, "boundaries": (3, 12), "delta": 0.1, "epsilon": 0.2, **options}
    with enable_x64(True):
        arms = jr.BernoulliArms(means=np.asarray(experiment_1, float))
        tracked, bisected = (
            jr.simulate(key, jr.LUCBRank(**settings, bounds=bounds), arms, num_trials=40)
            for bounds in ("tracked", "bisection")
        )
    np.testing.assert_array_equal(tracked.pulls, bisected.pulls)
    np.testing.assert_array_equal(tracked.order, bisected.order)


SIX = {"num_items": 6, "boundaries": jr.complete(), "epsilon": 0.15, "alpha": 1.5, "delta": 0.01}
NEIGHBOURS = {"num_items": 40, "boundaries": (5, 6, 7, 8), "epsilon": 0.1, "delta": 1e-6, "variant": "provable"}
COINCIDING = {
    "six in full order": (SIX, jr.BernoulliArms(means=np.array([0.95, 0.8, 0.6, 0.4, 0.15, 0.02])), 60),
    "small tiers": (
        {"num_items": 9, "boundaries": (2, 3, 4), "epsilon": 0.1, "delta": 0.1},
        jr.BernoulliArms(means=np.linspace(0.9, 0.1, 9)),
        2_000,
    ),
    "pentiles": (
        {"num_items": 20, "boundaries": jr.quantiles(5), "epsilon": 0.05, "delta": 0.1},
        jr.Duels.btl(np.linspace(3, 0, 20)),
        2_000,
    ),
    "neighbouring boundaries": (NEIGHBOURS, jr.BernoulliArms(means=np.linspace(1, 0, 40)), 2_000),
    "Poisson": (
        {"num_items": 6, "boundaries": (2, 3, 4), "epsilon": 0.1, "delta": 0.1, "family": jr.Poisson()},
        jr.PoissonArms(means=np.linspace(3, 0.1, 6)),
        1_000,
    ),
}


@pytest.mark.once
@pytest.mark.slow
@pytest.mark.parametrize("name", COINCIDING)
def test_tracked_bounds_where_critical_items_coincide(name, key):
    """An item that is critical at several boundaries has several answers in a round, and its bounds move further."""
    settings, environment, most = COINCIDING[name]
    precisions = (True, False) if most < 100 else (True,)
    for wide in precisions:
        with enable_x64(wide):
            tracked, bisected = (
                jr.simulate(key, jr.LUCBRank(**settings, bounds=bounds), environment, 500, max_samples=most).pulls
                for bounds in ("tracked", "bisection")
            )
        assert (tracked != bisected).any(axis=-1).sum() == 0


def hand_state(pulls, sums, priority, algorithm, rounds):
    """The state that `tell` computes from given counts: one more answer to item 0 completes them."""
    sums, pulls = np.asarray(sums, float), np.asarray(pulls)
    state = algorithm.init(jax.random.key(0))
    before = state.tally._replace(
        pulls=jnp.asarray(pulls - (np.arange(len(pulls)) == 0)),
        sums=jnp.asarray(sums - (np.arange(len(sums)) == 0), float),
    )
    threshold = algorithm.threshold(before, jnp.asarray(rounds - 1))
    state = state._replace(
        tally=before,
        rank=ranks.ranks(before.means, jnp.asarray(priority, state.priority.dtype)),
        priority=jnp.asarray(priority, state.priority.dtype),
        rounds=jnp.asarray(rounds - 1),
        bounds=Bounds(
            lower=jr.kl_lower(before.means, before.pulls, threshold),
            upper=jr.kl_upper(before.means, before.pulls, threshold),
            threshold=threshold,
        ),
    )
    width = 2 * len(algorithm.boundaries) * algorithm.pulls_per_item
    query = jr.Query(
        item=jnp.zeros(width, state.rank.dtype),
        opponent=jnp.full(width, jr.ANYONE, state.rank.dtype),
        mask=jnp.arange(width) == 0,
    )
    return algorithm.tell(state, query, jnp.ones(width))


def test_a_round_by_hand():
    """Four items, boundaries (1, 3); means .9 .6 .5 .1 after 10, 10, 40 and 10 pulls.

    Boundary 1: above it only item 0. Below it items 1 (10 pulls) and 2 (40 pulls) have the larger upper bounds;
    item 1 has both the larger mean and the wider interval. Boundary 2 (kappa = 3): below only item 3; above it the
    least lower bound is item 1's: at the same threshold 10 pulls at .6 reach further down than 40 pulls at .5.
    """
    algorithm = jr.LUCBRank(num_items=4, boundaries=(1, 3), delta=0.1)
    state = hand_state([10, 10, 40, 10], [9, 6, 20, 1], [0, 1, 2, 3], algorithm, rounds=30)
    np.testing.assert_array_equal(state.rank, [0, 1, 2, 3])
    np.testing.assert_array_equal(algorithm.order(state), [0, 1, 2, 3])
    np.testing.assert_array_equal(algorithm.clusters(state), [0, 1, 1, 2])
    np.testing.assert_array_equal(state.critical, [[0, 1], [1, 3]])
    assert state.active.all()
    x = np.log((1 + 2 * np.e / 0.1 + 4 * np.e / 0.01) * 4 * 30**1.1 / 0.1)
    expected = reference.bernoulli_bounds(np.array([0.9, 0.6, 0.5, 0.1]), np.array([10, 10, 40, 10]), x + np.log(x))
    np.testing.assert_allclose(state.bounds.lower, expected[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(state.bounds.upper, expected[1], rtol=1e-4, atol=1e-6)
    query = algorithm.ask(jax.random.key(0), state)
    np.testing.assert_array_equal(query.item, [0, 1, 1, 3])
    assert query.mask.all()
    once = jr.LUCBRank(num_items=4, boundaries=(1, 3), delta=0.1, sample_once=True)
    query = once.ask(jax.random.key(0), state)
    np.testing.assert_array_equal(query.mask, [True, True, False, True])
    many = jr.LUCBRank(num_items=4, boundaries=(1, 3), delta=0.1, pulls_per_item=3)
    query = many.ask(jax.random.key(0), state)
    np.testing.assert_array_equal(query.item, np.repeat([0, 1, 1, 3], 3))


def test_ties_are_broken_by_priority_not_by_index():
    algorithm = jr.LUCBRank(num_items=4, boundaries=(2,), delta=0.1)
    state = hand_state([5, 5, 5, 5], [2, 2, 2, 2], [3, 1, 0, 2], algorithm, rounds=9)
    np.testing.assert_array_equal(algorithm.order(state), [2, 1, 3, 0])
    np.testing.assert_array_equal(state.critical, [[2, 3]])


def test_settled_boundaries_stay_settled_only_in_the_literal_variant():
    counts = {
        "pulls": [10**4] * 3 + [50],
        "sums": [9000, 5000, 4000, 20],
        "priority": [0, 1, 2, 3],
        "rounds": 50,
    }
    literal = jr.LUCBRank(num_items=4, boundaries=(1, 2), delta=0.1)
    state = hand_state(**counts, algorithm=literal)
    np.testing.assert_array_equal(state.active, [False, True])
    no_questions = jr.Query(*(leaf[:4] for leaf in (jnp.zeros(4, int), jnp.full(4, -1), jnp.zeros(4, bool))))
    settled = state._replace(active=jnp.array([False, False]))
    for variant, expected in [("literal", [False, False]), ("provable", [False, True])]:
        algorithm = jr.LUCBRank(num_items=4, boundaries=(1, 2), delta=0.1, variant=variant)
        np.testing.assert_array_equal(algorithm.tell(settled, no_questions, jnp.zeros(4)).active, expected)


def test_opening_asks_every_item_once_and_nothing_is_settled_before_a_round(key):
    """Even with a tolerance wider than any interval, Algorithm 1 samples one round before it looks."""
    algorithm = jr.LUCBRank(num_items=5, boundaries=(2,), delta=0.1, epsilon=2.0)
    result = jr.run(key, algorithm, jr.BernoulliArms(means=jnp.linspace(0.9, 0.1, 5)))
    assert bool(result.done)
    assert int(result.samples) == 5 + 2
    assert int(result.rounds) == 2
    assert int(result.pulls.min()) == 1


def test_many_pulls_per_round_keep_the_guarantee_by_a_larger_k1(key, experiment_1):
    plain = jr.LUCBRank(num_items=15, boundaries=(3, 12), delta=0.1, epsilon=0.15)
    batched = jr.LUCBRank(num_items=15, boundaries=(3, 12), delta=0.1, epsilon=0.15, pulls_per_item=16)
    arms = jr.BernoulliArms(means=experiment_1)
    one, many = (jr.simulate(key, a, arms, num_trials=16) for a in (plain, batched))
    assert one.done.all()
    assert many.done.all()
    assert not np.asarray(jr.metrics.mistakes(many.order, experiment_1, (3, 12), epsilon=0.15)).any()
    # A sixteenth of the rounds or so, at about the same number of samples (20% is four standard errors here).
    assert many.rounds.mean() < one.rounds.mean() / 12
    assert many.samples.mean() == pytest.approx(one.samples.mean(), rel=0.2)
