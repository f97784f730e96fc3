"""Ranking by BTL likelihood on top of any algorithm that asks duels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank.algorithms.by_likelihood import TOLERANCE

SCORES = np.asarray([2.0, 0.5, 1.2, -0.3, -1.0, 0.1])


def fitted(wins, prior):
    """Scores by a slow Newton method in NumPy."""
    scores = np.zeros(len(wins))
    for _ in range(50):
        chance = 1 / (1 + np.exp(scores[:, None] - scores[None]))
        pull = wins * chance
        weight = (wins + wins.T) * chance * chance.T
        gradient = pull.sum(1) - pull.sum(0) - prior * scores
        curvature = np.diag(weight.sum(1)) - weight + prior * np.eye(len(wins))
        scores = scores + np.linalg.solve(curvature, gradient)
    return scores


def test_answers_are_counted_and_fitted_by_hand(key):
    """Item 2 beats both others twice, items 0 and 1 tie: scores (-s, -s, 2s) by symmetry.

    The gradient for item 2 gives 4 / (1 + e^3s) = 0.2 s.
    """
    algorithm = jr.ByLikelihood(algorithm=jr.Uniform(num_items=3, pairs=True), prior=0.1)
    state = algorithm.init(key)
    for item, opponent, reward in [(2, 0, 1.0), (1, 2, 0.0), (2, 1, 1.0), (0, 2, 0.0), (0, 1, 0.5)]:
        # The second question is masked, so its answer must not count.
        query = jr.Query(jnp.asarray([item, 0]), jnp.asarray([opponent, 1]), jnp.asarray([True, False]))
        state = algorithm.tell(state, query, jnp.asarray([reward, 1.0]))
    assert np.asarray(state.wins).reshape(3, 3).tolist() == [[0, 0.5, 0], [0.5, 0, 0], [2, 2, 0]]
    assert int(algorithm.order(state)[0]) == 2
    scores = np.asarray(algorithm.prepare_order(state).scores)
    assert 4 / (1 + np.exp(3 * scores[2] / 2)) == pytest.approx(0.2 * scores[2] / 2, abs=1e-3)
    np.testing.assert_allclose(scores[:2], -scores[2] / 2, atol=2 * TOLERANCE)


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize(
    "inner",
    [
        jr.Uniform(num_items=6),
        jr.Uniform(num_items=6, pairs=True),
        jr.Quicksort(num_items=6, repeats=None),
        jr.LUCBRank(num_items=6, boundaries=(2,), delta=0.1),
        jr.ActiveRanking(num_items=6, boundaries=(2,), delta=0.1),
    ],
    ids=lambda inner: f"{type(inner).__name__}, asks_pairs {inner.asks_pairs}",
)
def test_every_order_is_that_of_the_likelihood_of_all_duels_so_far(inner):
    """The same trials by hand, each duel written down, fitted apart; lanes must agree at every recorded budget."""
    algorithm, duels = jr.ByLikelihood(algorithm=inner), jr.Duels.btl(SCORES)
    marks = [1, 7, 30, 100, 400]
    runs = jr.simulate(jax.random.key(5), algorithm, duels, 3, max_samples=400, record_at=marks, progress=False)
    ask, tell, draw = jax.jit(algorithm.ask), jax.jit(algorithm.tell), jax.jit(duels.draw)
    for trial in range(3):
        init_key, ask_key, answer_key = jax.random.split(jax.random.fold_in(jax.random.key(5), trial), 3)
        state, wins, turn, position = algorithm.init(init_key), np.zeros((6, 6)), 0, 0
        while position < len(marks):
            query = ask(jax.random.fold_in(ask_key, turn), state)
            query = query._replace(mask=query.mask & (jnp.cumsum(query.mask) <= 400 - int(wins.sum())))
            reward = draw(jax.random.fold_in(answer_key, turn), query)
            state, turn = tell(state, query, reward), turn + 1
            for item, opponent, asked, won in zip(*map(np.asarray, (*query, reward)), strict=True):
                assert item != opponent or not asked
                if asked:
                    wins[(item, opponent) if won else (opponent, item)] += 1
            while position < len(marks) and wins.sum() >= marks[position]:
                ordered = fitted(wins, 0.1)[runs.recorded_orders[trial, position]]
                assert (np.diff(ordered) < 4 * TOLERANCE).all()
                position += 1


def test_the_algorithm_inside_asks_learns_and_stops_as_it_would_alone():
    inner, duels = jr.Quicksort(num_items=6, boundaries=(2,), repeats=5), jr.Duels.btl(SCORES)
    alone = jr.simulate(jax.random.key(2), inner, duels, 20, progress=False)
    runs = jr.simulate(jax.random.key(2), jr.ByLikelihood(algorithm=inner), duels, 20, progress=False)
    for name in ("samples", "rounds", "done", "pulls", "means"):
        np.testing.assert_array_equal(getattr(runs, name), getattr(alone, name))
    assert (runs.order != alone.order).any()


@pytest.mark.once
def test_what_is_remembered_is_where_the_next_fit_starts(key):
    algorithm = jr.ByLikelihood(algorithm=jr.Uniform(num_items=6, pairs=True))
    keys, duels = jax.random.split(key, 4), jr.Duels.btl(SCORES)
    state = algorithm.init(keys)
    for _ in range(30):
        query = algorithm.ask(keys, state)
        state = algorithm.tell(state, query, duels.draw(keys, query))
        keys = jax.random.split(keys[0], 4)
    kept = algorithm.prepare_order(state)
    np.testing.assert_array_equal(algorithm.order(kept), algorithm.order(state))
    # A fit that starts at its end stays there, but for rounding.
    np.testing.assert_allclose(algorithm.prepare_order(kept).scores, kept.scores, rtol=0, atol=1e-6)
    assert np.abs(np.asarray(kept.scores)).max() > 0.5


def test_one_prior_per_instance():
    """A strong prior leaves hardly any scores, and ties at 0 come out at random; a weak one finds the best item."""
    duels = jr.Duels.btl(np.stack([SCORES, SCORES]))
    algorithm = jr.ByLikelihood(algorithm=jr.Uniform(num_items=6, pairs=True), prior=np.asarray([1e-3, 1.0]))
    runs = jr.simulate(jax.random.key(0), algorithm, duels, 8, max_samples=600, progress=False)
    assert runs.order.shape == (2, 8, 6)
    assert (runs.order[..., 0] == 0).all()


def test_bad_input(key):
    inner = jr.Uniform(num_items=6, pairs=True)
    with pytest.raises(ValueError, match="prior must be finite and above 0, got 0"):
        jr.run(key, jr.ByLikelihood(algorithm=inner, prior=0.0), jr.Duels.btl(SCORES), max_samples=10)
    arms = jr.BernoulliArms(means=np.full(6, 0.5))
    with pytest.raises(ValueError, match="environment must answer pair queries"):
        jr.run(key, jr.ByLikelihood(algorithm=inner), arms, max_samples=10)
    with pytest.raises(ValueError, match="max_samples must be given"):
        jr.run(key, jr.ByLikelihood(algorithm=inner), jr.Duels.btl(SCORES))
