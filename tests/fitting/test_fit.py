from pathlib import Path

import btl_reference
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from btl_reference import answers, comparisons, random_graph

import jaxrank as jr
from jaxrank.core.precision import enable_x64
from jaxrank.fitting import result as fit_room

pytestmark = pytest.mark.once

DATA = Path(__file__).parents[3] / "shared" / "data"


def test_weights_ties_and_repeated_rows_are_the_same_data():
    rng = np.random.default_rng(1)
    winners, losers = answers(rng, np.linspace(1, 0, 6), *random_graph(rng, 6, 200))
    once = jr.fit_btl(jr.Comparisons.from_pairs(winners, losers))
    matrix = jr.Comparisons.from_pairs(winners, losers).matrix()
    np.testing.assert_allclose(jr.fit_btl(jr.Comparisons.from_matrix(matrix)).scores, once.scores, atol=1e-8)
    double = jr.fit_btl(jr.Comparisons.from_pairs(winners, losers, np.full(200, 2.0)))
    np.testing.assert_allclose(double.scores, once.scores, atol=1e-8)
    np.testing.assert_allclose(double.standard_errors, once.standard_errors / np.sqrt(2), rtol=1e-6)
    assert double.log_likelihood == pytest.approx(2 * once.log_likelihood)


def test_scales():
    data = comparisons("random", 10, 300)
    centred, lowest, elo = (jr.fit_btl(data, scale=scale) for scale in ("centred", "lowest", "elo"))
    assert centred.scores.mean() == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(lowest.scores, centred.scores - centred.scores.min())
    np.testing.assert_allclose(elo.scores, 1500 + 400 / np.log(10) * centred.scores)
    np.testing.assert_allclose(elo.standard_errors, 400 / np.log(10) * centred.standard_errors)
    chance = [fit.win_probability(0, 1) for fit in (centred, lowest, elo)]
    np.testing.assert_allclose(chance, 1 / (1 + np.exp(centred.scores[1] - centred.scores[0])), rtol=1e-5)
    assert elo.difference(0, 1).value == pytest.approx(elo.scores[0] - elo.scores[1])


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (([0, 1, 0], [1, 0, 2]), r"do not exist: '2' never won\. .* \(prior\)"),
        (([0, 1, 2], [1, 0, 0]), r"'2' never lost"),
        (([0, 1, 2, 3], [1, 0, 3, 2]), r"2 groups never met: '0', '1' and '2', '3'"),
        (([0, 1, 2, 3, 0], [1, 0, 3, 2, 2]), r"2 groups met, but one won every time"),
    ],
)
def test_scores_that_do_not_exist_are_refused_and_a_prior_makes_them(pairs, message):
    data = jr.Comparisons.from_pairs(*pairs)
    for fit in (jr.fit_btl, jr.fit_thurstone):
        with pytest.raises(ValueError, match=message):
            fit(data)
    kept = jr.fit_btl(data, prior=0.1)
    assert kept.converged
    assert kept.prior == 0.1
    np.testing.assert_allclose(kept.scores, btl_reference.newton_btl(data.matrix(), prior=0.1), atol=1e-8)


def test_bad_arguments():
    data = comparisons("random", 5, 100)
    with pytest.raises(ValueError, match="comparisons must not be empty"):
        jr.fit_btl(jr.Comparisons.from_pairs([], [], num_items=3))
    with pytest.raises(ValueError, match="'2' was never compared"):
        jr.fit_btl(jr.Comparisons.from_pairs([0, 1], [1, 0], num_items=3))
    with pytest.raises(ValueError, match="prior must be finite and at least 0, got -1"):
        jr.fit_btl(data, prior=-1)
    with pytest.raises(ValueError, match="scale must be 'centred', 'lowest' or 'elo', got log"):
        jr.fit_btl(data, scale="log")
    with pytest.raises(ValueError, match="scale must be 'centred' or 'lowest': Elo points are for BTL scores"):
        jr.fit_thurstone(data, scale="elo")
    with pytest.raises(ValueError, match=r"start must be one number for each of the 5 items, got shape \(4,\)"):
        jr.fit_btl(data, start=np.zeros(4))
    with pytest.raises(ValueError, match="item must be one of the labels, got 'x'"):
        jr.fit_btl(data).difference("x", 1)
    with pytest.raises(ValueError, match=r"level must lie in \(0, 1\), got 95"):
        jr.fit_btl(data).intervals(95)


GOOD = np.array([[0.0, 8, 6], [2, 0, 7], [4, 3, 0]])


