"""Pairwise answers from every source: arrays, matrices, orders, dictionaries, data frames and files."""

import csv
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from jaxrank.core import checks
from jaxrank.core.atomic_write import atomic_write
from jaxrank.data import tables
from jaxrank.data.answers import find_answers
from jaxrank.data.columns import Table, find_matrix, has_row_labels, table_of_records
from jaxrank.data.subsets import Subsets


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Comparisons(Subsets):
    """Answers to "which of the two?": item `winners[r]` beat item `losers[r]`, `weights[r]` times.

    Make it with `from_pairs`, `from_matrix`, `from_rankings`, `from_records`, `from_dataframe` or `read`, which check
    their input. A tie is two rows, one each way, of half the weight.

    Args:
      winners: item that won each of R rows, as an index into `labels`.
      losers: item that lost each row.
      weights: how often each row's answer was given; None stands for once.
      labels: name of every item, K in all, all different.
      raters: who gave each answer, as an index into `rater_labels`, -1 where nobody is named; None without raters.
      rater_labels: name of every rater.
      tied: which rows are halves of ties; None if there are no ties, or it is not known.
      left_out: how many rows of the file hold no answer, by reason.

    Example:
      >>> answers = jr.Comparisons.from_pairs(["owl", "owl", "fox"], ["fox", "elk", "owl"])
      >>> answers.num_items, answers.total, answers.labels
      (3, 3.0, ('elk', 'fox', 'owl'))
      >>> answers.connectivity().explain(answers.labels)
      "'elk' never won"
    """

    @classmethod
    def from_matrix(
        cls,
        wins: Float[ArrayLike, "K K"],
        labels: Sequence[Any] | None = None,
        *,
        transpose: bool = False,
        answers_per_pair: float | None = None,
    ) -> Self:
        """Make it from a matrix of wins, or of shares of wins.

        Args:
          wins: entry (i, j) is how often item i beat item j, at least 0; the diagonal must be 0.
          labels: name of every item; None takes "0", "1", ...
          transpose: entry (i, j) is how often j beat i.
          answers_per_pair: how many answers were given about each pair, for a matrix of shares, in which entries (i, j)
            and (j, i) add up to 1 (or 100, or 1000) for every pair; the diagonal is then left out.

        Returns:
          The answers, one row for every entry above 0.

        Raises:
          ValueError: if the matrix is not square, has a negative entry, or an item that meets itself; if it seems to
            hold shares and `answers_per_pair` is not given, or the other way round.

        Example:
          >>> answers = jr.Comparisons.from_matrix([[0, 3], [1, 0]])
          >>> answers.winners.tolist(), answers.weights.tolist()
          ([0, 1], [3.0, 1.0])
        """
        wins = np.asarray(wins, float)
        square = wins.ndim == 2 and wins.shape[0] == wins.shape[1]
        checks.require(square, "wins", "must be a K x K matrix", f"shape {wins.shape}")
        checks.nonnegative("wins", wins)
        wins = wins.T if transpose else wins
        whole = total_of_shares(wins)
        if answers_per_pair is not None:
            checks.positive("answers_per_pair", answers_per_pair)
            rule = "is for shares, where entries (i, j) and (j, i) add up to 1, 100 or 1000 for every pair"
            checks.require(whole is not None, "answers_per_pair", rule, answers_per_pair)
            wins = np.where(np.eye(len(wins), dtype=bool), 0, wins * (answers_per_pair / (whole or 1)))
        elif whole is not None and (whole > 1 or (wins != np.round(wins)).any()):
            rule = f"must hold counts, but all pairs add up to {whole:g}: they seem to be shares"
            checks.fail("wins", f"{rule}; say how many answers each pair had (answers_per_pair)", f"{wins.max():g}")
        own = np.flatnonzero(np.diag(wins))
        if len(own):
            what = f"{wins[own[0], own[0]]:g} for item {own[0]}"
            checks.fail("wins", "must have a diagonal of 0: no item meets itself", what)
        winners, losers = np.nonzero(wins)
        return cls.from_pairs(winners, losers, wins[winners, losers], len(wins), labels)

    @classmethod
    def from_rankings(cls, rankings: Iterable[Sequence[Any]], labels: Sequence[Any] | None = None) -> Self:
        """Make it from orders of some items, best first: each item beats all that come after it.

        An order of m items thus counts as m (m - 1) / 2 answers, as if they were independent.

        Args:
          rankings: the orders, each a sequence of different items; an item is known by its text.
          labels: name of every item; None takes the items found, sorted.

        Returns:
          The answers.

        Example:
          >>> answers = jr.Comparisons.from_rankings([["owl", "fox", "elk"], ["fox", "owl"]])
          >>> answers.labels, answers.wins.tolist()
          (('elk', 'fox', 'owl'), [0.0, 2.0, 2.0])
        """
        pairs = [(str(a), str(b)) for order in rankings for i, a in enumerate(order) for b in order[i + 1 :]]
        for winner, loser in pairs:
            checks.require(winner != loser, "rankings", "must not name an item twice in one order", repr(winner))
        checks.require(len(pairs) > 0, "rankings", "must order at least two items", "none")
        return cls.from_pairs([a for a, _ in pairs], [b for _, b in pairs], labels=labels)

    @classmethod
    def from_records(
        cls, records: Iterable[Mapping[str, Any]], columns: Mapping[str, str | int] | None = None, **options: Any
    ) -> Self:
        """Make it from dictionaries, one per answer.

        Args:
          records: dictionaries with the columns that `read` knows, such as `{"winner": "fox", "loser": "elk"}`.
          columns: meaning of columns with other names, as in `read`.
          **options: all others of `read` that say what the table means.

        Returns:
          The answers.

        Example:
          >>> answers = jr.Comparisons.from_records(
          ...     [{"left": "fox", "right": "elk", "winner": said} for said in ("tie", "fox")]
          ... )
          >>> answers.total, answers.ties, answers.wins.tolist()
          (2.0, 1.0, [0.5, 1.5])
        """
        return cls._from_table(table_of_records(enumerate(records, 1)), columns=columns, **options)

    @classmethod
    def from_dataframe(cls, frame: Any, columns: Mapping[str, str | int] | None = None, **options: Any) -> Self:
        """Make it from a data frame of pandas, polars, pyarrow, or any library with the Arrow interface.

        Args:
          frame: a data frame with the columns that `read` knows.
          columns: meaning of columns with other names, as in `read`.
          **options: all others of `read` that say what the table means.

        Returns:
          The answers.

        Example:
          >>> import pandas
          >>> frame = pandas.DataFrame({"winner": ["fox", "elk"], "loser": ["elk", "fox"], "count": [3, 1]})
          >>> jr.Comparisons.from_dataframe(frame).wins.tolist()
          [1.0, 3.0]
        """
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
        transpose: bool = False,
        answers_per_pair: float | None = None,
        labels: Sequence[Any] | None = None,
        header: bool | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
    ) -> Self:
        r"""Read a file with the columns winner,loser[,count] or left,right,winner[,rater], or a matrix of wins.

        The winner may be a name; or left, right, model_a, model_b or tie; or 1 and 2, or 1 and -1, for left and right,
        and 0 for a tie. Rows without a winner (empty or NA) are left out; `left_out` counts them.

        Args:
          path: a CSV, TSV, space-separated, JSON, JSONL or Parquet file, perhaps gzipped; "-" is standard input.
          columns: meaning of columns with other names, by name or by number from 1:
            `{"left": "essay_1", "right": "essay_2", "winner": "better"}`.
          outcomes: what stands for the two sides and a tie in the winner column: `{"left": 1, "right": 0}`.
          skip_self: leave out rows that compare an item with itself; otherwise they raise `ValueError`.
          matrix: read the table as a matrix whose entry (i, j) is how often i beat j. A table whose first column
            repeats the header is read so in any case.
          transpose: for a matrix whose entry (i, j) is how often j beat i.
          answers_per_pair: for a matrix of shares, as in `from_matrix`.
          labels: names of the items of a matrix, if the file has none.
          header: whether the first row names the columns; None decides by what the row contains.
          delimiter: what separates columns: one character, or tab or space by name; None finds it.
          encoding: such as utf-8; None finds it.

        Returns:
          The answers.

        Raises:
          ValueError: naming the file or the line, if something cannot be read or makes no sense.

        Example:
          >>> import pathlib, tempfile
          >>> with tempfile.TemporaryDirectory() as folder:
          ...     path = pathlib.Path(folder, "answers.csv")
          ...     _ = path.write_text("winner,loser,count\nfox,elk,3\nelk,fox,1\n")
          ...     answers = jr.Comparisons.read(path)
          >>> answers.labels, answers.wins.tolist()
          (('elk', 'fox'), [1.0, 3.0])
        """
        options = {"columns": columns, "outcomes": outcomes, "skip_self": skip_self, "matrix": matrix}
        options |= {"transpose": transpose, "answers_per_pair": answers_per_pair, "labels": labels}
        table = tables.read_table(path, delimiter=delimiter, encoding=encoding, header=header)
        try:
            return cls._from_table(table, **options, header=header)
        except ValueError:
            if not tables.is_fast(table) or str(path) == "-":
                raise
        # The plain reader knows the line of the mistake.
        slow = tables.read_table(path, delimiter=delimiter, encoding=encoding, header=header, fast=False)
        return cls._from_table(slow, **options, header=header)

    @classmethod
    def _from_table(
        cls,
        table: Table,
        *,
        columns: Mapping[str, str | int] | None = None,
        outcomes: Mapping[str, str | int] | None = None,
        skip_self: bool = False,
        matrix: bool = False,
        transpose: bool = False,
        answers_per_pair: float | None = None,
        labels: Sequence[Any] | None = None,
        header: bool | None = None,
    ) -> Self:
        """The answers in a table, from whichever source."""
        found = None if columns or not (matrix or has_row_labels(table)) else find_matrix(table)
        if found is not None:
            wins, names = found
            names = names if labels is None else labels
            return cls.from_matrix(wins, names, transpose=transpose, answers_per_pair=answers_per_pair)
        checks.require(not matrix, "the table", "must be square to be a matrix of wins", f"{len(table.names)} columns")
        for name, value in (
            ("transpose", transpose or None),
            ("answers_per_pair", answers_per_pair),
            ("labels", labels),
        ):
            checks.require(value is None, name, "is for a matrix of wins (matrix)", value)
        given = find_answers(table, columns, outcomes, skip_self, header)
        checks.require(len(given.winner) > 0, "answers", "must not be empty", "none")
        tied = given.tied if given.tied.any() else None
        made = cls.from_pairs(given.winner, given.loser, given.times, len(given.items), given.items)
        known = {"raters": given.rater, "rater_labels": given.raters, "tied": tied, "left_out": given.left_out}
        return dataclasses.replace(made, **known)

    def in_words(self) -> str:
        """Say who beat whom most often: whether answers were read the right way round.

        Returns:
          A sentence without its full stop.

        Example:
          >>> jr.Comparisons.from_matrix([[0, 3], [1, 0]], ["owl", "elk"]).in_words()
          "'owl' beat 'elk' 3 times, and lost 1 time"
        """
        rows = self.added_up()
        place = int(np.argmax(rows.row_weights))
        first, second = rows.winners[place], rows.losers[place]
        back = rows.row_weights[(rows.winners == second) & (rows.losers == first)].sum()
        won, lost = (f"{count:,.6g} time{'' if count == 1 else 's'}" for count in (rows.row_weights[place], back))
        return f"{self.labels[first]!r} beat {self.labels[second]!r} {won}, and lost {lost}"

    def save(self, path: str | Path) -> None:
        """Write the answers as CSV with the columns winner,loser,count[,rater], which `read` reads.

        Weights are written with all digits. Items without answers, and which rows are ties, are not written.

        Args:
          path: file to write; an existing one is replaced.

        Example:
          >>> import pathlib, tempfile
          >>> with tempfile.TemporaryDirectory() as folder:
          ...     path = pathlib.Path(folder, "answers.csv")
          ...     jr.Comparisons.from_pairs(["fox"], ["elk"]).save(path)
          ...     print(path.read_text().split())
          ['winner,loser,count', 'fox,elk,1.0']
        """
        has_rater = self.raters is not None
        with atomic_write(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["winner", "loser", "count", "rater"][: 3 + has_rater])
            rows = zip(self.winners, self.losers, self.row_weights.tolist(), self.rater_names(), strict=True)
            for a, b, count, rater in rows:
                writer.writerow([self.labels[a], self.labels[b], repr(float(count)), rater][: 3 + has_rater])


SHARE_TOTALS = {1: 0.011, 100: 1.1, 1000: 1.1}
"""What the two shares of a pair may add up to, and by how much they may miss it because both are rounded."""


def total_of_shares(wins: Float[np.ndarray, "K K"]) -> float | None:
    """What all pairs add up to, if it is the same for all of at least three, as it is for shares; None otherwise."""
    totals = (wins + wins.T)[np.triu_indices(len(wins), 1)]
    totals = totals[totals > 0]
    if len(totals) < 3:
        return None
    near = (float(whole) for whole, slack in SHARE_TOTALS.items() if (np.abs(totals - whole) <= slack).all())
    return next(near, None)
