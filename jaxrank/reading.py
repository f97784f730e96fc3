"""Files of answers: text, delimiter, header and columns, found out where they can be and asked for where not."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

NAMES = {
    "winner": ("winner", "won", "preferred", "chosen", "label"),
    "loser": ("loser", "lost", "rejected"),
    "left": ("left", "model_a", "item_a", "player_a", "a"),
    "right": ("right", "model_b", "item_b", "player_b", "b"),
    "count": ("count", "weight", "n", "times"),
    "rater": ("rater", "worker", "judge", "user", "annotator"),
}
"""What a column may be called, by what it means; capitals do not matter, and of two names the first wins."""

LEFT_WON = frozenset({"left", "model_a", "item_a", "player_a", "a", "first"})
RIGHT_WON = frozenset({"right", "model_b", "item_b", "player_b", "b", "second"})
TIED = frozenset({"tie", "draw", "equal", "both", "tie (bothbad)", "both_bad", "bothbad", "tie (both bad)"})

LAYOUTS = "winner,loser[,count] or left,right,winner[,rater] or model_a,model_b,winner"


class Answer(NamedTuple):
    """One line of a file: who won against whom, how often, who said so; ties name both sides."""

    winner: str
    loser: str
    times: float
    tie: bool
    rater: str | None


def read_answers(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> list[Answer]:
    """The answers in a CSV, TSV or JSONL file."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"path must be a file of answers, got {str(path)!r}")
    text = decode(path.read_bytes(), str(path), encoding)
    if not text.strip():
        raise ValueError(f"path must be a file with answers, got the empty file {str(path)!r}")
    if path.suffix.lower() in (".jsonl", ".ndjson", ".json") or text.lstrip()[0] in "{[":
        return list(answers(_json_rows(text), columns))
    return list(answers(_table_rows(text, delimiter, columns), columns))


def decode(data: bytes, name: str, encoding: str | None = None) -> str:
    """Text from bytes: by the mark at the beginning, else UTF-8, else the usual Western code page.

    A file in which some lines are UTF-8 and others are not was put together from two; no guess can be right for both.
    """
    if encoding is not None:
        try:
            return data.decode(encoding)
        except (UnicodeDecodeError, LookupError) as error:
            raise ValueError(f"encoding must fit the file {name!r}, got {encoding!r}: {error}") from None
    for mark, kind in ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if data.startswith(mark):
            return decode(data, name, kind)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    lines = data.splitlines()
    bad = [number for number, line in enumerate(lines, 1) if not _is_utf8(line)]
    other = [number for number, line in enumerate(lines, 1) if not line.isascii() and _is_utf8(line)]
    if other:
        raise ValueError(
            f"the file {name!r} must have one encoding, got UTF-8 in line {other[0]} and something else in line "
            f"{bad[0]}: save it as UTF-8, or give encoding="
        )
    return decode(data, name, "cp1252")


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _json_rows(text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Objects, one per line or in one list, with their line (or position) from 1."""
    try:
        if text.lstrip().startswith("["):
            rows = list(enumerate(json.loads(text), 1))
        else:
            rows = [(number, json.loads(line)) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    except json.JSONDecodeError as error:
        raise ValueError(f'a line of JSON must be an object such as {{"winner": 1, "loser": 2}}: {error}') from None
    for number, row in rows:
        if not isinstance(row, dict):
            raise ValueError(f"line {number}: must be a JSON object with the columns {LAYOUTS}, got {row!r}")
        yield number, row


def _table_rows(text: str, delimiter: str | None, columns) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Rows of a delimited file by column name, with their line from 1."""
    first = next(line for line in text.splitlines() if line.strip())
    if delimiter is None:
        counts = {mark: first.count(mark) for mark in ("\t", ";", ",", "|")}
        delimiter = max(counts, key=lambda mark: counts[mark]) if max(counts.values()) else ","
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True)
    header: list[str] | None = None
    for row in reader:
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        number = reader.line_num
        if header is None:
            if not _is_data(cells, columns):
                header = cells
                continue
            header = ["winner", "loser", "count"][: len(cells)]
        if len(cells) != len(header):
            raise ValueError(f"line {number}: must have {len(header)} columns ({', '.join(header)}), got {len(cells)}")
        yield number, dict(zip(header, cells, strict=True))


def _is_data(cells: list[str], columns) -> bool:
    """Whether a first row is no header: two names, or two names and a number, that are no layout of columns."""
    if columns or _layout(_known_columns(cells)) is not None:
        return False
    return len(cells) == 2 or (len(cells) == 3 and _number(cells[2]) is not None)


def answers(rows: Iterable[tuple[int, Mapping[str, Any]]], columns: Mapping[str, str] | None) -> Iterator[Answer]:
    """Answers from numbered rows; `columns` says which column means what, where the names do not."""
    where: dict[str, str] | None = None
    for line, row in rows:
        if where is None:
            where = _find_columns([str(name) for name in row], columns)
        cells = {meaning: str(row[name]).strip() for meaning, name in where.items() if row.get(name) not in (None, "")}
        missing = [name for meaning, name in where.items() if meaning not in cells and meaning != "rater"]
        if missing:
            raise ValueError(f"line {line}: column {missing[0]!r} must not be empty")
        yield _answer(line, cells)


def _answer(line: int, cells: dict[str, str]) -> Answer:
    count, tie = 1.0, False
    if "count" in cells:
        number = _number(cells["count"])
        if number is None or not 0 <= number < float("inf"):
            raise ValueError(f"line {line}: count must be a number of at least 0, got {cells['count']!r}")
        count = number
    if "loser" in cells:
        winner, loser = cells["winner"], cells["loser"]
    else:
        left, right, said = cells["left"], cells["right"], cells["winner"]
        if said.lower() in TIED:
            winner, loser, tie = left, right, True
        elif said == left or (said.lower() in LEFT_WON and said != right):
            winner, loser = left, right
        elif said == right or said.lower() in RIGHT_WON:
            winner, loser = right, left
        else:
            rule = f"must be {left!r}, {right!r}, 'left', 'right', 'model_a', 'model_b' or 'tie'"
            raise ValueError(f"line {line}: winner {rule}, got {said!r}")
    if winner == loser:
        raise ValueError(f"line {line}: an item must not be compared with itself, got {winner!r} twice")
    return Answer(winner, loser, count, tie, cells.get("rater"))


def _find_columns(found: list[str], columns: Mapping[str, str] | None) -> dict[str, str]:
    """Which column holds what."""
    for meaning, name in (columns or {}).items():
        if meaning not in NAMES:
            raise ValueError(f"columns must name some of {', '.join(NAMES)}, got {meaning!r}")
        if name not in found:
            raise ValueError(f"columns must name columns of the file ({', '.join(found)}), got {name!r}")
    where = {**_known_columns(found), **(columns or {})}
    needed = _layout(where)
    if needed is None:
        raise ValueError(f"the columns must be {LAYOUTS}, got {', '.join(found)}; name yours with columns")
    return {meaning: name for meaning, name in where.items() if meaning in (*needed, "count", "rater")}


def _known_columns(found: list[str]) -> dict[str, str]:
    """What the columns mean, by their names."""
    lower = {name.lower(): name for name in reversed(found)}
    guess = {meaning: next((lower[n] for n in names if n in lower), None) for meaning, names in NAMES.items()}
    return {meaning: name for meaning, name in guess.items() if name is not None}


def _layout(where: Mapping[str, str]) -> tuple[str, ...] | None:
    for needed in (("winner", "loser"), ("left", "right", "winner")):
        if set(needed) <= set(where):
            return needed
    return None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return None if value != value else value
