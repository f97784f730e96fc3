import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import jaxrank as jr

DRAWS = 200_000


def ask(item, opponent=jr.ANYONE, count=DRAWS):
    return jr.Query(item=jnp.full(count, item), opponent=jnp.full(count, opponent), mask=jnp.ones(count, bool))


@pytest.mark.parametrize(
    ("arms", "variance"),
    [
        (jr.BernoulliArms(means=np.array([0.1, 0.7])), 0.7 * 0.3),
        (jr.GaussianArms(means=np.array([0.1, 0.7]), sigma=2.0), 4.0),
        (jr.PoissonArms(means=np.array([0.1, 0.7])), 0.7),
        (jr.ExponentialArms(means=np.array([0.1, 0.7])), 0.49),
    ],
)
def test_arms_have_the_mean_and_variance_they_claim(key, arms, variance):
    reward = np.asarray(jax.jit(arms.draw)(key, ask(1)), float)
    # Five standard errors of the mean; the variance's is at most a few per cent here.
    assert abs(reward.mean() - 0.7) < 5 * np.sqrt(variance / DRAWS)
    assert reward.var() == pytest.approx(variance, rel=0.05)
    assert arms.num_items == 2


MATRIX = np.array([[0.5, 0.9, 0.8, 0.6], [0.1, 0.5, 0.3, 0.7], [0.2, 0.7, 0.5, 0.55], [0.4, 0.3, 0.45, 0.5]])


def test_a_duel_with_anyone_has_the_borda_score_as_its_mean(key):
    duels = jr.Duels(probabilities=MATRIX)
    borda = (MATRIX.sum(axis=1) - 0.5) / 3
    np.testing.assert_allclose(jr.borda_scores(MATRIX), borda, rtol=1e-5)
    np.testing.assert_allclose(duels.means, borda, rtol=1e-5)
    for item in range(4):
        won = np.asarray(jax.jit(duels.draw)(jax.random.fold_in(key, item), ask(item)))
        assert set(np.unique(won)) <= {0.0, 1.0}
        assert abs(won.mean(dtype=float) - borda[item]) < 5 * np.sqrt(0.25 / DRAWS)


def test_a_duel_with_a_named_opponent(key):
    duels = jr.Duels(probabilities=MATRIX)
    won = np.asarray(jax.jit(duels.draw)(key, ask(0, opponent=3)))
    assert abs(won.mean(dtype=float) - 0.6) < 5 * np.sqrt(0.24 / DRAWS)


def test_every_other_item_is_met_equally_often(key):
    """Who was met shows in a matrix where item 1 beats exactly one other item for sure."""
    for met in (0, 2, 3, 4):
        matrix = np.full((5, 5), 0.5)
        matrix[1, :], matrix[:, 1] = 0.0, 1.0
        matrix[1, met], matrix[met, 1] = 1.0, 0.0
        won = np.asarray(jax.jit(jr.Duels(probabilities=matrix).draw)(key, ask(1)))
        assert abs(won.mean(dtype=float) - 0.25) < 5 * np.sqrt(0.1875 / DRAWS)


def test_score_models_are_the_matrices_they_stand_for():
    scores = np.array([0.3, -1.0, 2.0])
    gap = scores[:, None] - scores[None, :]
    everyone = np.arange(3)
    grid = tuple(jnp.asarray(g) for g in np.meshgrid(everyone, everyone, indexing="ij"))
    np.testing.assert_allclose(jr.Duels.btl(scores).win_probability(*grid), 1 / (1 + np.exp(-gap)), rtol=1e-5)
    thurstone = jr.Duels.thurstone(scores, sigma=0.5).win_probability(*grid)
    np.testing.assert_allclose(thurstone, norm.cdf(gap / (np.sqrt(2) * 0.5)), rtol=1e-4)
    permutation = jr.Duels.noisy_permutation(order=[2, 0, 1], error=0.2)
    expected = np.array([[0.5, 0.8, 0.2], [0.2, 0.5, 0.2], [0.8, 0.8, 0.5]])
    np.testing.assert_allclose(permutation.win_probability(*grid), expected, rtol=1e-6)
    # Neighbours in the permutation are (1 - 2 error) / (K - 1) apart in Borda score.
    assert float(permutation.means[2] - permutation.means[0]) == pytest.approx(0.6 / 2, rel=1e-5)


def test_btl_and_its_matrix_answer_alike(key):
    scores = np.linspace(-1, 1, 7)
    matrix = 1 / (1 + np.exp(scores[None, :] - scores[:, None]))
    query = ask(2, count=1000)
    np.testing.assert_array_equal(
        jr.Duels.btl(scores).draw(key, query), jr.Duels(probabilities=matrix).draw(key, query)
    )


def test_experiment_1_is_the_papers(experiment_1):
    np.testing.assert_allclose(jr.paper.EXPERIMENT_1, experiment_1, rtol=1e-6)
    assert len(jr.paper.EXPERIMENT_1) == 15
    assert jr.paper.EXPERIMENT_1_BOUNDARIES == (3, 12)
