"""What a fit of pairwise answers gives: scores, how sure they are, and how they were found."""

import csv
import dataclasses
import functools
from pathlib import Path
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from jaxrank.core import checks
from jaxrank.data.comparisons import Comparisons
from jaxrank.data.connectivity import Connectivity
from jaxrank.fitting.likelihood import WinMatrix, data_of
from jaxrank.stats.links import LINKS

Scale = Literal["centred", "lowest", "elo"]

ELO = 400 / np.log(10)
"""Elo points per unit of a BTL score."""
MOST_FOR_ERRORS = 3_000
"""Items up to which the whole covariance is computed: a matrix of that size is inverted."""


class Difference(NamedTuple):
    """How far one item stands above another."""

    value: float
    standard_error: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Fit:
    """Scores, how sure they are, and how they were found."""

    scores: np.ndarray
    labels: tuple[str, ...]
    model: Literal["btl", "thurstone"]
    scale: Scale
    prior: float
    """Precision of the Gaussian prior on the scores; 0 is maximum likelihood."""
    converged: bool
    error: float
    """Largest change of a (centred) score that a further step would make."""
    passes: int
    newton_steps: int
    comparisons: Comparisons

    @property
    def solver(self) -> str:
        """Which methods were used."""
        return ", then ".join(["L-BFGS"] * (self.passes > 0) + ["Newton"] * (self.newton_steps > 0))

    @property
    def unit(self) -> float:
        """Size of one unit of the model's gap on this scale."""
        return ELO if self.scale == "elo" else 1.0

    @functools.cached_property
    def connectivity(self) -> Connectivity:
        """Who was never compared, never won or never lost, and which groups never met."""
        return self.comparisons.connectivity()

    @functools.cached_property
    def log_likelihood(self) -> float:
        """Sum of the logarithms of the probabilities of all answers; the prior is left out."""
        with jax.enable_x64(True):
            return float(_log_likelihood(data_of(self.comparisons), LINKS[self.model], self._centred))

    @property
    def _centred(self) -> np.ndarray:
        """Scores of the model: mean 0, in units of its gap."""
        return (self.scores - self.scores.mean()) / self.unit

    @functools.cached_property
    def covariance(self) -> np.ndarray:
        """Covariance of the centred scores, from the answers alone: a prior is not data and makes nothing surer.

        The inverse of the Fisher information on scores that add up to 0. Where groups of items never met, it is that of
        the scores relative to the mean of their group, and infinite between groups: nothing is known of how far one
        group stands above another.
        """
        count = len(self.labels)
        if count > MOST_FOR_ERRORS:
            raise ValueError(
                f"standard errors of all items need at most {MOST_FOR_ERRORS} items, got {count}; "
                "difference(a, b) works for any number"
            )
        with jax.enable_x64(True):
            table = WinMatrix(wins=jnp.asarray(self.comparisons.matrix()))
            information = np.asarray(table.information(LINKS[self.model], jnp.asarray(self._centred)))
        covariance = np.full((count, count), np.inf)
        for group in self.connectivity.groups:
            inside, size = np.ix_(group, group), len(group)
            level = np.trace(information[inside]) / size
            inverse = np.linalg.inv(information[inside] + level / size)
            covariance[inside] = (inverse - 1 / (level * size)) * self.unit**2
        return covariance

    @property
    def standard_errors(self) -> np.ndarray:
        """Of the centred scores, one per item; infinite for an item that was never compared.

        Where groups of items never met, a score is as sure as this relative to its own group.
        """
        return np.sqrt(np.maximum(np.diag(self.covariance), 0))

    def intervals(self, level: float = 0.95) -> np.ndarray:
        """K x 2: normal confidence intervals of the scores, each by itself."""
        reach = _reach(level) * self.standard_errors
        return np.stack([self.scores - reach, self.scores + reach], axis=1)

    def difference(self, a: int | str, b: int | str, level: float = 0.95) -> Difference:
        """Score of a minus score of b, with its own interval: the two errors are not independent."""
        first, second = self._item(a), self._item(b)
        value = float(self.scores[first] - self.scores[second])
        if len(self.labels) <= MOST_FOR_ERRORS:
            c = self.covariance
            met = np.isfinite(c[first, second])
            variance = c[first, first] + c[second, second] - 2 * c[first, second] if met else np.inf
        else:
            variance = self._variance_by_solving(first, second)
        error = float(np.sqrt(max(variance, 0)))
        reach = _reach(level) * error
        return Difference(value, error, value - reach, value + reach)

    def _variance_by_solving(self, a: int, b: int) -> float:
        with jax.enable_x64(True):
            contrast = np.zeros(len(self.labels))
            contrast[a], contrast[b] = 1, -1
            solved = _solve_curvature(data_of(self.comparisons), LINKS[self.model], self._centred, contrast)
            return float(contrast @ np.asarray(solved)) * self.unit**2

    def win_probability(self, a: int | str, b: int | str) -> float:
        """Probability that a beats b under the fitted model."""
        gap = (self.scores[self._item(a)] - self.scores[self._item(b)]) / self.unit
        return float(LINKS[self.model].probability(jnp.asarray(gap, float)))

    @property
    def order(self) -> np.ndarray:
        """Items, best first."""
        return np.argsort(-self.scores, kind="stable")

    def save(self, path: str | Path, *, level: float = 0.95, tiers: np.ndarray | None = None) -> None:
        """Write item, score, standard_error, low, high and, if given, tier as CSV: a file for `simulate --scores`.

        What is not known (of items never compared, or of too many items) is left empty.
        """
        columns = [self.labels, self.scores]
        if len(self.labels) <= MOST_FOR_ERRORS:
            columns += [self.standard_errors, *self.intervals(level).T]
        else:
            columns += [np.full(len(self.labels), np.inf)] * 3
        names = ["item", "score", "standard_error", "low", "high"]
        if tiers is not None:
            columns, names = [*columns, tiers], [*names, "tier"]
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            for row in zip(*columns, strict=True):
                writer.writerow([_cell(value) for value in row])

    def _item(self, name: int | str) -> int:
        if isinstance(name, str):
            checks.require(name in self.labels, "item", "must be one of the labels", repr(name))
            return self.labels.index(name)
        return checks.whole("item", name, low=0, high=len(self.labels) - 1)


@jax.jit
def _log_likelihood(data, link, scores):
    return data.log_likelihood(link, scores)


@jax.jit
def _solve_curvature(data, link, scores, vector):
    return data.solve(link, scores, vector, jnp.zeros_like(scores[0]), 1e-8)


def _cell(value) -> str:
    """A value as CSV keeps it: all digits of a number, nothing where it is not known."""
    if isinstance(value, str | np.integer):
        return str(value)
    return repr(float(value)) if np.isfinite(value) else ""


def _reach(level: float) -> float:
    checks.inside("level", level, 0, 1, closed=(False, False))
    return float(ndtri((1 + level) / 2))
