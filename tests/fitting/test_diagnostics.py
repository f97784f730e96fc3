import numpy as np
import pytest

import jaxrank as jr
from jaxrank.fitting import diagnostics

pytestmark = pytest.mark.once


def sample(rng, chance, rows):
    """Answers between random pairs, item a beating item b with probability chance[a, b]."""
    count = len(chance)
    left = rng.integers(0, count, rows)
    right = (left + rng.integers(1, count, rows)) % count
    won = rng.random(rows) < chance[left, right]
    return np.where(won, left, right), np.where(won, right, left)


def btl_chance(scores):
    return 1 / (1 + np.exp(scores[None] - scores[:, None]))


def cyclic_chance(count):
    """Each item beats the next few on a ring: no scores explain it."""
    gap = (np.arange(count)[None] - np.arange(count)[:, None]) % count
    return np.where(gap == 0, 0.5, np.where(gap <= count // 2, 0.8, 0.2))


@pytest.fixture(scope="module")
def good():
    rng = np.random.default_rng(0)
    return jr.fit_btl(jr.Comparisons.from_pairs(*sample(rng, btl_chance(np.linspace(1, -1, 9)), 1_500)))


def test_goodness_of_fit_tells_a_right_model_from_a_wrong_one(good):
    right = diagnostics.goodness_of_fit(good, num_samples=99)
    assert right.degrees_of_freedom == 36 - 9 + 1
    # Under the model the p-value is uniform: below .01 in one of a hundred seeds.
    assert right.p_value > 0.01
    rng = np.random.default_rng(1)
    wrong = jr.fit_btl(jr.Comparisons.from_pairs(*sample(rng, cyclic_chance(9), 1_500)))
    verdict = diagnostics.goodness_of_fit(wrong, num_samples=99)
    assert verdict.p_value == 0.01
    assert verdict.deviance > 5 * right.deviance


def test_deviance_by_hand():
    """Three pairs, 4 answers each; the fit gives .5 throughout by symmetry, the saturated model 3/4 for each."""
    fit = jr.fit_btl(jr.Comparisons.from_matrix([[0, 3, 1], [1, 0, 3], [3, 1, 0]]))
    np.testing.assert_allclose(fit.scores, 0, atol=1e-9)
    expected = 3 * 2 * (3 * np.log(0.75 / 0.5) + np.log(0.25 / 0.5))
    assert diagnostics.goodness_of_fit(fit, num_samples=5).deviance == pytest.approx(expected)


def test_infit_is_near_one_and_finds_a_careless_rater(good):
    by_item = diagnostics.infit_by_item(good)
    # About 330 answers each: the spread of infit is near sqrt(2 / 330) = .08.
    assert (abs(by_item.values - 1) < 0.35).all()
    assert by_item.answers.sum() == 2 * good.comparisons.total
    rng = np.random.default_rng(2)
    careful = sample(rng, btl_chance(np.linspace(3, -3, 9)), 2_000)
    careless = sample(rng, np.full((9, 9), 0.5), 200)
    winners, losers = (np.concatenate(parts) for parts in zip(careful, careless, strict=True))
    data = jr.Comparisons.from_pairs(winners, losers, raters=["careful"] * 2_000 + ["careless"] * 200)
    by_rater = diagnostics.infit_by_rater(jr.fit_btl(data))
    assert by_rater.labels == ("careful", "careless")
    assert by_rater.values[0] < 1.1
    assert by_rater.values[1] > 1.5
    assert by_rater.answers.tolist() == [2_000, 200]
    with pytest.raises(ValueError, match="infit_by_rater needs answers with a rater column"):
        diagnostics.infit_by_rater(good)


def test_held_out_loss(good):
    train, test = good.comparisons.split(0)
    loss = diagnostics.log_loss(jr.fit_btl(train), test)
    assert loss < np.log(2)
    two = jr.fit_btl(jr.Comparisons.from_matrix([[0, 3], [1, 0]]))
    again = jr.Comparisons.from_pairs([0, 1], [1, 0])
    assert diagnostics.log_loss(two, again) == pytest.approx(-(np.log(0.75) + np.log(0.25)) / 2)
    with pytest.raises(ValueError, match=r"test must be about items of the fit, got \['2'\]"):
        diagnostics.log_loss(two, jr.Comparisons.from_pairs([0], [2]))


def test_bootstrap_spread_is_that_of_the_standard_errors(good):
    """200 resamples: their spread is known to 5%, and the two estimates agree to a few per cent at 1,500 answers."""
    resampled = diagnostics.bootstrap(good, num_samples=200)
    assert resampled.failed == 0
    ratio = resampled.scores.std(axis=0) / good.standard_errors
    assert (abs(ratio - 1) < 0.25).all()
    thin = jr.fit_btl(jr.Comparisons.from_matrix([[0, 3, 2], [1, 0, 1], [1, 1, 0]]))
    some = diagnostics.bootstrap(thin, num_samples=50)
    assert some.failed > 0
    assert len(some.scores) == 50 - some.failed
    assert np.isfinite(some.scores).all()


def test_goodness_says_where_it_has_nothing_to_say():
    chain = jr.fit_btl(jr.Comparisons.from_pairs([0, 1, 1, 2], [1, 0, 2, 1]))
    nothing = diagnostics.goodness_of_fit(chain)
    assert nothing.degrees_of_freedom == 0
    assert np.isnan(nothing.p_value)
    assert str(nothing) == "no degrees of freedom: nothing to test the model by"
    rng = np.random.default_rng(1)
    wrong = jr.fit_btl(jr.Comparisons.from_pairs(*sample(rng, cyclic_chance(9), 1_500)))
    assert "p <= 0.01 by 99 simulated data sets" in str(diagnostics.goodness_of_fit(wrong, num_samples=99))
    rows = [("a", "b", "left"), ("b", "c", "left"), ("c", "a", "left"), ("a", "c", "tie"), ("a", "b", "tie")]
    ties = jr.Comparisons.from_records([dict(zip(("left", "right", "winner"), row, strict=True)) for row in rows])
    assert ties.ties == 2
    assert str(diagnostics.goodness_of_fit(jr.fit_btl(ties))).endswith("; 2 ties make p too high")


def test_raters_by_hand():
    """Scores rank a over b over c; x always agrees, y never."""
    rows = [("a", "b", "x")] * 9 + [("b", "c", "x")] * 9 + [("b", "a", "y"), ("c", "b", "y")]
    records = [{"winner": w, "loser": other, "rater": rater} for w, other, rater in rows]
    found = diagnostics.raters(jr.fit_btl(jr.Comparisons.from_records(records)))
    assert found.labels == ("x", "y")
    np.testing.assert_array_equal(found.answers, [18, 2])
    np.testing.assert_array_equal(found.agreement, [1, 0])
    assert found.infit[0] < 1 < found.infit[1]
