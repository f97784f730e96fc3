"""Answers in a table: which column means what, who won, how often, and who said so."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from jaxrank.data.columns import Column, Table, to_number, without_header
from jaxrank.data.labels import sorted_labels

NAMES = {
    "winner": ("winner", "won", "preferred", "chosen", "label"),
    "loser": ("loser", "lost", "rejected"),
    "left": ("left", "model_a", "item_a", "player_a", "a", "item1", "player1", "option1"),
    "right": ("right", "model_b", "item_b", "player_b", "b", "item2", "player2", "option2"),
    "count": ("count", "weight", "n", "times"),
    "rater": ("rater", "worker", "judge", "user", "annotator"),
}
"""Names that a column may have, by meaning. Case does not matter; of several that match, the first one counts."""

LEFT_WON = frozenset({"left", "model_a", "item_a", "player_a", "a", "first"})
RIGHT_WON = frozenset({"right", "model_b", "item_b", "player_b", "b", "second"})
TIED = frozenset({"tie", "draw", "equal", "both", "tie (bothbad)", "both_bad", "bothbad", "tie (both bad)"})
CODES = ({"1": "left", "2": "right", "0": "tie"}, {"1": "left", "-1": "right", "0": "tie"})
"""Numeric codes for who won. With 0 and 1 alone they cannot be told apart: then the caller must say (`outcomes`)."""

LAYOUTS = "winner,loser[,count] or left,right,winner[,rater] or model_a,model_b,winner"
MAX_COUNT = 1e15
"""Largest count: far below 2**53, above which a 64-bit float cannot count single answers."""


class Answers(NamedTuple):
    """Who won against whom, how often, and who said so, in R rows.

    A tie stands twice, once each way, with half its weight.

    Attributes:
      winner: item that won each row, as an index into `items`.
      loser: item that lost each row.
      items: labels of the K items, sorted.
      times: how often each answer was given; half that for a tie.
      tied: whether each row is half of a tie.
      rater: who gave each answer, as an index into `raters`; -1 where nobody is named, None without such a column.
      raters: labels of the raters, sorted.
      left_out: number of rows that were not used, by reason.

    Example:
      >>> from jaxrank.data import answers, columns
      >>> rows = [{"left": "fox", "right": "elk", "winner": "tie"}, {"left": "fox", "right": "elk", "winner": "left"}]
      >>> found = answers.find_answers(columns.table_of_records(enumerate(rows, 1)))
      >>> found.winner.tolist(), found.times.tolist(), found.tied.tolist()
      ([1, 1, 0], [0.5, 1.0, 0.5], [True, False, True])
    """

    winner: Int[np.ndarray, "R"]
    loser: Int[np.ndarray, "R"]
    items: tuple[str, ...]
    times: Float[np.ndarray, "R"]
    tied: Bool[np.ndarray, "R"]
    rater: Int[np.ndarray, "R"] | None
    raters: tuple[str, ...]
    left_out: dict[str, int]


def find_answers(
    table: Table,
    columns: Mapping[str, str | int] | None = None,
    outcomes: Mapping[str, str | int] | None = None,
    skip_self: bool = False,
    header: bool | None = None,
) -> Answers:
    """Find the answers in a table.

    Rows without a winner are questions that nobody answered; they are left out and counted.

    Args:
      table: columns winner and loser, or left, right and winner; perhaps count and rater. See `NAMES` for synonyms.
      columns: meaning of columns whose names do not tell it: from a key of `NAMES` to a name, or a number from 1.
      outcomes: what stands for "left", "right" and "tie" in the winner column, if neither words nor names do.
      skip_self: leave out rows that compare an item with itself; otherwise they raise `ValueError`.
      header: whether the first row names the columns; None decides by what the row contains.

    Returns:
      The answers.

    Raises:
      ValueError: naming the line, for the first row that makes no sense; or naming the columns, if they are unknown.

    Example:
      >>> from jaxrank.data import answers, columns
      >>> table = columns.table_of_records([(1, {"better": "fox", "worse": "elk", "n": 3})])
      >>> found = answers.find_answers(table, columns={"winner": "better", "loser": "worse"})
      >>> found.items, found.winner.tolist(), found.times.tolist()
      (('elk', 'fox'), [1], [3.0])
    """
    table, where = _find_columns(table, dict(columns or {}), header)
    if outcomes is not None and set(outcomes) - {"left", "right", "tie"}:
        raise ValueError(f"outcomes must say what left, right and tie are, got {', '.join(outcomes)}")
    part = {meaning: table.columns[place] for meaning, place in where.items()}
    needed = [meaning for meaning in ("winner", "loser", "left", "right", "count") if meaning in part]
    said = part["winner"].codes >= 0
    for meaning in needed:
        # A row without a winner is a question that nobody answered; any other gap is a mistake.
        _refuse(table, said & (part[meaning].codes < 0), f"column {table.names[where[meaning]]!r} must not be empty")
    table = table._replace(lines=np.asarray(table.lines)[said])
    part = {meaning: column._replace(codes=column.codes[said]) for meaning, column in part.items()}
    sides = ("winner", "loser") if "loser" in part else ("left", "right")
    items = list(dict.fromkeys([*part[sides[0]].values, *part[sides[1]].values]))
    number = {name: code for code, name in enumerate(items)}
    first, second = (_mapped(part[side], number) for side in sides)
    tied = np.zeros(len(first), bool)
    if sides[0] == "left":
        swapped, tied = _outcomes(table, part, first, second, number, outcomes)
        first, second = np.where(swapped, second, first), np.where(swapped, first, second)
    times = _times(table, part.get("count"), len(first))
    same = first == second
    if same.any() and not skip_self:
        row = int(np.argmax(same))
        raise ValueError(
            f"line {table.lines[row]}: an item must not be compared with itself, got {items[first[row]]!r} twice; "
            f"such rows, {int(same.sum())} in all, can be left out (skip_self)"
        )
    # A tie's second row comes after all others.
    rows = np.concatenate([np.flatnonzero(~same), np.flatnonzero(tied & ~same)])
    back = np.arange(len(rows)) >= (~same).sum()
    order, labels = sorted_labels(items)
    winner, loser = order[np.where(back, second[rows], first[rows])], order[np.where(back, first[rows], second[rows])]
    rater, raters = None, ()
    if "rater" in part:
        place, raters = sorted_labels(part["rater"].values)
        rater = np.append(place, -1)[part["rater"].codes[rows]]
    left_out = {"without an answer": int((~said).sum()), "that compare an item with itself": int(same.sum())}
    left_out = {reason: count for reason, count in left_out.items() if count}
    times = np.where(tied, times / 2, times)[rows]
    return Answers(winner, loser, labels, times, tied[rows], rater, raters, left_out)


def _outcomes(
    table: Table,
    part: Mapping[str, Column],
    left: Int[np.ndarray, "R"],
    right: Int[np.ndarray, "R"],
    number: Mapping[str, int],
    outcomes: Mapping[str, str | int] | None,
) -> tuple[Bool[np.ndarray, "R"], Bool[np.ndarray, "R"]]:
    """Whether the right side won, and whether it was a tie, row by row."""
    said = part["winner"]
    named = _mapped(said, number)
    is_left, is_right = named == left, named == right
    words = _words(said.values, outcomes)
    codes = None
    if not words and outcomes is None and not (is_left | is_right).all():
        codes = _numeric_codes(said.values)
        shared = sorted(set(codes or ()) & set(number))
        if codes and shared:
            rule = "must be told from the items, some of which have the same names"
            raise ValueError(
                f"the codes of the winner column {rule}, got {', '.join(shared)}; say which is which (outcomes)"
            )
    words = codes or words
    meaning = np.asarray([words.get(value, "") for value in said.values] + [""], object)[said.codes]
    by_word = np.isin(meaning, ["left", "right", "tie"])
    if outcomes is None and codes is None:
        # An item may be called "left" or "tie": its name takes precedence over the word.
        by_word &= ~(is_left | is_right)
    won_right = np.where(by_word, meaning == "right", is_right)
    tied = by_word & (meaning == "tie")
    unknown = ~by_word & ~is_left & ~is_right
    if unknown.any():
        row = int(np.argmax(unknown))
        names = [next(n for n, code in number.items() if code == side[row]) for side in (left, right)]
        rule = f"winner must be {names[0]!r}, {names[1]!r}, 'left', 'right', 'model_a', 'model_b' or 'tie'"
        hint = ""
        if set(said.values) <= {"0", "1"}:
            hint = "; say which number stands for which side, such as left=1,right=0 (outcomes)"
        raise ValueError(f"line {table.lines[row]}: {rule}, got {said.values[said.codes[row]]!r}{hint}")
    return won_right, tied


def _words(values: list[str], outcomes: Mapping[str, str | int] | None) -> dict[str, str]:
    """What words in the winner column mean."""
    if outcomes is not None:
        return {str(value): side for side, value in outcomes.items()}
    sides = (("left", LEFT_WON), ("right", RIGHT_WON), ("tie", TIED))
    return {value: side for value in values for side, known in sides if value.lower() in known}


def _numeric_codes(values: list[str]) -> dict[str, str] | None:
    """What numbers in the winner column mean; None if they fit no known code, or two."""
    plain = {value: value.removesuffix(".0").removeprefix("+") for value in values}
    for code in CODES:
        distinct = set(plain.values())
        if distinct <= set(code) and distinct != {"0"} and distinct != {"0", "1"}:
            return {value: code[short] for value, short in plain.items()}
    return None


def _times(table: Table, column: Column | None, rows: int) -> Float[np.ndarray, "R"]:
    """How often each answer was given; once without a column of counts."""
    if column is None:
        return np.ones(rows)
    values = np.asarray([to_number(value) for value in column.values] + [np.nan])
    times = values[column.codes]
    bad = ~((times >= 0) & (times <= MAX_COUNT))
    if bad.any():
        row = int(np.argmax(bad))
        rule = f"count must be a number from 0 to {MAX_COUNT:g}"
        raise ValueError(f"line {table.lines[row]}: {rule}, got {column.values[column.codes[row]]!r}")
    return times


def _mapped(column: Column, number: Mapping[str, int]) -> Int[np.ndarray, "R"]:
    """The column's cells as item numbers; -1 where a cell names no item."""
    return np.asarray([number.get(value, -1) for value in column.values] + [-1])[column.codes]


