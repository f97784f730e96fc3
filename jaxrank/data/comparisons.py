"""Pairwise answers: who won against whom, how often, and what that leaves open."""

import csv
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from jaxrank.core import checks
from jaxrank.data import answers, tables
from jaxrank.data.connectivity import Connectivity, connectivity, degrees
from jaxrank.data.labels import checked_pairs, coded


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Comparisons:
    """Answers to "which of the two?": row r says that item `winners[r]` beat `losers[r]`, `weights[r]` times.

    A tie is two rows of half the weight. Made by `from_pairs`, `from_matrix`, `from_rankings`, `from_records`, `read`.
    """

    winners: np.ndarray
    losers: np.ndarray
    weights: np.ndarray | None
    """None stands for ones."""
    labels: tuple[str, ...]
    raters: np.ndarray | None = None
    """Who gave each answer, as an index into `rater_labels`; -1 where nobody is named."""
    rater_labels: tuple[str, ...] = ()
    tied: np.ndarray | None = None
    """Which rows are halves of ties; None if there are none, or it is not known."""
    left_out: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Rows of the file that hold no answer, how many by reason."""

    @classmethod
    def from_pairs(
        cls,
        winners: Any,
        losers: Any,
        weights: Any = None,
        num_items: int | None = None,
        labels: Sequence[Any] | None = None,
        raters: Sequence[Any] | None = None,
    ) -> "Comparisons":
        """From winners and losers, row by row, and how often each answer was given (once by default).

        Items are numbers from 0, or names: strings, which are then the labels.
        """
        winners, losers, names = checked_pairs(winners, losers, num_items, labels)
        as_long = f"must be as long as winners, {len(winners)}"
        if weights is not None:
            weights = np.asarray(weights, float)
            checks.require(weights.shape == winners.shape, "weights", as_long, len(np.atleast_1d(weights)))
            checks.inside("weights", weights, 0, float("inf"), closed=(True, False))
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

    @classmethod
    def from_matrix(cls, wins: Any, labels: Sequence[Any] | None = None) -> "Comparisons":
        """From a K x K matrix whose entry (i, j) says how often i beat j; the diagonal must be 0."""
        wins = np.asarray(wins, float)
        square = wins.ndim == 2 and wins.shape[0] == wins.shape[1]
        checks.require(square, "wins", "must be a K x K matrix", f"shape {wins.shape}")
        checks.inside("wins", wins, 0, float("inf"), closed=(True, False))
        own = np.flatnonzero(np.diag(wins))
        if len(own):
            what = f"{wins[own[0], own[0]]:g} for item {own[0]}"
            checks.require(False, "wins", "must have a diagonal of 0: no item meets itself", what)
        winners, losers = np.nonzero(wins)
        return cls.from_pairs(winners, losers, wins[winners, losers], len(wins), labels)

    @classmethod
    def from_rankings(cls, rankings: Iterable[Sequence[Any]], labels: Sequence[Any] | None = None) -> "Comparisons":
        """From orders of some items, best first: each item beats all that come after it."""
        pairs = [(str(a), str(b)) for order in rankings for i, a in enumerate(order) for b in order[i + 1 :]]
        for winner, loser in pairs:
            checks.require(winner != loser, "rankings", "must not name an item twice in one order", repr(winner))
        checks.require(len(pairs) > 0, "rankings", "must order at least two items", "none")
        return cls.from_pairs([a for a, _ in pairs], [b for _, b in pairs], labels=labels)

    @classmethod
    def from_records(
        cls, records: Iterable[Mapping[str, Any]], columns: Mapping[str, str] | None = None, **options: Any
    ) -> "Comparisons":
        """From dictionaries with the columns that `read` knows, such as {"winner": "a", "loser": "b"}."""
        return cls._from_table(tables.table_of_records(enumerate(records, 1)), columns=columns, **options)

    @classmethod
    def from_dataframe(cls, frame: Any, columns: Mapping[str, str] | None = None, **options: Any) -> "Comparisons":
        """From a data frame (pandas, polars, pyarrow, or any with the Arrow interface); options as for `read`."""
        return cls._from_table(tables.table_of_frame(frame), columns=columns, **options)

    @classmethod
    def read(
        cls,
        path: str | Path,
        *,
        columns: Mapping[str, str | int] | None = None,
        outcomes: Mapping[str, str | int] | None = None,
        skip_self: bool = False,
        matrix: bool = False,
        header: bool | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
    ) -> "Comparisons":
        """From a file with the columns winner,loser[,count], or left,right,winner[,rater], or a matrix of wins.

        The winner may be named, or be left, right, model_a, model_b or tie, or 1 and 2 or 1 and -1 for left and right
        and 0 for a tie. A row without a winner (empty or NA) is left out; `left_out` counts such rows.

        Args:
          path: a CSV, TSV, space-separated, JSON, JSONL or Parquet file, perhaps gzipped; "-" is standard input.
          columns: what other columns mean, by name or by number from 1:
            `{"left": "essay_1", "right": "essay_2", "winner": "better"}`.
          outcomes: what stands for the two sides and a tie: `{"left": 1, "right": 0}`.
          skip_self: leave out rows that compare an item with itself; otherwise they are refused.
          matrix: entry (i, j) says how often i beat j; so read anyway if the first column repeats the header.
          header: whether the first row names the columns; found out if not given, as the next two.
          delimiter: what stands between columns: one character, or tab or space.
          encoding: such as utf-8.
        """
        options = {"columns": columns, "outcomes": outcomes, "skip_self": skip_self, "matrix": matrix}
        table = tables.read_table(path, delimiter=delimiter, encoding=encoding, header=header)
        try:
            return cls._from_table(table, **options, header=header)
        except ValueError:
            if not tables.is_fast(table) or str(path) == "-":
                raise
        # The plain reader says in which line the mistake is.
        slow = tables.read_table(path, delimiter=delimiter, encoding=encoding, header=header, fast=False)
        return cls._from_table(slow, **options, header=header)

    @classmethod
    def _from_table(
        cls, table: tables.Table, *, columns=None, outcomes=None, skip_self=False, matrix=False, header=None
    ) -> "Comparisons":
        found = None if columns or not (matrix or answers.has_row_labels(table)) else answers.find_matrix(table)
        if found is not None:
            return cls.from_matrix(*found)
        checks.require(not matrix, "the table", "must be square to be a matrix of wins", f"{len(table.names)} columns")
        given = answers.find_answers(table, columns, outcomes, skip_self, header)
        checks.require(len(given.winner) > 0, "answers", "must not be empty", "none")
        tied = given.tied if given.tied.any() else None
        made = cls.from_pairs(given.winner, given.loser, given.times, len(given.items), given.items)
        known = {"raters": given.rater, "rater_labels": given.raters, "tied": tied, "left_out": given.left_out}
        return dataclasses.replace(made, **known)

    @property
    def num_items(self) -> int:
        """How many items there are, those never compared included."""
        return len(self.labels)

    @property
    def row_weights(self) -> np.ndarray:
        """How often each row's answer was given."""
        return np.ones(len(self.winners)) if self.weights is None else self.weights

    @property
    def total(self) -> float:
        """How many answers there are, by weight; a tie is one."""
        return float(self.row_weights.sum())

    @property
    def ties(self) -> float:
        """How many of the answers are ties, by weight."""
        return 0.0 if self.tied is None else float(self.row_weights[self.tied].sum())

    def _sums(self, items: np.ndarray) -> np.ndarray:
        return np.bincount(items, self.weights, self.num_items).astype(float)

    @property
    def wins(self) -> np.ndarray:
        """Wins of every item; ties count half."""
        return self._sums(self.winners)

    @property
    def losses(self) -> np.ndarray:
        """Losses of every item; ties count half."""
        return self._sums(self.losers)

    @property
    def degrees(self) -> np.ndarray:
        """How many different items every item has met."""
        return degrees(*self._edges(), self.num_items)

    @property
    def borda_scores(self) -> np.ndarray:
        """Share of wins of every item; NaN for one never compared."""
        with np.errstate(invalid="ignore"):
            return self.wins / (self.wins + self.losses)

    def matrix(self) -> np.ndarray:
        """The K x K matrix of wins."""
        size = self.num_items
        place = self.winners.astype(np.int64) * size + self.losers
        return np.bincount(place, self.weights, size * size).astype(float).reshape(size, size)

    def added_up(self) -> "Comparisons":
        """Every winner and loser once, with the weights of their answers added up; raters are forgotten."""
        shape = (self.num_items, self.num_items)
        wins = csr_array((self.row_weights, (self.winners, self.losers)), shape=shape).tocoo()
        return dataclasses.replace(
            self, winners=wins.row, losers=wins.col, weights=wins.data, raters=None, rater_labels=(), tied=None
        )

    def _edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Winners and losers of the rows that count."""
        if self.weights is None:
            return self.winners, self.losers
        some = self.weights > 0
        return self.winners[some], self.losers[some]

    def connectivity(self) -> Connectivity:
        """Who was never compared, never won or never lost, and which groups never met."""
        return connectivity(*self._edges(), self.num_items)

    def rows(self, keep: np.ndarray) -> "Comparisons":
        """Only these rows (a mask or indices), with all items."""
        parts = {name: getattr(self, name) for name in ("winners", "losers", "weights", "raters", "tied")}
        return dataclasses.replace(self, **{n: None if part is None else part[keep] for n, part in parts.items()})

    def by_rater(self, *names: str) -> "Comparisons":
        """Only the answers of these raters."""
        if self.raters is None:
            raise ValueError("by_rater needs answers with a rater column; these have none")
        for name in names:
            rule = f"must be one of the {len(self.rater_labels)} raters"
            checks.require(name in self.rater_labels, "rater", rule, repr(name))
        return self.rows(np.isin(self.raters, [self.rater_labels.index(name) for name in names]))

    def largest_group(self, *, strong: bool = False) -> "Comparisons":
        """Only the items of the largest group linked by comparisons, with the answers among them.

        With `strong`, the largest group linked by wins in both directions, whose scores of largest likelihood exist.
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

    def merge(self, other: "Comparisons") -> "Comparisons":
        """Both sets of answers; items are matched by label."""
        labels = list(dict.fromkeys([*self.labels, *other.labels]))
        place = {name: number for number, name in enumerate(labels)}
        mine, theirs = (np.asarray([place[name] for name in part.labels], int) for part in (self, other))
        weights = np.concatenate([self.row_weights, other.row_weights])
        raters = None
        if self.raters is not None or other.raters is not None:
            raters = [name for part in (self, other) for name in part._rater_names()]
        winners = np.concatenate([mine[self.winners], theirs[other.winners]])
        losers = np.concatenate([mine[self.losers], theirs[other.losers]])
        ties = [np.zeros(len(part.winners), bool) if part.tied is None else part.tied for part in (self, other)]
        made = Comparisons.from_pairs(winners, losers, weights, len(labels), labels, raters)
        return dataclasses.replace(made, tied=np.concatenate(ties)) if any(map(np.any, ties)) else made

    def _rater_names(self) -> list[str | None]:
        if self.raters is None:
            return [None] * len(self.winners)
        return [None if code < 0 else self.rater_labels[code] for code in self.raters]

    def split(self, seed: int, test_share: float = 0.2) -> tuple["Comparisons", "Comparisons"]:
        """Rows for training and rows held out for testing, at random."""
        checks.inside("test_share", test_share, 0, 1, closed=(False, False))
        held_out = np.random.default_rng(seed).random(len(self.winners)) < test_share
        return self.rows(~held_out), self.rows(held_out)

    def save(self, path: str | Path) -> None:
        """Write winner,loser,count[,rater] as CSV, which `read` reads."""
        has_rater = self.raters is not None
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["winner", "loser", "count", "rater"][: 3 + has_rater])
            rows = zip(self.winners, self.losers, self.row_weights.tolist(), self._rater_names(), strict=True)
            for a, b, count, rater in rows:
                writer.writerow([self.labels[a], self.labels[b], repr(float(count)), rater][: 3 + has_rater])
