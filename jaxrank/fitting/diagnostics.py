"""Does the model fit? Deviance against a saturated model, residuals by item and by rater, held-out loss, bootstrap."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrank.core import checks
from jaxrank.data.comparisons import Comparisons
from jaxrank.fitting.fit import btl_scores_of_many
from jaxrank.fitting.result import Fit
from jaxrank.stats.links import LINKS


class Goodness(NamedTuple):
    """How far the answers are from the model, and how often the model itself gives answers that far off."""

    deviance: float
    """Twice the log-likelihood that a model with a probability of its own for every pair gains."""
    degrees_of_freedom: int
    """Pairs compared, minus items, plus groups of items that never met."""
    p_value: float
    """Share of data sets drawn from the fitted model whose deviance is at least this large, counting the answers
    themselves as one: never below 1 / (num_samples + 1). NaN without degrees of freedom, where every model fits."""
    num_samples: int
    ties: float
    """Answers that are ties. They count as half answers, which vary less than the model's: p is then too high."""

    def __str__(self) -> str:
        """The test in a sentence."""
        if self.degrees_of_freedom <= 0:
            return "no degrees of freedom: nothing to test the model by"
        least = self.p_value <= 1 / (self.num_samples + 1)
        text = (
            f"deviance {self.deviance:,.1f} on {self.degrees_of_freedom} degrees of freedom, "
            f"p {'<=' if least else '='} {self.p_value:.2g} by {self.num_samples} simulated data sets"
        )
        return text + (f"; {self.ties:,.0f} ties make p too high" if self.ties else "")


class Infit(NamedTuple):
    """Squared residuals over their expectation: near 1 under the model, above where answers are noisier."""

    labels: tuple[str, ...]
    values: np.ndarray
    answers: np.ndarray
    """Answers that each value rests on."""


class Bootstrap(NamedTuple):
    """Scores of resampled answers."""

    scores: np.ndarray
    """Samples x items, centred; only of resamples whose scores exist."""
    failed: int
    """Resamples without finite scores, such as those in which some item never lost."""


def _chances(fit: Fit, data: Comparisons) -> np.ndarray:
    """Probability of every answer that was given."""
    with jax.enable_x64(True):
        gap = (fit.scores[data.winners] - fit.scores[data.losers]) / fit.unit
        return np.asarray(LINKS[fit.model].probability(jnp.asarray(gap)))


def _centred(fit: Fit) -> np.ndarray:
    return (fit.scores - fit.scores.mean()) / fit.unit