def _refuse(table: Table, rows: Bool[np.ndarray, "R"], rule: str) -> None:
    """Raise `ValueError` for the first of these rows, with its line in the file."""
    if rows.any():
        raise ValueError(f"line {table.lines[int(np.argmax(rows))]}: {rule}")


def _find_columns(table: Table, columns: dict[str, str | int], header: bool | None) -> tuple[Table, dict[str, int]]:
    """The table, with its first row among the data if that row is no header; and the place of every known column."""
    for meaning in columns:
        if meaning not in NAMES:
            raise ValueError(f"columns must name some of {', '.join(NAMES)}, got {meaning!r}")
    repeated = sorted({name for name in table.names if table.names.count(name) > 1})
    if table.has_header and header is None and not _is_header(table, columns):
        table = without_header(table)
    elif table.has_header and repeated:
        raise ValueError(f"columns must have different names, got {repeated[0]!r} twice")
    given = {meaning: _place(table, name) for meaning, name in columns.items()}
    known = _known_columns(table.names)
    if not table.has_header and not columns and len(table.names) in (2, 3):
        known = {"winner": 0, "loser": 1} | ({"count": 2} if len(table.names) == 3 else {})
    taken = set(given.values())
    where = {**{meaning: place for meaning, place in known.items() if place not in taken}, **given}
    needed = _layout(where)
    if needed is None:
        found = ", ".join(table.names)
        raise ValueError(f"the columns must be {LAYOUTS}, got {found}; say which column means what (columns)")
    return table, {meaning: place for meaning, place in where.items() if meaning in (*needed, "count", "rater")}