@pytest.mark.parametrize("prior", [0.0, 0.1])
@pytest.mark.parametrize("start", [[500.0, 0, 0], [-1e6, 1e6, 0], [0, 0, 1e300], [0.1, 0.2, -0.3]])
def test_a_start_that_leads_nowhere_is_dropped(start, prior):
    """From where the likelihood is flat, no step leads back."""
    data = jr.Comparisons.from_matrix(GOOD)
    for fitter in (jr.fit_btl, jr.fit_thurstone):
        expected = fitter(data, prior=prior)
        found = fitter(data, prior=prior, start=start)
        assert found.converged
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-8)
    with enable_x64(True):
        wins, expected = jnp.asarray(GOOD), jr.btl_scores(GOOD, prior=prior)
        np.testing.assert_allclose(jr.btl_scores(wins, prior=prior, start=start), expected, atol=1e-8)
        many = jr.btl_scores_of_many(wins[None], jnp.asarray([start]), prior=prior)
        np.testing.assert_allclose(many.scores[0], expected, atol=1e-4)


def test_a_chain_from_a_start_that_leads_nowhere():
    """Newton's method on a band alone, without L-BFGS before it."""
    chain = np.arange(4_000)
    data = jr.Comparisons.from_pairs([*chain[:-1], *chain[1:]], [*chain[1:], *chain[:-1]])
    found = jr.fit_btl(data, start=np.where(chain == 7, 500.0, 0))
    assert found.converged
    assert found.passes == 0
    np.testing.assert_allclose(found.scores, 0, atol=1e-8)


def test_a_fit_that_does_not_converge_warns():
    with pytest.warns(RuntimeWarning, match=r"the fit did not converge after \d+ gradients .*: scores may be off by"):
        found = jr.fit_btl(jr.Comparisons.from_matrix(GOOD), tolerance=1e-300)
    assert not found.converged
    assert "did not converge" in jr.diagnostics.caveats(found)[0]


def test_standard_errors_by_hand():
    """Two items, a wins and b losses: the gap's information is n p (1-p), and a centred score is half the gap."""
    fit = jr.fit_btl(jr.Comparisons.from_matrix([[0, 30], [10, 0]]))
    gap_error = 1 / np.sqrt(40 * 0.75 * 0.25)
    np.testing.assert_allclose(fit.scores, [np.log(3) / 2, -np.log(3) / 2], atol=1e-9)
    np.testing.assert_allclose(fit.standard_errors, gap_error / 2, rtol=1e-6)
    difference = fit.difference(0, 1)
    assert difference.standard_error == pytest.approx(gap_error)
    assert difference.low == pytest.approx(np.log(3) - 1.959964 * gap_error, rel=1e-6)


def test_a_prior_does_not_make_anything_surer():
    data = comparisons("random", 12, 200)
    plain, firm = jr.fit_btl(data), jr.fit_btl(data, prior=5.0)
    assert (abs(firm.scores) < abs(plain.scores).max()).all()
    assert (firm.standard_errors > 0.8 * plain.standard_errors).all()
    apart = jr.fit_btl(jr.Comparisons.from_pairs([0, 1, 2, 3], [1, 0, 3, 2]), prior=0.1)
    # Two pairs that never met: each item is known relative to its partner, and the pairs not relative to each other.
    pair = jr.fit_btl(jr.Comparisons.from_pairs([0, 1], [1, 0]))
    np.testing.assert_allclose(apart.standard_errors, pair.standard_errors[0])
    assert apart.difference(0, 1).standard_error == pytest.approx(pair.difference(0, 1).standard_error)
    assert np.isinf(apart.difference(0, 2).standard_error)
    alone = jr.fit_btl(jr.Comparisons.from_pairs([0, 1], [1, 0], num_items=3), prior=0.1)
    assert np.isfinite(alone.standard_errors).tolist() == [True, True, False]


def test_difference_by_solving_equals_the_covariance(monkeypatch):
    fit = jr.fit_btl(comparisons("banded", 90, 900))
    exact = fit.difference(3, 60)
    monkeypatch.setattr(fit_room, "MAX_COVARIANCE_ITEMS", 10)
    solved = fit.difference(3, 60)
    assert solved.standard_error == pytest.approx(exact.standard_error, rel=1e-5)
    with pytest.raises(ValueError, match="standard errors of all items need at most 10 items, got 90"):
        _ = jr.fit_btl(comparisons("banded", 90, 900)).standard_errors


def test_thurstone_scores_satisfy_their_equations():
    rng = np.random.default_rng(5)
    data = comparisons("random", 15, 600)
    fit = jr.fit_thurstone(data)
    assert fit.converged
    from scipy.stats import norm

    z = (fit.scores[data.winners] - fit.scores[data.losers]) / np.sqrt(2)
    pull = norm.pdf(z) / norm.cdf(z) / np.sqrt(2)
    balance = np.bincount(data.winners, pull, 15) - np.bincount(data.losers, pull, 15)
    assert abs(balance).max() < 1e-6
    assert fit.log_likelihood == pytest.approx(norm.logcdf(z).sum(), rel=1e-9)
    for _ in range(5):
        other = fit.scores + rng.normal(0, 0.01, 15)
        assert norm.logcdf((other[data.winners] - other[data.losers]) / np.sqrt(2)).sum() < fit.log_likelihood


