"""Tables as they come: text in any usual encoding and form, gzip, Parquet, standard input, data frames.

A table is a set of columns. A column keeps each distinct cell once, so that a million rows cost little more than their
codes. Where pyarrow is installed large CSV files are read with it; whatever it cannot read is read again by the plain
reader, which can name the line.
"""

import csv
import gzip
import importlib.util
import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrank.data.encodings import decode

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "<na>"})
"""Cells that say nothing; capitals do not matter."""
LARGE = 2**20
"""Bytes of text from which pyarrow, if it is installed, is worth its import."""
DELIMITERS = {"\\t": "\t", "tab": "\t", "space": " ", "comma": ",", "semicolon": ";"}
WHITESPACE = " "
"""As a delimiter: any run of blanks."""


class Column(NamedTuple):
    """Cells by code: `values[codes[row]]`; code -1 is a missing cell."""

    codes: np.ndarray
    values: list[str]


class Table(NamedTuple):
    """Named columns of equal length."""

    names: list[str]
    columns: list[Column]
    lines: Sequence[int]
    """Line of each row in its file, from 1; for tables without lines, the row's number from 1."""
    has_header: bool
    """Whether the names are those of the table; else they are numbers from 1."""


def read_table(
    source: str | Path,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    header: bool | None = None,
    fast: bool = True,
) -> Table:
    """The table in a file, or on standard input if the source is "-".

    Args:
      source: path of a CSV, TSV, space-separated, JSON, JSONL or Parquet file, perhaps gzipped.
      delimiter: one character, or tab, space, comma, semicolon; found out if not given.
      encoding: found out if not given.
      header: whether the first row names the columns; found out by the caller, from the names, if not given.
      fast: read large files with pyarrow if it is installed.
    """
    delimiter = _checked_delimiter(delimiter)
    data, name = _bytes_of(source)
    if data[:4] == b"PAR1":
        return _from_parquet(data, name)
    if not data.strip():
        raise ValueError(f"{name} must hold answers, got an empty file")
    fast &= len(data) >= LARGE and encoding is None and delimiter != WHITESPACE and header is not False
    if fast and importlib.util.find_spec("pyarrow") is not None and data[:1] not in (b"{", b"["):
        table = _from_arrow_csv(data, delimiter)
        if table is not None:
            return table
    text = decode(data, name, encoding)
    if text.lstrip()[:1] in ("{", "["):
        return table_of_records(_json_rows(text, name))
    return _from_text(text, delimiter, header)


def is_fast(table: Table) -> bool:
    """Whether pyarrow read it, so that lines are counted and not known."""
    return isinstance(table.lines, range)


def table_of_frame(frame: Any) -> Table:
    """The table in a data frame: pandas, polars, pyarrow, or anything with the Arrow or dataframe interface."""
    arrow = importlib.util.find_spec("pyarrow") is not None
    if arrow and (hasattr(frame, "__arrow_c_stream__") or hasattr(frame, "__dataframe__")):
        import pyarrow

        if hasattr(frame, "__arrow_c_stream__"):
            return _from_arrow(pyarrow.table(frame))
        import pyarrow.interchange

        return _from_arrow(pyarrow.interchange.from_dataframe(frame))
    names = getattr(frame, "column_names", None) or getattr(frame, "columns", None)
    if names is None:
        rule = "must be a data frame (pandas, polars, pyarrow, or with the Arrow interface and pyarrow installed)"
        raise ValueError(f"frame {rule}, got {type(frame).__name__}")
    columns = [_column(np.asarray(frame[name], object).tolist()) for name in names]
    return _table(list(map(str, names)), columns, has_header=True)


def table_of_records(rows: Iterable[tuple[int, Mapping[str, Any]]]) -> Table:
    """The table in numbered dictionaries; a column that a row lacks is missing there."""
    rows = list(rows)
    names = list(dict.fromkeys(str(name) for _, row in rows for name in row))
    named = [{str(name): value for name, value in row.items()} for _, row in rows]
    columns = [_column([row.get(name) for row in named]) for name in names]
    return Table(names, columns, [line for line, _ in rows], has_header=True)


def _checked_delimiter(delimiter: str | None) -> str | None:
    if delimiter is None:
        return None
    delimiter = DELIMITERS.get(delimiter, delimiter)
    if len(delimiter) != 1 or delimiter in '"\r\n\0':
        raise ValueError(f"delimiter must be one character, or tab or space, got {delimiter!r}")
    return delimiter


def _bytes_of(source: str | Path) -> tuple[bytes, str]:
    """The content of a file, unpacked, and what to call it."""
    if str(source) == "-":
        data, name = sys.stdin.buffer.read(), "standard input"
    else:
        path, name = Path(source), repr(str(source))
        if path.is_dir():
            raise ValueError(f"the file of answers must be a file, got the folder {name}")
        if not path.exists():
            raise ValueError(f"the file of answers must exist, got {name}, and there is no such file")
        data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError) as error:
            raise ValueError(f"{name} must be a whole gzip file: {error}") from None
    return data, name


