"""Rows of pairwise answers, and what can be counted in them."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from numpy.typing import ArrayLike

from jaxrank.core import checks
from jaxrank.data import connectivity as graphs
from jaxrank.data.labels import checked_pairs, coded


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Pairs:
    """R rows of winner, loser and weight: what `Comparisons` stores, and what it counts.

    Row r says that item `winners[r]` beat item `losers[r]`, `weights[r]` times. Repeated rows are fine; rows of weight
    0 count for nothing. Use `Comparisons`, which adds subsets, other sources and files.

    Example:
      >>> from jaxrank.data.pairs import Pairs
      >>> pairs = Pairs.from_pairs([0, 0, 1], [1, 2, 2], weights=[2, 1, 1])
      >>> pairs.total, pairs.wins.tolist(), pairs.losses.tolist()
      (4.0, [3.0, 1.0, 0.0], [0.0, 2.0, 2.0])
    """

    winners: Int[np.ndarray, "R"]
    """Item that won each row, as an index into `labels`."""
    losers: Int[np.ndarray, "R"]
    """Item that lost each row."""
    weights: Float[np.ndarray, "R"] | None
    """How often each row's answer was given; None stands for once each, without storing the ones."""
    labels: tuple[str, ...]
    """Name of every item, K in all."""
    raters: Int[np.ndarray, "R"] | None = None
    """Who gave each answer, as an index into `rater_labels`; -1 where nobody is named."""
    rater_labels: tuple[str, ...] = ()
    """Name of every rater."""
    tied: Bool[np.ndarray, "R"] | None = None
    """Which rows are halves of ties; None if there are no ties, or it is not known."""
    left_out: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """How many rows of the file hold no answer, by reason."""

    @classmethod
    def from_pairs(
        cls,
        winners: Shaped[ArrayLike, "R"],
        losers: Shaped[ArrayLike, "R"],
        weights: Float[ArrayLike, "R"] | None = None,
        num_items: int | None = None,
        labels: Sequence[Any] | None = None,
        raters: Sequence[Any] | None = None,
    ) -> Self:
        """Make it from winners and losers, row by row.

        Args:
          winners: item that won each of R answers: whole numbers from 0, or names (strings), which become the labels.
          losers: item that lost each answer, in the same form.
          weights: how often each answer was given, at least 0; None means once.
          num_items: number of items K; None takes the number of labels or, without labels, the largest number + 1.
          labels: name of every item; None takes the names found, sorted, or the numbers as text.
          raters: who gave each answer, R names, None where nobody is named; None if nobody is named at all.

        Returns:
          The answers.

        Raises:
          ValueError: if lengths differ, an item is compared with itself, or a number, label or weight is not allowed.

        Example:
          >>> jr.Comparisons.from_pairs(["owl", "fox"], ["fox", "elk"]).labels
          ('elk', 'fox', 'owl')
          >>> jr.Comparisons.from_pairs([0, 1], [1, 0], num_items=3).num_items
          3
        """
        winners, losers, names = checked_pairs(winners, losers, num_items, labels)
        as_long = f"must be as long as winners, {len(winners)}"
        if weights is not None:
            weights = np.asarray(weights, float)
            checks.require(weights.shape == winners.shape, "weights", as_long, len(np.atleast_1d(weights)))
            checks.nonnegative("weights", weights)
        codes, rater_labels = None, ()
        if raters is not None:
            checks.require(len(raters) == len(winners), "raters", as_long, len(raters))
            named = np.asarray([rater is not None for rater in raters], bool)
            codes = np.full(len(winners), -1)
            codes[named], rater_labels = coded([str(rater) for rater in raters if rater is not None])
        return cls(
            winners=winners,
            losers=losers,
            weights=None if weights is None or (weights == 1).all() else weights,
            labels=names,
            raters=codes,
            rater_labels=rater_labels,
        )

    @property
    def num_items(self) -> int:
        """Number of items K, including items never compared."""
        return len(self.labels)

    @property
    def row_weights(self) -> Float[np.ndarray, "R"]:
        """How often each row's answer was given: `weights`, or ones where that is None."""
        return np.ones(len(self.winners)) if self.weights is None else self.weights

    @property
    def total(self) -> float:
        """Number of answers: the sum of the weights. A tie counts as one answer."""
        return float(self.row_weights.sum())

    @property
    def ties(self) -> float:
        """Number of answers that are ties, by weight."""
        return 0.0 if self.tied is None else float(self.row_weights[self.tied].sum())

    @property
    def wins(self) -> Float[np.ndarray, "K"]:
        """Number of wins of every item; a tie counts as half a win."""
        return self._sums(self.winners)

    @property
    def losses(self) -> Float[np.ndarray, "K"]:
        """Number of losses of every item; a tie counts as half a loss."""
        return self._sums(self.losers)

    def _sums(self, items: Int[np.ndarray, "R"]) -> Float[np.ndarray, "K"]:
        """Weights by item; `bincount` takes None for ones by itself."""
        return np.bincount(items, self.weights, self.num_items).astype(float)

    @property
    def degrees(self) -> Int[np.ndarray, "K"]:
        """Number of different items that every item has met."""
        return graphs.degrees(*self.edges(), self.num_items)

    @property
    def borda_scores(self) -> Float[np.ndarray, "K"]:
        """Share of its answers that every item won; NaN for an item never compared."""
        with np.errstate(invalid="ignore"):
            return self.wins / (self.wins + self.losses)

    def rater_names(self) -> list[str | None]:
        """Name who gave each row's answer.

        Returns:
          R names; None where nobody is named.

        Example:
          >>> jr.Comparisons.from_pairs([0, 1], [1, 0], raters=["ann", None]).rater_names()
          ['ann', None]
        """
        if self.raters is None:
            return [None] * len(self.winners)
        return [None if code < 0 else self.rater_labels[code] for code in self.raters]

    def matrix(self) -> Float[np.ndarray, "K K"]:
        """Count the wins of every pair.

        Returns:
          Matrix (K, K) whose entry (i, j) is how often item i beat item j.

        Example:
          >>> jr.Comparisons.from_pairs([0, 0, 1], [1, 1, 0]).matrix().tolist()
          [[0.0, 2.0], [1.0, 0.0]]
        """
        size = self.num_items
        place = self.winners.astype(np.int64) * size + self.losers
        return np.bincount(place, self.weights, size * size).astype(float).reshape(size, size)

    def edges(self) -> tuple[Int[np.ndarray, "E"], Int[np.ndarray, "E"]]:
        """List the edges of the comparison graph: the rows whose weight is above 0.

        Rows of weight 0 are answers that were never given, so they must not link items.

        Returns:
          Winners (E,) and losers (E,) of these rows, repeats included.

        Example:
          >>> winners, losers = jr.Comparisons.from_pairs([0, 1, 2], [1, 2, 0], weights=[2, 1, 0]).edges()
          >>> winners.tolist(), losers.tolist()
          ([0, 1], [1, 2])
        """
        if self.weights is None:
            return self.winners, self.losers
        some = self.weights > 0
        return self.winners[some], self.losers[some]

    def connectivity(self) -> graphs.Connectivity:
        """Report which items were never compared, never won or never lost, and which groups never met.

        Returns:
          The report; its `scores_exist` says whether `fit_btl` works without a prior.

        Example:
          >>> report = jr.Comparisons.from_pairs([0, 1, 2, 3], [1, 0, 3, 2]).connectivity()
          >>> report.scores_exist, report.groups
          (False, [[0, 1], [2, 3]])
        """
        return graphs.connectivity(*self.edges(), self.num_items)