def test_pure_scores_under_jit_vmap_and_grad():
    rng = np.random.default_rng(2)
    stack = rng.integers(1, 9, (3, 5, 5)) * (1 - np.eye(5))
    with enable_x64(True):
        together = jax.jit(jax.vmap(jr.btl_scores))(jnp.asarray(stack))
        for wins, scores in zip(stack, together, strict=True):
            np.testing.assert_allclose(scores, btl_reference.newton_btl(wins), atol=1e-8)
        wins, prior = jnp.asarray(stack[0]), 0.3
        slope_wins, slope_prior = jax.jit(jax.grad(lambda w, p: jr.btl_scores(w, prior=p)[1] ** 2, argnums=(0, 1)))(
            wins, prior
        )
        step = 1e-5

        def value(wins, prior):
            return btl_reference.newton_btl(wins, prior)[1] ** 2

        bump = np.zeros((5, 5))
        bump[1, 3] = step
        by_wins = (value(stack[0] + bump, prior) - value(stack[0] - bump, prior)) / (2 * step)
        by_prior = (value(stack[0], prior + step) - value(stack[0], prior - step)) / (2 * step)
        assert float(slope_wins[1, 3]) == pytest.approx(by_wins, rel=1e-5)
        assert float(slope_prior) == pytest.approx(by_prior, rel=1e-5)


def test_many_fits_at_once_from_a_start():
    rng = np.random.default_rng(3)
    stack = rng.integers(1, 9, (45, 6, 6)) * (1 - np.eye(6))
    with enable_x64(True):
        cold = jr.btl_scores_of_many(jnp.asarray(stack), tolerance=1e-9)
        warm = jr.btl_scores_of_many(jnp.asarray(stack), cold.scores, tolerance=1e-9)
    cold, warm = jax.device_get((cold, warm))
    assert cold.converged.all()
    assert warm.passes.max() == 1
    for n in (0, 21, 44):
        np.testing.assert_allclose(cold.scores[n], btl_reference.newton_btl(stack[n]), atol=1e-8)


@pytest.mark.slow
def test_intervals_cover():
    """95% intervals over 1,000 data sets of 12 items: each score's within 93-97%, give or take 3 s.e. of .0069."""
    rng = np.random.default_rng(7)
    truth = np.linspace(1, -1, 12)
    inside = np.zeros(12)
    for _ in range(1_000):
        winners, losers = answers(rng, truth, *random_graph(rng, 12, 900))
        low, high = jr.fit_btl(jr.Comparisons.from_pairs(winners, losers, num_items=12)).intervals().T
        inside += (low <= truth) & (truth <= high)
    assert 0.93 <= inside.mean() / 1_000 <= 0.97
    assert (abs(inside / 1_000 - 0.95) < 0.03).all()


needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="needs the data folder beside the project")


@needs_data
def test_street_view_scores_are_recovered():
    """20,000 simulated duels give the scores back: of 100 intervals of 95%, at least 87 (binomial, 3.7 s.d.)."""
    truth = np.loadtxt(DATA / "chicago" / "btl_scores.csv")
    rng = np.random.default_rng(0)
    winners, losers = answers(rng, truth, *random_graph(rng, 100, 20_000))
    fit = jr.fit_btl(jr.Comparisons.from_pairs(winners, losers, num_items=100))
    low, high = fit.intervals().T
    centred = truth - truth.mean()
    assert ((low <= centred) & (centred <= high)).sum() >= 87


@needs_data
@pytest.mark.parametrize("name", ["chicago/wins.csv", "llmfao/llmfao.csv"])
def test_real_data_against_the_reference(name):
    data = jr.Comparisons.read(DATA / name)
    report = data.connectivity()
    prior = 0.0 if report.scores_exist else 0.1
    fit = jr.fit_btl(data, prior=prior)
    np.testing.assert_allclose(fit.scores, btl_reference.newton_btl(data.matrix(), prior), rtol=0, atol=1e-8)


@needs_data
@pytest.mark.parametrize("name", ["chicago/wins.csv", "llmfao/llmfao.csv"])
def test_real_data_against_choix(name):
    choix = pytest.importorskip("choix")
    data = jr.Comparisons.read(DATA / name)
    # Ties are halves: twice as many answers give the same scores, in whole numbers.
    times = np.full(len(data.winners), 2) if data.weights is None else np.round(2 * data.weights).astype(int)
    pairs = np.repeat(np.stack([data.winners, data.losers], axis=1), times, axis=0)
    theirs = choix.ilsr_pairwise(data.num_items, pairs.tolist(), tol=1e-10, max_iter=1_000)
    np.testing.assert_allclose(jr.fit_btl(data).scores, theirs - theirs.mean(), rtol=0, atol=1e-6)