def _json_rows(text: str, name: str) -> Iterable[tuple[int, Mapping[str, Any]]]:
    """Objects, one per line or in one list, with their line (or position) from 1."""
    try:
        if text.lstrip().startswith("["):
            rows = list(enumerate(json.loads(text), 1))
        else:
            rows = [(number, json.loads(line)) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(
            f'{name} must hold JSON objects such as {{"winner": 1, "loser": 2}}, one per line or in a list: {error}'
        ) from None
    for number, row in rows:
        if not isinstance(row, dict):
            raise ValueError(f"line {number}: must be a JSON object, got {row!r}")
    return rows


def _from_text(text: str, delimiter: str | None, header: bool | None) -> Table:
    first = next(line for line in text.split("\n") if line.strip())
    if delimiter is None:
        counts = {mark: first.count(mark) for mark in ("\t", ";", ",", "|")}
        delimiter = max(counts, key=lambda mark: counts[mark]) if max(counts.values()) else WHITESPACE
    if delimiter == WHITESPACE:
        rows = [(number, line.split()) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    else:
        reader = csv.reader(io.StringIO(text, newline="\n"), delimiter=delimiter, skipinitialspace=delimiter != "\t")
        try:
            rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
        except csv.Error as error:
            raise ValueError(f"line {reader.line_num}: {error}") from None
        rows = [(number, cells) for number, cells in rows if any(cells)]
    width = len(rows[0][1])
    for number, cells in rows:
        if len(cells) != width:
            raise ValueError(f"line {number}: must have {width} columns ({', '.join(rows[0][1])}), got {len(cells)}")
    numbered = header is False
    names = [str(place) for place in range(1, width + 1)] if numbered else rows[0][1]
    body = rows if numbered else rows[1:]
    columns = [_column(cells) for cells in zip(*(cells for _, cells in body), strict=True)]
    return Table(names, columns or [Column(np.zeros(0, int), [])] * width, [n for n, _ in body], not numbered)


def without_header(table: Table) -> Table:
    """The table whose first row was taken for names, with that row among its data and numbers for names."""
    columns = []
    for name, column in zip(table.names, table.columns, strict=True):
        cell = _column([name])
        values = {value: code for code, value in enumerate(column.values)}
        code = -1 if not cell.values else values.get(cell.values[0], len(column.values))
        extended = [*column.values, *cell.values] if code == len(column.values) else column.values
        columns.append(Column(np.concatenate([[code], column.codes]), extended))
    names = [str(place) for place in range(1, len(table.names) + 1)]
    return Table(names, columns, [1, *table.lines], has_header=False)


def _column(cells: Iterable[Any]) -> Column:
    """Cells of any kind as text by code."""
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


def _table(names: list[str], columns: list[Column], *, has_header: bool) -> Table:
    count = len(columns[0].codes) if columns else 0
    return Table(names, columns, range(1, count + 1), has_header)


def _from_arrow(table: Any) -> Table:
    """A pyarrow table; a column is encoded there, and only its distinct cells are looked at here."""
    columns = []
    for column in table.columns:
        encoded = column.combine_chunks().dictionary_encode()
        if hasattr(encoded, "combine_chunks"):
            encoded = encoded.combine_chunks()
        distinct = _column(encoded.dictionary.to_pylist())
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(int)
        columns.append(Column(np.append(distinct.codes, -1)[codes], distinct.values))
    return _table(list(map(str, table.column_names)), columns, has_header=True)


def _from_parquet(data: bytes, name: str) -> Table:
    if importlib.util.find_spec("pyarrow") is None:
        raise ValueError(f"{name} is a Parquet file, which needs pyarrow: pip install 'jaxrank[files]'")
    import pyarrow
    import pyarrow.parquet

    try:
        return _from_arrow(pyarrow.parquet.read_table(io.BytesIO(data)))
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{name} must be a whole Parquet file: {error}") from None


def _from_arrow_csv(data: bytes, delimiter: str | None) -> Table | None:
    """The table as pyarrow reads it; None where it cannot, or where the plain reader knows better."""
    import pyarrow
    import pyarrow.csv

    first = data.split(b"\n", 1)[0]
    if delimiter is None:
        counts = {mark: first.count(mark.encode()) for mark in ("\t", ";", ",", "|")}
        delimiter = max(counts, key=lambda mark: counts[mark])
        if not counts[delimiter]:
            return None
    try:
        names = next(csv.reader([first.decode("utf-8-sig")], delimiter=delimiter))
        table = pyarrow.csv.read_csv(
            io.BytesIO(data),
            parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types={name: pyarrow.dictionary(pyarrow.int32(), pyarrow.string()) for name in names},
                strings_can_be_null=True,
            ),
        )
    except (pyarrow.ArrowException, UnicodeDecodeError, ValueError, csv.Error, StopIteration):
        return None
    found = _from_arrow(table)
    return found._replace(names=[name.strip() for name in found.names], lines=range(2, 2 + table.num_rows))
