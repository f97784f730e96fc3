"""The result of a fit to pairwise answers: scores, their uncertainty, and how they were found."""

import csv
import dataclasses
import functools
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.special import ndtri

from jaxrank.core import checks
from jaxrank.core.atomic_write import atomic_write
from jaxrank.core.precision import enable_x64
from jaxrank.data.comparisons import Comparisons
from jaxrank.data.connectivity import Connectivity
from jaxrank.fitting.likelihood import EdgeList, data_of
from jaxrank.fitting.win_matrix import Scores, WinMatrix
from jaxrank.stats.links import LINKS, Link

Scale = Literal["centred", "lowest", "elo"]
"""Units and zero of scores, see `fit_btl`."""

ELO = 400 / np.log(10)
"""Elo points per unit of a BTL score."""
MAX_COVARIANCE_ITEMS = 3_000
"""Largest number of items for which the covariance is computed: it inverts a matrix of that size."""


class Difference(NamedTuple):
    """How far one item stands above another.

    Attributes:
      value: score of the first item minus score of the second.
      standard_error: of the value; infinite if nothing links the two items.
      low: lower end of the confidence interval.
      high: upper end.

    Example:
      >>> fit = jr.fit_btl(jr.Comparisons.from_matrix([[0, 30], [10, 0]]))
      >>> gap = fit.difference(0, 1)
      >>> round(gap.value, 3), round(gap.standard_error, 3)
      (1.099, 0.365)
    """

    value: float
    standard_error: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Fit:
    """Scores, their uncertainty, and how they were found; made by `fit_btl` and `fit_thurstone`.

    Args:
      scores: one score per item (K,), on the scale asked for.
      labels: name of every item.
      model: "btl" or "thurstone".
      scale: "centred", "lowest" or "elo".
      prior: precision of the Gaussian prior on the scores; 0 is maximum likelihood.
      converged: whether the error is at most the tolerance.
      error: largest change of a (centred) score that a further step would make.
      passes: number of gradients that L-BFGS took.
      newton_steps: number of Newton steps.
      comparisons: the answers.

    Example:
      >>> fit = jr.fit_btl(jr.Comparisons.from_matrix([[0, 30], [10, 0]], labels=["owl", "elk"]))
      >>> [fit.labels[item] for item in fit.order], fit.intervals().round(2).tolist()
      (['owl', 'elk'], [[0.19, 0.91], [-0.91, -0.19]])
      >>> round(fit.win_probability("owl", "elk"), 3)
      0.75
    """

    scores: Float[np.ndarray, "K"]
    labels: tuple[str, ...]
    model: Literal["btl", "thurstone"]
    scale: Scale
    prior: float
    converged: bool
    error: float
    passes: int
    newton_steps: int
    comparisons: Comparisons

    @property
    def solver(self) -> str:
        """Names of the methods that were used."""
        return ", then ".join(["L-BFGS"] * (self.passes > 0) + ["Newton"] * (self.newton_steps > 0))

    @property
    def unit(self) -> float:
        """Points of this scale per unit of the model: a gap in `scores` over this is the gap of the model."""
        return ELO if self.scale == "elo" else 1.0

    @functools.cached_property
    def connectivity(self) -> Connectivity:
        """Which items were never compared, never won or never lost, and which groups never met."""
        return self.comparisons.connectivity()

    @functools.cached_property
    def log_likelihood(self) -> float:
        """Sum of the logarithms of the probabilities of all answers, without the prior."""
        with enable_x64(True):
            return float(_log_likelihood(data_of(self.comparisons), LINKS[self.model], self.centred_scores))

    @property
    def centred_scores(self) -> Float[np.ndarray, "K"]:
        """Scores in the units of the model, with mean 0, whatever the scale."""
        return (self.scores - self.scores.mean()) / self.unit

    @functools.cached_property
    def covariance(self) -> Float[np.ndarray, "K K"]:
        """Covariance of the centred scores, from the answers alone: a prior is not data and reduces no uncertainty.

        It is the inverse of the Fisher information on scores that add up to 0. Where groups of items never met, it is
        the covariance of scores relative to the mean of their group, and infinite between groups.
        """
        count = len(self.labels)
        if not self.has_standard_errors:
            raise ValueError(
                f"standard errors of all items need at most {MAX_COVARIANCE_ITEMS} items, got {count}; "
                "difference(a, b) works for any number"
            )
        with enable_x64(True):
            table = WinMatrix(wins=jnp.asarray(self.comparisons.matrix()))
            information = np.asarray(table.information(LINKS[self.model], jnp.asarray(self.centred_scores)))
        covariance = np.full((count, count), np.inf)
        for group in self.connectivity.groups:
            inside, size = np.ix_(group, group), len(group)
            level = np.trace(information[inside]) / size
            inverse = np.linalg.inv(information[inside] + level / size)
            covariance[inside] = (inverse - 1 / (level * size)) * self.unit**2
        return covariance

    @property
    def has_standard_errors(self) -> bool:
        """Whether there are few enough items for standard errors and intervals of all of them."""
        return len(self.labels) <= MAX_COVARIANCE_ITEMS

    @property
    def standard_errors(self) -> Float[np.ndarray, "K"]:
        """Standard errors of the centred scores; infinite for items that were never compared.

        Where groups of items never met, they are those of scores relative to the mean of their group.
        """
        return np.sqrt(np.maximum(np.diag(self.covariance), 0))

    def intervals(self, level: float = 0.95) -> Float[np.ndarray, "K 2"]:
        """Compute a confidence interval for every score, by the normal approximation.

        Args:
          level: probability, between 0 and 1, that an interval covers its score. It holds for each score by itself,
            not for all at once.

        Returns:
          Lower and upper ends (K, 2).

        Example:
          >>> fit = jr.fit_btl(jr.Comparisons.from_matrix([[0, 30], [10, 0]]))
          >>> fit.intervals(level=0.9).round(2).tolist()
          [[0.25, 0.85], [-0.85, -0.25]]
        """
        reach = _normal_quantile(level) * self.standard_errors
        return np.stack([self.scores - reach, self.scores + reach], axis=1)

    def difference(self, a: int | str, b: int | str, level: float = 0.95) -> Difference:
        """Compute the score of a minus the score of b, with its own interval: the two errors are not independent.

        Args:
          a: number or label of an item.
          b: number or label of another.
          level: probability, between 0 and 1, that the interval covers the difference.

        Returns:
          The difference, its standard error and its interval. With many items, this needs no covariance matrix.

        Example:
          >>> gap = jr.fit_btl(jr.Comparisons.from_matrix([[0, 30], [10, 0]])).difference(0, 1)
          >>> round(gap.value, 2), round(gap.low, 2), round(gap.high, 2)
          (1.1, 0.38, 1.81)
        """
        first, second = self._item(a), self._item(b)
        value = float(self.scores[first] - self.scores[second])
        if self.has_standard_errors:
            c = self.covariance
            met = np.isfinite(c[first, second])
            variance = c[first, first] + c[second, second] - 2 * c[first, second] if met else np.inf
        else:
            met = any(first in group and second in group for group in map(set, self.connectivity.groups))
            variance = self._variance_by_solving(first, second) if met else np.inf
        error = float(np.sqrt(max(variance, 0)))
        reach = _normal_quantile(level) * error
        return Difference(value, error, value - reach, value + reach)

    def _variance_by_solving(self, a: int, b: int) -> float:
        """Variance of a difference without the covariance, where that is too large."""
        with enable_x64(True):
            contrast = np.zeros(len(self.labels))
            contrast[a], contrast[b] = 1, -1
            solved = _solve_curvature(data_of(self.comparisons), LINKS[self.model], self.centred_scores, contrast)
            return float(contrast @ np.asarray(solved)) * self.unit**2

    def win_probability(self, a: int | str, b: int | str) -> float:
        """Compute the probability that a beats b under the fitted model.

        Args:
          a: number or label of an item.
          b: number or label of another.

        Returns:
          The probability.

        Example:
          >>> round(jr.fit_btl(jr.Comparisons.from_matrix([[0, 30], [10, 0]])).win_probability(0, 1), 3)
          0.75
        """
        gap = (self.scores[self._item(a)] - self.scores[self._item(b)]) / self.unit
        return float(LINKS[self.model].probability(jnp.asarray(gap, float)))

    @property
    def order(self) -> Int[np.ndarray, "K"]:
        """Item numbers, best first."""
        return np.argsort(-self.scores, kind="stable")

    def save(self, path: str | Path, *, level: float = 0.95, tiers: Int[np.ndarray, "K"] | None = None) -> None:
        """Write item, score, standard_error, low, high and perhaps tier as CSV, for `jaxrank simulate --scores`.

        Standard errors and intervals that are infinite, or too costly for so many items, are left empty.

        Args:
          path: file to write; an existing one is replaced.
          level: level of the intervals.
          tiers: tier of every item (K,); None leaves the column out.

        Example:
          >>> import pathlib, tempfile
          >>> fit = jr.fit_btl(jr.Comparisons.from_matrix([[0, 30], [10, 0]], labels=["owl", "elk"]))
          >>> with tempfile.TemporaryDirectory() as folder:
          ...     fit.save(pathlib.Path(folder, "scores.csv"))
          ...     print(pathlib.Path(folder, "scores.csv").read_text().split()[0])
          item,score,standard_error,low,high
        """
        columns = [self.labels, self.scores]
        if self.has_standard_errors:
            columns += [self.standard_errors, *self.intervals(level).T]
        else:
            columns += [np.full(len(self.labels), np.inf)] * 3
        names = ["item", "score", "standard_error", "low", "high"]
        if tiers is not None:
            columns, names = [*columns, tiers], [*names, "tier"]
        with atomic_write(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            for row in zip(*columns, strict=True):
                writer.writerow([_cell(value) for value in row])

    def _item(self, name: int | str) -> int:
        """Number of an item, given by number or label."""
        if isinstance(name, str):
            checks.require(name in self.labels, "item", "must be one of the labels", repr(name))
            return self.labels.index(name)
        return checks.whole("item", name, low=0, high=len(self.labels) - 1)


@jax.jit
def _log_likelihood(data: WinMatrix | EdgeList, link: Link, scores: Scores) -> Float[Array, ""]:
    """The method, compiled."""
    return data.log_likelihood(link, scores)


@jax.jit
def _solve_curvature(data: WinMatrix | EdgeList, link: Link, scores: Scores, vector: Scores) -> Scores:
    """`solve` without a prior, compiled; conjugate gradients end at a relative residual of 1e-8."""
    return data.solve(link, scores, vector, jnp.zeros_like(scores[0]), 1e-8)


def _cell(value: Any) -> str:
    """A value as CSV keeps it: all digits of a number, nothing where it is not finite."""
    if isinstance(value, str | np.integer):
        return str(value)
    return repr(float(value)) if np.isfinite(value) else ""


def _normal_quantile(level: float) -> float:
    """Half the width of an interval of this level, in standard errors."""
    checks.probability("level", level)
    return float(ndtri((1 + level) / 2))