def _is_header(table: Table, columns: dict[str, str | int]) -> bool:
    """Whether the first row names columns: it holds names that are known or asked for, or items seen nowhere else."""
    names = table.names
    if any(str(name) in names for name in columns.values()) or _layout(_known_columns(names)) is not None:
        return True
    if columns:
        places = [_place(table, name) for meaning, name in columns.items() if meaning not in ("count", "rater")]
        values = {value for place in places for value in table.columns[place].values}
        return not any(names[place] in values for place in places)
    return not (len(names) == 2 or (len(names) == 3 and to_number(names[2]) == to_number(names[2])))


def _place(table: Table, name: str | int) -> int:
    """Position of a column, given by name or by number from 1."""
    if str(name) in table.names:
        return table.names.index(str(name))
    if str(name).isdecimal() and 1 <= int(name) <= len(table.names):
        return int(name) - 1
    found = ", ".join(table.names) if table.has_header else f"1 to {len(table.names)}"
    raise ValueError(f"columns must name columns of the file ({found}), got {str(name)!r}")


def _known_columns(found: list[str]) -> dict[str, int]:
    """Place of every column whose name tells its meaning."""
    lower = {name.lower(): place for place, name in reversed(list(enumerate(found)))}
    guess = {meaning: next((lower[n] for n in names if n in lower), None) for meaning, names in NAMES.items()}
    return {meaning: place for meaning, place in guess.items() if place is not None}


def _layout(where: Mapping[str, int]) -> tuple[str, ...] | None:
    """The columns that say who won, in whichever of the two layouts is complete; None if neither is."""
    for needed in (("winner", "loser"), ("left", "right", "winner")):
        if set(needed) <= set(where):
            return needed
    return None
