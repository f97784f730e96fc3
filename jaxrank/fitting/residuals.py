"""How well a fit explains single answers: residuals by item and by rater, and the loss on held-out answers."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from jaxrank.core import checks
from jaxrank.core.precision import enable_x64
from jaxrank.data.comparisons import Comparisons
from jaxrank.fitting.result import Fit
from jaxrank.stats.links import LINKS


class Infit(NamedTuple):
    """Mean square residuals of items or raters, relative to what the model expects.

    With P the probability of each answer that was given, infit is the sum of (1 - P)^2 over the sum of P (1 - P): near
    1 under the model, above 1 where answers are noisier, below 1 where they are more regular.

    Attributes:
      labels: names of the N items or raters.
      values: infit of each (N,); NaN without answers.
      answers: number of answers that each value rests on (N,), by weight.

    Example:
      >>> fit = jr.fit_btl(jr.Comparisons.from_matrix([[0, 3], [1, 0]]))
      >>> jr.diagnostics.infit_by_item(fit).answers.tolist()
      [4.0, 4.0]
    """

    labels: tuple[str, ...]
    values: Float[np.ndarray, "N"]
    answers: Float[np.ndarray, "N"]


class Raters(NamedTuple):
    """How each rater's answers compare with the fit to everyone's.

    Attributes:
      labels: names of the N raters.
      answers: number of answers of each (N,), by weight.
      agreement: share of them that the fitted scores would give as well (N,); a tie, or equal scores, count half.
      infit: relative mean square residual of each (N,), see `Infit`.

    Example:
      >>> data = jr.Comparisons.from_pairs([0, 0, 1], [1, 1, 0], raters=["ann", "ann", "bob"])
      >>> jr.diagnostics.raters(jr.fit_btl(data)).agreement.tolist()
      [1.0, 0.0]
    """

    labels: tuple[str, ...]
    answers: Float[np.ndarray, "N"]
    agreement: Float[np.ndarray, "N"]
    infit: Float[np.ndarray, "N"]


def infit_by_item(fit: Fit) -> Infit:
    """Compute the infit of every item, to find items whose duels the model explains badly.

    Args:
      fit: the fit.

    Returns:
      Infit of the K items; each answer counts for both of its items.

    Example:
      >>> fit = jr.fit_btl(jr.Comparisons.from_matrix([[0, 3], [1, 0]]))
      >>> jr.diagnostics.infit_by_item(fit).values.round(3).tolist()
      [1.0, 1.0]
    """
    data = fit.comparisons
    both = np.concatenate([data.winners, data.losers])
    return _infit(fit, both, data.labels, copies=2)


def infit_by_rater(fit: Fit) -> Infit:
    """Compute the infit of every rater, to find raters whose answers the model explains badly.

    On pairs that the fit decides with probability P, a rater who flips coins has an infit of 1 / (2 P (1 - P)) - 1 on
    average: 2.1 for P = 0.8.

    Args:
      fit: the fit.

    Returns:
      Infit of the raters; answers without a rater count for none.

    Raises:
      ValueError: if the answers have no raters.

    Example:
      >>> data = jr.Comparisons.from_pairs([0, 0, 1], [1, 1, 0], raters=["ann", "ann", "bob"])
      >>> jr.diagnostics.infit_by_rater(jr.fit_btl(data)).values.round(3).tolist()
      [0.5, 2.0]
    """
    data = fit.comparisons
    if data.raters is None:
        raise ValueError("infit_by_rater needs answers with a rater column; these have none")
    return _infit(fit, data.raters, data.rater_labels, copies=1)


def raters(fit: Fit) -> Raters:
    """Compare every rater's answers with the fit to everyone's.

    Args:
      fit: the fit; its answers must have raters.

    Returns:
      Number of answers, agreement with the fit and infit of every rater.

    Raises:
      ValueError: if the answers have no raters.

    Example:
      >>> data = jr.Comparisons.from_pairs([0, 0, 1], [1, 1, 0], raters=["ann", "ann", "bob"])
      >>> found = jr.diagnostics.raters(jr.fit_btl(data))
      >>> found.labels, found.answers.tolist()
      (('ann', 'bob'), [2.0, 1.0])
    """
    infit = infit_by_rater(fit)
    data, owner = fit.comparisons, np.asarray(fit.comparisons.raters)
    weights = data.row_weights
    gap = fit.scores[data.winners] - fit.scores[data.losers]
    known, agrees = owner >= 0, np.where(gap == 0, 0.5, gap > 0)
    total = np.bincount(owner[known], (weights * agrees)[known], len(infit.labels))
    with np.errstate(invalid="ignore"):
        return Raters(infit.labels, infit.answers, total / infit.answers, infit.values)


def log_loss(fit: Fit, test: Comparisons) -> float:
    """Compute the mean of -log P(answer) over answers that the fit has not seen.

    A coin has log 2 = 0.693; lower is better.

    Args:
      fit: the fit.
      test: the held-out answers, such as the second part of `Comparisons.split`. Items are matched by label.

    Returns:
      The mean, weighted by how often each answer was given.

    Raises:
      ValueError: if there are no answers, or some are about items that the fit does not know.

    Example:
      >>> fit = jr.fit_btl(jr.Comparisons.from_matrix([[0, 3], [1, 0]]))
      >>> round(jr.diagnostics.log_loss(fit, jr.Comparisons.from_pairs([0], [1])), 3)  # -log(3 / 4)
      0.288
    """
    checks.require(len(test.winners) > 0, "test", "must hold answers", "none")
    missing = [label for label in test.labels if label not in set(fit.labels)]
    checks.require(not missing, "test", "must be about items of the fit", f"{missing[:3]}")
    place = {label: number for number, label in enumerate(fit.labels)}
    new = np.asarray([place[label] for label in test.labels], int)
    matched = Comparisons.from_pairs(new[test.winners], new[test.losers], test.weights, len(fit.labels))
    return float(np.average(-np.log(np.maximum(_chances(fit, matched), 1e-300)), weights=test.row_weights))


def _chances(fit: Fit, data: Comparisons) -> Float[np.ndarray, "R"]:
    """Probability of every answer that was given."""
    with enable_x64(True):
        gap = (fit.scores[data.winners] - fit.scores[data.losers]) / fit.unit
        return np.asarray(LINKS[fit.model].probability(jnp.asarray(gap)))


def _infit(fit: Fit, owner: Int[np.ndarray, "R"], labels: tuple[str, ...], copies: int) -> Infit:
    """Infit by owner of each row, where the rows are taken as often as `copies` says; -1 is nobody."""
    chance = _chances(fit, fit.comparisons)
    weights = fit.comparisons.row_weights
    known = owner >= 0

    def total(values: Float[np.ndarray, "R"]) -> Float[np.ndarray, "N"]:
        return np.bincount(owner[known], np.tile(values, copies)[known], len(labels))

    with np.errstate(invalid="ignore"):
        values = total(weights * (1 - chance) ** 2) / total(weights * chance * (1 - chance))
    return Infit(labels, values, total(weights))
