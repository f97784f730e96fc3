"""Tables from files and data frames: text in any usual encoding and form, gzip, Parquet, standard input.

Where pyarrow is installed, it reads large CSV files. What it cannot read goes to the plain reader, which also knows the
line of every row.
"""

import csv
import gzip
import importlib.util
import io
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxrank.data.columns import Column, Table, column_of, table_of_records
from jaxrank.data.encodings import decode

MIN_PYARROW_BYTES = 2**20
"""Bytes of text from which pyarrow, if it is installed, is worth its import."""
DELIMITERS = {"\\t": "\t", "tab": "\t", "space": " ", "comma": ",", "semicolon": ";"}
"""Names of delimiters that are awkward to type."""
WHITESPACE = " "
"""As a delimiter: any run of blanks."""


def read_table(
    source: str | Path,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    header: bool | None = None,
    fast: bool = True,
) -> Table:
    r"""Read the table in a file or on standard input.

    Args:
      source: path of a CSV, TSV, space-separated, JSON, JSONL or Parquet file, perhaps gzipped; "-" is standard input.
      delimiter: one character, or tab, space, comma or semicolon by name; None takes whichever of tab, semicolon,
        comma and vertical bar is most frequent in the first line, or else blanks.
      encoding: such as utf-8; None finds it, see `decode`.
      header: whether the first row names the columns. None takes it as names; `find_answers` decides whether they are.
      fast: read large files with pyarrow if it is installed.

    Returns:
      The table.

    Raises:
      ValueError: naming the file, and the line where there is one, if it cannot be read.

    Example:
      >>> import pathlib, tempfile
      >>> from jaxrank.data.tables import read_table
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = pathlib.Path(folder, "answers.csv")
      ...     _ = path.write_text("winner,loser\nfox,elk\n")
      ...     table = read_table(path)
      >>> table.names, table.columns[1].values, table.lines
      (['winner', 'loser'], ['elk'], [2])
    """
    delimiter = _checked_delimiter(delimiter)
    data, name = _bytes_of(source)
    if data[:4] == b"PAR1":
        return _from_parquet(data, name)
    if not data.strip():
        raise ValueError(f"{name} must hold answers, got an empty file")
    fast &= len(data) >= MIN_PYARROW_BYTES and encoding is None and delimiter != WHITESPACE and header is not False
    if fast and importlib.util.find_spec("pyarrow") is not None and data[:1] not in (b"{", b"["):
        table = _from_arrow_csv(data, delimiter)
        if table is not None:
            return table
    text = decode(data, name, encoding)
    if text.lstrip()[:1] in ("{", "["):
        return table_of_records(_json_rows(text, name))
    return _from_text(text, delimiter, header)


def is_fast(table: Table) -> bool:
    """Decide whether pyarrow read the table.

    The numbers of its lines are then row counts, which blank lines and line breaks inside quotes make wrong.

    Args:
      table: what `read_table` returned.

    Returns:
      True if pyarrow read it; also for tables from data frames and Parquet files, which have no lines.

    Example:
      >>> from jaxrank.data import columns, tables
      >>> tables.is_fast(columns.table_of_records([(1, {"winner": "fox", "loser": "elk"})]))
      False
    """
    return isinstance(table.lines, range)


def table_of_frame(frame: Any) -> Table:
    """Make a table from a data frame.

    Args:
      frame: of pandas, polars or pyarrow; or any object with the Arrow stream or dataframe interchange interface
        where pyarrow is installed. Without pyarrow, `frame[name]` must give a column that NumPy understands.

    Returns:
      The table.

    Raises:
      ValueError: if the object is not a data frame.

    Example:
      >>> import pandas
      >>> from jaxrank.data.tables import table_of_frame
      >>> table = table_of_frame(pandas.DataFrame({"winner": ["fox", "owl"], "loser": ["elk", "elk"]}))
      >>> table.names, table.columns[0].values
      (['winner', 'loser'], ['fox', 'owl'])
    """
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
    columns = [column_of(np.asarray(frame[name], object).tolist()) for name in names]
    return _table(list(map(str, names)), columns)


def _checked_delimiter(delimiter: str | None) -> str | None:
    """The delimiter as one character; None where it is to be found."""
    if delimiter is None:
        return None
    delimiter = DELIMITERS.get(delimiter, delimiter)
    if len(delimiter) != 1 or delimiter in '"\r\n\0':
        raise ValueError(f"delimiter must be one character, or tab or space, got {delimiter!r}")
    return delimiter


def _bytes_of(source: str | Path) -> tuple[bytes, str]:
    """The content of a file, unzipped, and its name for error messages."""
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
    """The table in delimited text; rows keep the line where they end, for error messages."""
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
    columns = [column_of(cells) for cells in zip(*(cells for _, cells in body), strict=True)]
    return Table(names, columns or [Column(np.zeros(0, int), [])] * width, [n for n, _ in body], not numbered)


def _table(names: list[str], columns: list[Column]) -> Table:
    """A table whose rows have no lines, so that they are counted."""
    count = len(columns[0].codes) if columns else 0
    return Table(names, columns, range(1, count + 1), has_header=True)


def _from_arrow(table: Any) -> Table:
    """The table in a pyarrow table; pyarrow finds the distinct cells, and Python sees only those."""
    columns = []
    for column in table.columns:
        encoded = column.combine_chunks().dictionary_encode()
        if hasattr(encoded, "combine_chunks"):
            encoded = encoded.combine_chunks()
        distinct = column_of(encoded.dictionary.to_pylist())
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(int)
        columns.append(Column(np.append(distinct.codes, -1)[codes], distinct.values))
    return _table(list(map(str, table.column_names)), columns)


def _from_parquet(data: bytes, name: str) -> Table:
    """The table in a Parquet file, for which there is no reader but pyarrow's."""
    if importlib.util.find_spec("pyarrow") is None:
        raise ValueError(f"{name} is a Parquet file, which needs pyarrow: pip install 'jaxrank[files]'")
    import pyarrow
    import pyarrow.parquet

    try:
        return _from_arrow(pyarrow.parquet.read_table(io.BytesIO(data)))
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{name} must be a whole Parquet file: {error}") from None


def _from_arrow_csv(data: bytes, delimiter: str | None) -> Table | None:
    """The table as pyarrow reads it; None where it cannot, or where the plain reader guesses better."""
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
