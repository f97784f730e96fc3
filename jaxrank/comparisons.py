"""Pairwise answers: who won against whom, how often, and what that leaves open."""

import csv
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from jaxrank import _checks
from jaxrank.connectivity import Connectivity, connectivity, degrees
from jaxrank.reading import Answer, answers, read_answers


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
        """From two arrays of item numbers, from 0, and how often each answer was given (once by default)."""
        winners, losers = _item_numbers("winners", winners), _item_numbers("losers", losers)
        as_long = f"must be as long as winners, {len(winners)}"
        _checks.require(len(winners) == len(losers), "losers", as_long, len(losers))
        if labels is not None:
            labels = _check_labels(labels)
        if num_items is None:
            largest = max(winners.max(initial=-1), losers.max(initial=-1))
            num_items = len(labels) if labels is not None else int(largest) + 1
        num_items = _checks.whole("num_items", num_items, low=0)
        if labels is not None:
            _checks.require(len(labels) == num_items, "labels", f"must name all {num_items} items", len(labels))
        for name, items in (("winners", winners), ("losers", losers)):
            bad = np.flatnonzero((items < 0) | (items >= num_items))
            rule = f"must lie in [0, {num_items - 1}], the numbers of the items"
            _checks.require(not len(bad), name, rule, f"{items[bad[0]]} at position {bad[0]}" if len(bad) else "")
        same = np.flatnonzero(winners == losers)
        if len(same):
            what = f"item {winners[same[0]]} twice at position {same[0]}"
            _checks.require(False, "winners and losers", "must not compare an item with itself", what)
        if weights is not None:
            weights = np.asarray(weights, float)
            _checks.require(weights.shape == winners.shape, "weights", as_long, len(np.atleast_1d(weights)))
            _checks.inside("weights", weights, 0, float("inf"), closed=(True, False))
        codes, names = None, ()
        if raters is not None:
            _checks.require(len(raters) == len(winners), "raters", as_long, len(raters))
            named = np.asarray([rater is not None for rater in raters], bool)
            codes = np.full(len(winners), -1)
            codes[named], names = _codes([str(rater) for rater in raters if rater is not None])
        return cls(
            winners=winners.astype(np.int32),
            losers=losers.astype(np.int32),
            weights=weights,
            labels=labels if labels is not None else tuple(map(str, range(num_items))),
            raters=codes,
            rater_labels=names,
        )

    @classmethod
    def from_matrix(cls, wins: Any, labels: Sequence[Any] | None = None) -> "Comparisons":
        """From a K x K matrix whose entry (i, j) says how often i beat j; the diagonal must be 0."""
        wins = np.asarray(wins, float)
        square = wins.ndim == 2 and wins.shape[0] == wins.shape[1]
        _checks.require(square, "wins", "must be a K x K matrix", f"shape {wins.shape}")
        _checks.inside("wins", wins, 0, float("inf"), closed=(True, False))
        own = np.flatnonzero(np.diag(wins))
        if len(own):
            what = f"{wins[own[0], own[0]]:g} for item {own[0]}"
            _checks.require(False, "wins", "must have a diagonal of 0: no item meets itself", what)
        winners, losers = np.nonzero(wins)
        return cls.from_pairs(winners, losers, wins[winners, losers], len(wins), labels)

    @classmethod
    def from_rankings(cls, rankings: Iterable[Sequence[Any]], labels: Sequence[Any] | None = None) -> "Comparisons":
        """From orders of some items, best first: each item beats all that come after it."""
        pairs = [(str(a), str(b)) for order in rankings for i, a in enumerate(order) for b in order[i + 1 :]]
        for winner, loser in pairs:
            _checks.require(winner != loser, "rankings", "must not name an item twice in one order", repr(winner))
        return cls._from_answers([Answer(a, b, 1.0, False, None) for a, b in pairs], labels)

    @classmethod
    def from_records(
        cls, records: Iterable[Mapping[str, Any]], columns: Mapping[str, str] | None = None
    ) -> "Comparisons":
        """From dictionaries with the columns that `read` knows, such as {"winner": "a", "loser": "b"}."""
        return cls._from_answers(list(answers(enumerate(records, 1), columns)))

    @classmethod
    def read(
        cls,
        path: str | Path,
        *,
        columns: Mapping[str, str] | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
    ) -> "Comparisons":
        """From a CSV, TSV or JSONL file with the columns winner,loser[,count], or left,right,winner[,rater].

        The winner may be named, or be left, right, model_a, model_b or tie. `columns` says what other columns mean:
        `{"left": "essay_1", "right": "essay_2", "winner": "better"}`.
        """
        return cls._from_answers(read_answers(path, columns=columns, delimiter=delimiter, encoding=encoding))

    @classmethod
    def _from_answers(cls, given: list[Answer], labels: Sequence[Any] | None = None) -> "Comparisons":
        _checks.require(len(given) > 0, "answers", "must not be empty", "none")
        ties = [answer for answer in given if answer.tie]
        both = [*given, *(answer._replace(winner=answer.loser, loser=answer.winner) for answer in ties)]
        names = [answer.winner for answer in both] + [answer.loser for answer in both]
        codes, found = _codes(names)
        if labels is not None:
            wanted = _check_labels(labels)
            missing = set(found) - set(wanted)
            _checks.require(not missing, "labels", "must name every item in the answers", f"no {sorted(missing)[:3]}")
            place = {name: number for number, name in enumerate(wanted)}
            codes, found = np.asarray([place[name] for name in found])[codes], wanted
        weights = np.asarray([answer.times / (2 if answer.tie else 1) for answer in both])
        raters = [answer.rater for answer in both] if any(answer.rater is not None for answer in both) else None
        half = len(both)
        return cls.from_pairs(
            codes[:half], codes[half:], None if (weights == 1).all() else weights, len(found), found, raters
        )

    @property
    def num_items(self) -> int:
        """How many items there are, those never compared included."""
        return len(self.labels)

    @property
    def total(self) -> float:
        """How many answers there are, by weight; a tie is one."""
        return float(len(self.winners) if self.weights is None else self.weights.sum())

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
        weights = np.ones(len(self.winners)) if self.weights is None else self.weights
        shape = (self.num_items, self.num_items)
        wins = csr_array((weights, (self.winners, self.losers)), shape=shape).tocoo()
        return dataclasses.replace(
            self, winners=wins.row, losers=wins.col, weights=wins.data, raters=None, rater_labels=()
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
        parts = {name: getattr(self, name) for name in ("winners", "losers", "weights", "raters")}
        return dataclasses.replace(self, **{n: None if part is None else part[keep] for n, part in parts.items()})

    def by_rater(self, *names: str) -> "Comparisons":
        """Only the answers of these raters."""
        if self.raters is None:
            raise ValueError("by_rater needs answers with a rater column; these have none")
        for name in names:
            rule = f"must be one of the {len(self.rater_labels)} raters"
            _checks.require(name in self.rater_labels, "rater", rule, repr(name))
        return self.rows(np.isin(self.raters, [self.rater_labels.index(name) for name in names]))

    def merge(self, other: "Comparisons") -> "Comparisons":
        """Both sets of answers; items are matched by label."""
        labels = list(dict.fromkeys([*self.labels, *other.labels]))
        place = {name: number for number, name in enumerate(labels)}
        mine, theirs = (np.asarray([place[name] for name in part.labels], int) for part in (self, other))
        ones = [np.ones(len(part.winners)) if part.weights is None else part.weights for part in (self, other)]
        weights = None if self.weights is None and other.weights is None else np.concatenate(ones)
        raters = None
        if self.raters is not None or other.raters is not None:
            raters = [name for part in (self, other) for name in part._rater_names()]
        winners = np.concatenate([mine[self.winners], theirs[other.winners]])
        losers = np.concatenate([mine[self.losers], theirs[other.losers]])
        return Comparisons.from_pairs(winners, losers, weights, len(labels), labels, raters)

    def _rater_names(self) -> list[str | None]:
        if self.raters is None:
            return [None] * len(self.winners)
        return [None if code < 0 else self.rater_labels[code] for code in self.raters]

    def split(self, seed: int, test_share: float = 0.2) -> tuple["Comparisons", "Comparisons"]:
        """Rows for training and rows held out for testing, at random."""
        _checks.inside("test_share", test_share, 0, 1, closed=(False, False))
        held_out = np.random.default_rng(seed).random(len(self.winners)) < test_share
        return self.rows(~held_out), self.rows(held_out)

    def save(self, path: str | Path) -> None:
        """Write winner,loser,count[,rater] as CSV, which `read` reads."""
        weights = np.ones(len(self.winners)) if self.weights is None else self.weights
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["winner", "loser", "count"] + ["rater"] * (self.raters is not None))
            for row, rater in enumerate(self._rater_names()):
                names = [self.labels[self.winners[row]], self.labels[self.losers[row]]]
                extra = [] if self.raters is None else [rater]
                writer.writerow([*names, repr(float(weights[row])), *extra])


def _item_numbers(name: str, values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(int)
    _checks.require(array.ndim == 1, name, "must be a one-dimensional array of item numbers", f"shape {array.shape}")
    kind = array.dtype if array.dtype != object else f"{array[0]!r}"
    _checks.require(np.issubdtype(array.dtype, np.integer), name, "must be whole item numbers from 0", kind)
    return array


def _check_labels(labels: Sequence[Any]) -> tuple[str, ...]:
    names = tuple(map(str, labels))
    seen: set[str] = set()
    for name in names:
        _checks.require(name not in seen, "labels", "must be different from each other", f"{name!r} twice")
        seen.add(name)
    return names


def _codes(names: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Every name as a number, and the names in order: whole numbers by value, others by the alphabet."""
    found = set(names)
    order = sorted(found, key=int) if all(name.isdecimal() for name in found) else sorted(found)
    place = {name: number for number, name in enumerate(order)}
    return np.asarray([place[name] for name in names], int), tuple(order)
