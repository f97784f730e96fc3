"""Does the model fit? Deviance against a saturated model, bootstrap, and (from `residuals`) infit and held-out loss."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxrank.core import checks
from jaxrank.core.boundaries import Boundaries, cut_points
from jaxrank.core.precision import enable_x64
from jaxrank.data.comparisons import Comparisons
from jaxrank.fitting.fit import btl_scores_of_many
from jaxrank.fitting.residuals import Infit, Raters, infit_by_item, infit_by_rater, log_loss, raters
from jaxrank.fitting.result import Fit
from jaxrank.stats.links import LINKS

__all__ = [
    "Bootstrap",
    "Goodness",
    "Infit",
    "Raters",
    "bootstrap",
    "caveats",
    "goodness_of_fit",
    "infit_by_item",
    "infit_by_rater",
    "log_loss",
    "noise_share",
    "raters",
]


class Goodness(NamedTuple):
    """How far the answers are from the model, and how often the model itself gives answers that far off.

    Attributes:
      deviance: twice the log-likelihood that a model with a free probability for every pair gains over the fit.
      degrees_of_freedom: number of pairs compared, minus items, plus groups of items that never met.
      p_value: share of data sets drawn from the fitted model whose deviance is at least as large, counting the answers
        themselves as one: never below 1 / (num_samples + 1). NaN without degrees of freedom, where every model fits.
      num_samples: number of data sets drawn.
      ties: number of answers that are ties. They count as half answers, which vary less than the model's answers, so
        that the p-value is too high.

    Example:
      >>> fit = jr.fit_btl(jr.Comparisons.from_pairs([0, 1, 1, 2], [1, 0, 2, 1]))
      >>> print(jr.diagnostics.goodness_of_fit(fit))
      no degrees of freedom: nothing to test the model by
    """

    deviance: float
    degrees_of_freedom: int
    p_value: float
    num_samples: int
    ties: float

    def __str__(self) -> str:
        """Say the outcome of the test in a sentence."""
        if self.degrees_of_freedom <= 0:
            return "no degrees of freedom: nothing to test the model by"
        least = self.p_value <= 1 / (self.num_samples + 1)
        text = (
            f"deviance {self.deviance:,.1f} on {self.degrees_of_freedom} degrees of freedom, "
            f"p {'<=' if least else '='} {self.p_value:.2g} by {self.num_samples} simulated data sets"
        )
        return text + (f"; {self.ties:,.0f} ties make p too high" if self.ties else "")


class Bootstrap(NamedTuple):
    """Scores of resampled answers.

    Attributes:
      scores: centred scores (N, K) of the N resamples whose scores exist, in the units of the fit's scale.
      failed: number of resamples without finite scores, such as those in which some item never lost.

    Example:
      >>> fit = jr.fit_btl(jr.Comparisons.from_matrix([[0, 30], [10, 0]]))
      >>> found = jr.diagnostics.bootstrap(fit, num_samples=20)
      >>> found.scores.shape, found.failed
      ((20, 2), 0)
    """

    scores: Float[np.ndarray, "N K"]
    failed: int


def _deviance(wins: Float[np.ndarray, "*N K K"], chance: Float[np.ndarray, "*N K K"]) -> Float[np.ndarray, "*N"]:
    """Deviance of matrices of wins, given the matrices of probabilities."""
    total = wins + np.swapaxes(wins, -1, -2)
    share = np.where(total > 0, wins / np.maximum(total, 1e-300), 1)
    return 2 * np.where(wins > 0, wins * np.log(np.where(wins > 0, share / chance, 1)), 0).sum((-2, -1))


def goodness_of_fit(fit: Fit, *, seed: int = 0, num_samples: int = 200) -> Goodness:
    """Test the fit against a model that has a free probability for every pair.

    The distribution of the deviance is found by simulation from the fit (parametric bootstrap): with few answers per
    pair, the usual chi-squared approximation does not hold. Where the number of answers of a pair is not whole, it is
    rounded up for the simulation.

    Args:
      fit: the fit. Memory grows with num_samples times K^2.
      seed: for NumPy's random generator; the same seed gives the same p-value.
      num_samples: number of data sets drawn from the fit.

    Returns:
      Deviance, degrees of freedom and p-value.

    Example:
      >>> fit = jr.fit_btl(jr.Comparisons.from_matrix([[0, 9, 1], [1, 0, 9], [9, 1, 0]]))  # rock, scissors, paper
      >>> print(jr.diagnostics.goodness_of_fit(fit, num_samples=50))
      deviance 22.1 on 1 degrees of freedom, p <= 0.02 by 50 simulated data sets
    """
    num_samples = checks.whole("num_samples", num_samples, low=1)
    wins = fit.comparisons.matrix()
    groups = len(fit.connectivity.groups) + len(fit.connectivity.never_compared)
    freedom = int((np.triu(wins + wins.T, 1) > 0).sum()) - fit.comparisons.num_items + groups
    with enable_x64(True):
        scores = jnp.asarray(fit.centred_scores)
        chance = np.asarray(LINKS[fit.model].probability(scores[:, None] - scores[None]))
    met = np.triu(wins + wins.T, 1)
    observed = float(_deviance(wins, chance))
    if freedom <= 0:
        return Goodness(observed, freedom, float("nan"), 0, fit.comparisons.ties)
    rng = np.random.default_rng(seed)
    upper = rng.binomial(np.ceil(met).astype(np.int64), chance, (num_samples, *met.shape)).astype(float)
    drawn = upper + np.swapaxes(np.ceil(met) - upper, 1, 2) * np.tril(np.ones_like(met), -1)
    fitted = _fit_many(fit, drawn)
    with enable_x64(True):
        gaps = jnp.asarray(fitted[:, :, None] - fitted[:, None])
        chances = np.asarray(LINKS[fit.model].probability(gaps))
    simulated = _deviance(drawn, np.clip(chances, 1e-300, 1))
    share = (1 + (simulated >= observed).sum()) / (1 + num_samples)
    return Goodness(observed, freedom, float(share), num_samples, fit.comparisons.ties)


def _fit_many(fit: Fit, wins: Float[np.ndarray, "N K K"]) -> Float[np.ndarray, "N K"]:
    """Scores of many tables; a weak prior keeps scores finite that do not exist, and hardly moves the others."""
    with enable_x64(True):
        start = jnp.broadcast_to(jnp.asarray(fit.centred_scores), wins.shape[:2])
        prior = max(fit.prior, 1e-6)
        found = btl_scores_of_many(jnp.asarray(wins), start, prior=prior, tolerance=1e-6, link=LINKS[fit.model])
        return np.asarray(found.scores)


def bootstrap(fit: Fit, *, seed: int = 0, num_samples: int = 200) -> Bootstrap:
    """Fit the model again to answers drawn from those given, with replacement.

    The spread of the scores estimates their standard errors without assuming that the model is right.

    Args:
      fit: the fit. Memory grows with num_samples times K^2.
      seed: for NumPy's random generator; the same seed gives the same resamples.
      num_samples: number of resamples.

    Returns:
      Scores of the resamples, and how many had none.

    Example:
      >>> fit = jr.fit_btl(jr.Comparisons.from_matrix([[0, 300], [100, 0]]))
      >>> found = jr.diagnostics.bootstrap(fit, num_samples=200)
      >>> print(found.scores.std(axis=0).round(2), fit.standard_errors.round(2))
      [0.06 0.06] [0.06 0.06]
    """
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


def noise_share(fit: Fit) -> float:
    """Estimate which share of the spread of the scores is noise: mean squared standard error over their variance.

    With much noise the scores are further apart than the items are, and a plan based on them underestimates the cost.

    Args:
      fit: what `fit_btl` or `fit_thurstone` gave.

    Returns:
      A number between 0 and 1; 0 if there are too many items for standard errors.

    Example:
      >>> fit = jr.fit_btl(jr.Comparisons.from_matrix([[0, 3, 4], [1, 0, 3], [1, 1, 0]]))
      >>> round(jr.diagnostics.noise_share(fit), 2)
      0.41
    """
    if not fit.has_standard_errors:
        return 0.0
    return float(min(np.mean(fit.standard_errors**2) / np.var(fit.scores, ddof=1), 1.0))


def caveats(
    fit: Fit, boundaries: Boundaries | None = None, *, goodness: Goodness | None = None, level: float = 0.95
) -> list[str]:
    """List what to keep in mind when reading a fit, in plain words.

    Args:
      fit: what `fit_btl` or `fit_thurstone` gave.
      boundaries: where tiers end, as for `LUCBRank`; None says nothing about tiers.
      goodness: result of `goodness_of_fit`; None says nothing about how well the model fits.
      level: level of the intervals that decide whether a boundary is settled.

    Returns:
      Sentences; none if there is nothing to say.

    Example:
      >>> fit = jr.fit_btl(jr.Comparisons.from_matrix([[0, 30], [10, 0]]))
      >>> jr.diagnostics.caveats(fit, (1,))
      []
    """
    warnings = []
    if not fit.converged:
        warnings.append(f"the fit did not converge: scores may be off by {fit.error:.2g} or more")
    report = fit.connectivity
    if not report.scores_exist:
        warnings.append(f"{report.explain(fit.labels)}: only the prior keeps their scores finite")
    if len(report.groups) > 1:
        warnings.append(
            "groups that never met cannot be compared: intervals are relative to the mean of an item's own group; fit "
            "only the largest group (largest_group)"
        )
    if goodness is not None and goodness.p_value < 0.01:
        warnings.append(
            f"the model does not fit well ({goodness}): read scores with care, and see infit for the items it explains "
            "worst"
        )
    per_item = 2 * fit.comparisons.total / len(fit.labels)
    if per_item < 20:
        warnings.append(f"only {per_item:.1f} answers per item: most tiers will be uncertain")
    if boundaries is None or not fit.has_standard_errors:
        return warnings
    intervals = fit.intervals(level)
    for point in cut_points(len(fit.labels), boundaries):
        above, below = fit.order[point - 1], fit.order[point]
        if intervals[above, 0] < intervals[below, 1]:
            unsure = int(((intervals[:, 0] < fit.scores[above]) & (intervals[:, 1] > fit.scores[below])).sum())
            warnings.append(
                f"the boundary after rank {point} is not settled: {unsure} items' intervals reach across it"
            )
    return warnings
