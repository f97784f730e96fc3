"""Tables as named columns of text, and matrices of wins among them.

A column keeps each distinct cell once, so a million rows cost little more than their codes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "<na>"})
"""Cells without a value, in lower case."""


class Column(NamedTuple):
    """A column of R cells, each distinct text stored once.

    Attributes:
      codes: cell r reads `values[codes[r]]`; -1 marks a missing cell.
      values: the distinct texts.

    Example:
      >>> from jaxrank.data.columns import column_of
      >>> column = column_of(["fox", "elk", "NA", "fox"])
      >>> column.codes.tolist(), column.values
      ([0, 1, -1, 0], ['fox', 'elk'])
    """

    codes: Int[np.ndarray, "R"]
    values: list[str]


class Table(NamedTuple):
    """Named columns of equal length.

    Attributes:
      names: names of the columns.
      columns: the columns, in the same order.
      lines: line of each row in its file, counted from 1; for tables without lines, the row's number from 1.
      has_header: whether the names come from the table; otherwise they are "1", "2", ...

    Example:
      >>> from jaxrank.data.columns import table_of_records
      >>> table = table_of_records(enumerate([{"winner": "fox", "loser": "elk"}], 1))
      >>> table.names, table.columns[0].values, table.lines
      (['winner', 'loser'], ['fox'], [1])
    """

    names: list[str]
    columns: list[Column]
    lines: Sequence[int]
    has_header: bool


def column_of(cells: Iterable[Any]) -> Column:
    """Turn cells of any type into a column of text.

    Whole floats lose their ".0", so that 3 and 3.0 name the same item; texts in `MISSING` become missing cells.

    Args:
      cells: R cells; None is missing.

    Returns:
      The column.

    Example:
      >>> from jaxrank.data.columns import column_of
      >>> column_of([3, 3.0, " 3 ", None]).codes.tolist()
      [0, 0, 0, -1]
    """
    known: dict[Any, int] = {}
    texts: dict[str, int] = {}
    codes = []
    for cell in cells:
        if isinstance(cell, float) and cell.is_integer():
            cell = int(cell)
        code = known.get(cell)
        if code is None:
            text = "" if cell is None else str(cell).strip()
            code = -1 if text.lower() in MISSING else texts.setdefault(text, len(texts))
            known[cell] = code
        codes.append(code)
    return Column(np.asarray(codes, int), list(texts))


def table_of_records(rows: Iterable[tuple[int, Mapping[str, Any]]]) -> Table:
    """Make a table from numbered dictionaries.

    Args:
      rows: pairs of a line number and a dictionary from column names to cells. A column that a dictionary lacks is
        missing in that row.

    Returns:
      The table, with columns in the order in which their names appear.

    Example:
      >>> from jaxrank.data.columns import table_of_records
      >>> table = table_of_records([(1, {"winner": "a"}), (2, {"winner": "b", "count": 3})])
      >>> table.names, table.columns[1].codes.tolist()
      (['winner', 'count'], [-1, 0])
    """
    rows = list(rows)
    names = list(dict.fromkeys(str(name) for _, row in rows for name in row))
    named = [{str(name): value for name, value in row.items()} for _, row in rows]
    columns = [column_of([row.get(name) for row in named]) for name in names]
    return Table(names, columns, [line for line, _ in rows], has_header=True)


def without_header(table: Table) -> Table:
    """Turn the header back into the first row of data.

    Args:
      table: a table whose first row was taken for column names.

    Returns:
      The same table with one row more, and with "1", "2", ... as column names.

    Example:
      >>> from jaxrank.data.columns import table_of_records, without_header
      >>> table = without_header(table_of_records([(2, {"fox": "elk"})]))
      >>> table.names, [table.columns[0].values[code] for code in table.columns[0].codes]
      (['1'], ['fox', 'elk'])
    """
    columns = []
    for name, column in zip(table.names, table.columns, strict=True):
        cell = column_of([name])
        values = {value: code for code, value in enumerate(column.values)}
        code = -1 if not cell.values else values.get(cell.values[0], len(column.values))
        extended = [*column.values, *cell.values] if code == len(column.values) else column.values
        columns.append(Column(np.concatenate([[code], column.codes]), extended))
    names = [str(place) for place in range(1, len(table.names) + 1)]
    return Table(names, columns, [1, *table.lines], has_header=False)


def has_row_labels(table: Table) -> bool:
    """Decide whether the first column repeats the header, as in a matrix with names on both sides.

    Args:
      table: any table.

    Returns:
      True if the table has at least three columns and the first one lists the names of the others.

    Example:
      >>> from jaxrank.data.columns import has_row_labels, table_of_records
      >>> wins = [{"": "fox", "fox": 0, "elk": 3}, {"": "elk", "fox": 1, "elk": 0}]
      >>> has_row_labels(table_of_records(enumerate(wins, 1)))
      True
    """
    names, columns = table.names, table.columns
    if not (table.has_header and len(columns) > 2 and len(columns[0].codes) == len(names) - 1):
        return False
    return [columns[0].values[code] if code >= 0 else "" for code in columns[0].codes] == names[1:]


def find_matrix(table: Table) -> tuple[Float[np.ndarray, "K K"], list[str]] | None:
    """Read a square table as a matrix of wins.

    Args:
      table: K rows and K columns of numbers, perhaps with a column of labels in front. A missing cell is 0, a cell
        that is no number is NaN.

    Returns:
      The matrix, whose entry (i, j) is how often item i beat item j, and the K labels; None if it is not square.

    Example:
      >>> from jaxrank.data.columns import find_matrix, table_of_records
      >>> wins = [{"": "fox", "fox": 0, "elk": 3}, {"": "elk", "fox": 1, "elk": 0}]
      >>> find_matrix(table_of_records(enumerate(wins, 1)))
      (array([[0., 3.], [1., 0.]]), ['fox', 'elk'])
    """
    names, columns = table.names, table.columns
    if has_row_labels(table):
        labels, columns = names[1:], columns[1:]
    elif len(columns) == len(columns[0].codes) + table.has_header and table.has_header:
        # Without labels, the supposed header is the first row of numbers.
        return find_matrix(without_header(table))
    elif len(columns) == len(columns[0].codes):
        labels = names
    else:
        return None
    wins = [np.asarray([to_number(value) for value in column.values] + [0.0])[column.codes] for column in columns]
    return np.stack(wins, axis=1), labels


def to_number(text: str) -> float:
    """Convert a text to a number.

    Args:
      text: content of a cell.

    Returns:
      The number, or NaN if the text is none.

    Example:
      >>> from jaxrank.data.columns import to_number
      >>> to_number("2.5"), to_number("many")
      (2.5, nan)
    """
    try:
        return float(text)
    except ValueError:
        return float("nan")