def _deviance(wins: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """Of matrices of wins, given the matrix of probabilities."""
    total = wins + np.swapaxes(wins, -1, -2)
    share = np.where(total > 0, wins / np.maximum(total, 1e-300), 1)
    return 2 * np.where(wins > 0, wins * np.log(np.where(wins > 0, share / chance, 1)), 0).sum((-2, -1))


def goodness_of_fit(fit: Fit, *, seed: int = 0, num_samples: int = 200) -> Goodness:
    """Compare the fit with a model that has a free probability for every pair.

    The deviance's distribution is found by simulation (parametric bootstrap): with few answers per pair, the usual
    chi-squared approximation does not hold. Answers count as whole numbers; half ones (ties) are rounded up in number.
    """
    num_samples = checks.whole("num_samples", num_samples, low=1)
    wins = fit.comparisons.matrix()
    groups = len(fit.connectivity.groups) + len(fit.connectivity.never_compared)
    freedom = int((np.triu(wins + wins.T, 1) > 0).sum()) - fit.comparisons.num_items + groups
    with jax.enable_x64(True):
        scores = jnp.asarray(_centred(fit))
        chance = np.asarray(LINKS[fit.model].probability(scores[:, None] - scores[None]))
    met = np.triu(wins + wins.T, 1)
    observed = float(_deviance(wins, chance))
    if freedom <= 0:
        return Goodness(observed, freedom, float("nan"), 0, fit.comparisons.ties)
    rng = np.random.default_rng(seed)
    upper = rng.binomial(np.ceil(met).astype(np.int64), chance, (num_samples, *met.shape)).astype(float)
    drawn = upper + np.swapaxes(np.ceil(met) - upper, 1, 2) * np.tril(np.ones_like(met), -1)
    fitted = _fit_many(fit, drawn)
    with jax.enable_x64(True):
        gaps = jnp.asarray(fitted[:, :, None] - fitted[:, None])
        chances = np.asarray(LINKS[fit.model].probability(gaps))
    simulated = _deviance(drawn, np.clip(chances, 1e-300, 1))
    share = (1 + (simulated >= observed).sum()) / (1 + num_samples)
    return Goodness(observed, freedom, float(share), num_samples, fit.comparisons.ties)


def _fit_many(fit: Fit, wins: np.ndarray) -> np.ndarray:
    """Scores of many tables; a faint prior keeps those finite that have none, without moving the others."""
    with jax.enable_x64(True):
        start = jnp.broadcast_to(jnp.asarray(_centred(fit)), wins.shape[:2])
        prior = max(fit.prior, 1e-6)
        found = btl_scores_of_many(jnp.asarray(wins), start, prior=prior, tolerance=1e-6, link=LINKS[fit.model])
        return np.asarray(found.scores)


def infit_by_item(fit: Fit) -> Infit:
    """The items whose duels the model explains badly."""
    data = fit.comparisons
    both = np.concatenate([data.winners, data.losers])
    return _infit(fit, both, data.labels, copies=2)


def infit_by_rater(fit: Fit) -> Infit:
    """The raters whose answers the model explains badly: near 2 for coin flips among clear pairs."""
    data = fit.comparisons
    if data.raters is None:
        raise ValueError("infit_by_rater needs answers with a rater column; these have none")
    return _infit(fit, data.raters, data.rater_labels, copies=1)


class Raters(NamedTuple):
    """What each rater's answers are worth, by the fit to everyone's."""

    labels: tuple[str, ...]
    answers: np.ndarray
    agreement: np.ndarray
    """Share of the answers that the fitted scores would give as well; a tie, or equal scores, count half."""
    infit: np.ndarray


def raters(fit: Fit) -> Raters:
    """How many answers each rater gave, how often the fit agrees, and infit: 1 is usual, higher is noisier."""
    infit = infit_by_rater(fit)
    data, owner = fit.comparisons, np.asarray(fit.comparisons.raters)
    weights = data.row_weights
    gap = fit.scores[data.winners] - fit.scores[data.losers]
    known, agrees = owner >= 0, np.where(gap == 0, 0.5, gap > 0)
    total = np.bincount(owner[known], (weights * agrees)[known], len(infit.labels))
    with np.errstate(invalid="ignore"):
        return Raters(infit.labels, infit.answers, total / infit.answers, infit.values)


def _infit(fit: Fit, owner: np.ndarray, labels: tuple[str, ...], copies: int) -> Infit:
    chance = _chances(fit, fit.comparisons)
    weights = fit.comparisons.row_weights
    known = owner >= 0

    def total(values):
        return np.bincount(owner[known], np.tile(values, copies)[known], len(labels))

    with np.errstate(invalid="ignore"):
        values = total(weights * (1 - chance) ** 2) / total(weights * chance * (1 - chance))
    return Infit(labels, values, total(weights))


def log_loss(fit: Fit, test: Comparisons) -> float:
    """Mean of -log P(answer) over answers that the fit has not seen; a coin has log 2 = .693. Items match by label."""
    checks.require(len(test.winners) > 0, "test", "must hold answers", "none")
    missing = [label for label in test.labels if label not in set(fit.labels)]
    checks.require(not missing, "test", "must be about items of the fit", f"{missing[:3]}")
    place = {label: number for number, label in enumerate(fit.labels)}
    new = np.asarray([place[label] for label in test.labels], int)
    matched = Comparisons.from_pairs(new[test.winners], new[test.losers], test.weights, len(fit.labels))
    return float(np.average(-np.log(np.maximum(_chances(fit, matched), 1e-300)), weights=test.row_weights))


def bootstrap(fit: Fit, *, seed: int = 0, num_samples: int = 200) -> Bootstrap:
    """Fit the model again to answers drawn, with replacement, from those given."""
    num_samples = checks.whole("num_samples", num_samples, low=1)
    data = fit.comparisons
    wins = data.matrix()
    cells = np.flatnonzero(wins)
    count = max(1, round(data.total))
    rng = np.random.default_rng(seed)
    drawn = np.zeros((num_samples, wins.size))
    share = wins.ravel()[cells] / wins.sum()
    drawn[:, cells] = rng.multinomial(count, share, num_samples) * (wins.sum() / count)
    drawn = drawn.reshape(num_samples, *wins.shape)
    if fit.prior == 0:
        exist = np.array([Comparisons.from_matrix(table).connectivity().scores_exist for table in drawn])
        drawn = drawn[exist]
    scores = _fit_many(fit, drawn) if len(drawn) else np.zeros((0, len(wins)))
    return Bootstrap(scores * fit.unit, num_samples - len(drawn))
