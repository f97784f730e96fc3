"""Parts and unions of sets of pairwise answers."""

import dataclasses
from typing import Self

import numpy as np
from jaxtyping import Bool, Int
from scipy.sparse import csr_array

from jaxrank.core import checks
from jaxrank.data.pairs import Pairs


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Subsets(Pairs):
    """Pairs that can be filtered, split, merged and added up.

    Every method returns a new object; arrays that stay the same are shared with the old one. Use `Comparisons`, which
    adds other sources and files.

    Example:
      >>> from jaxrank.data.subsets import Subsets
      >>> pairs = Subsets.from_pairs([0, 1, 2], [1, 0, 0], raters=["ann", "bob", "ann"])
      >>> pairs.by_rater("ann").winners.tolist()
      [0, 2]
    """

    def rows(self, keep: Bool[np.ndarray, "R"] | Int[np.ndarray, "N"]) -> Self:
        """Keep some rows and all items.

        Args:
          keep: mask over the R rows, or indices of N rows, in which case repeats and any order are fine.

        Returns:
          The answers in these rows.

        Example:
          >>> answers = jr.Comparisons.from_pairs([0, 1, 2], [1, 2, 0])
          >>> answers.rows(np.array([True, False, True])).winners.tolist()
          [0, 2]
        """
        parts = {name: getattr(self, name) for name in ("winners", "losers", "weights", "raters", "tied")}
        return dataclasses.replace(self, **{n: None if part is None else part[keep] for n, part in parts.items()})

    def by_rater(self, *names: str) -> Self:
        """Keep the answers of some raters, and all items.

        Args:
          *names: names of raters, out of `rater_labels`.

        Returns:
          Their answers.

        Raises:
          ValueError: if the answers have no raters, or not one of that name.

        Example:
          >>> answers = jr.Comparisons.from_pairs([0, 1, 2], [1, 2, 0], raters=["ann", "bob", None])
          >>> answers.by_rater("bob").winners.tolist()
          [1]
        """
        if self.raters is None:
            raise ValueError("by_rater needs answers with a rater column; these have none")
        for name in names:
            rule = f"must be one of the {len(self.rater_labels)} raters"
            checks.require(name in self.rater_labels, "rater", rule, repr(name))
        return self.rows(np.isin(self.raters, [self.rater_labels.index(name) for name in names]))

    def largest_group(self, *, strong: bool = False) -> Self:
        """Keep the items of the largest group, and the answers among them.

        Args:
          strong: False takes the largest group linked by comparisons, whose scores can be compared with each other;
            True the largest group linked by wins in both directions, whose maximum-likelihood scores exist.

        Returns:
          The answers among these items, which are numbered anew and keep their labels.

        Raises:
          ValueError: if no group has two items.

        Example:
          >>> answers = jr.Comparisons.from_pairs(["a", "b", "c"], ["b", "a", "a"])
          >>> answers.largest_group().labels, answers.largest_group(strong=True).labels
          (('a', 'b', 'c'), ('a', 'b'))
        """
        report = self.connectivity()
        groups = report.strong_groups if strong else report.groups
        if not groups or len(groups[0]) < 2:
            raise ValueError("no two items are linked by wins in both directions: no group has scores without a prior")
        members = np.sort(groups[0])
        inside = self.rows(np.isin(self.winners, members) & np.isin(self.losers, members))
        place = np.full(self.num_items, -1, np.int32)
        place[members] = np.arange(len(members))
        return dataclasses.replace(
            inside,
            winners=place[inside.winners],
            losers=place[inside.losers],
            labels=tuple(self.labels[item] for item in members),
        )

    def split(self, seed: int, test_share: float = 0.2) -> tuple[Self, Self]:
        """Split the rows at random into a part to fit and a part to test the fit with.

        Args:
          seed: for NumPy's random generator; the same seed gives the same split.
          test_share: probability of every row to be held out for testing, between 0 and 1. A row of weight 5 is
            held out as a whole, and the two halves of a tie are drawn separately.

        Returns:
          The answers to fit, and the answers held out; both have all items.

        Example:
          >>> answers = jr.Comparisons.from_pairs(np.tile([0, 1], 50), np.tile([1, 0], 50))
          >>> fitted, held_out = answers.split(seed=0)
          >>> fitted.total + held_out.total
          100.0
        """
        checks.probability("test_share", test_share)
        held_out = np.random.default_rng(seed).random(len(self.winners)) < test_share
        return self.rows(~held_out), self.rows(held_out)

    def merge(self, other: Pairs) -> Self:
        """Join two sets of answers, with items and raters matched by label.

        Args:
          other: the answers to add.

        Returns:
          All rows of both. Items come in the order of this set, followed by those that only the other one has.

        Example:
          >>> first = jr.Comparisons.from_pairs(["a"], ["b"])
          >>> both = first.merge(jr.Comparisons.from_pairs(["c"], ["a"]))
          >>> both.labels, both.winners.tolist(), both.losers.tolist()
          (('a', 'b', 'c'), [0, 2], [1, 0])
        """
        labels = list(dict.fromkeys([*self.labels, *other.labels]))
        place = {name: number for number, name in enumerate(labels)}
        mine, theirs = (np.asarray([place[name] for name in part.labels], int) for part in (self, other))
        weights = np.concatenate([self.row_weights, other.row_weights])
        raters = None
        if self.raters is not None or other.raters is not None:
            raters = [*self.rater_names(), *other.rater_names()]
        winners = np.concatenate([mine[self.winners], theirs[other.winners]])
        losers = np.concatenate([mine[self.losers], theirs[other.losers]])
        ties = [np.zeros(len(part.winners), bool) if part.tied is None else part.tied for part in (self, other)]
        made = self.from_pairs(winners, losers, weights, len(labels), labels, raters)
        return dataclasses.replace(made, tied=np.concatenate(ties)) if any(map(np.any, ties)) else made

    def added_up(self) -> Self:
        """Combine the rows that have the same winner and loser, and add up their weights.

        Returns:
          At most K (K - 1) rows, sorted by winner, then loser. Raters and ties are no longer known.

        Example:
          >>> answers = jr.Comparisons.from_pairs([0, 1, 0], [1, 0, 1]).added_up()
          >>> answers.winners.tolist(), answers.weights.tolist()
          ([0, 1], [2.0, 1.0])
        """
        shape = (self.num_items, self.num_items)
        wins = csr_array((self.row_weights, (self.winners, self.losers)), shape=shape).tocoo()
        return dataclasses.replace(
            self, winners=wins.row, losers=wins.col, weights=wins.data, raters=None, rater_labels=(), tied=None
        )
