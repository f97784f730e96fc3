"""Files with one number per item: means or scores."""

import csv
from pathlib import Path
from typing import Literal

import numpy as np

COLUMNS = {
    "means": ("mean", "means", "borda", "borda_score", "probability", "value"),
    "scores": ("score", "scores", "btl", "btl_score", "theta", "value"),
}
"""What the column may be called."""


def read_numbers(path: str | Path, kind: Literal["means", "scores"]) -> np.ndarray:
    r"""One number per item from a CSV file: its column of that name, or its only column of numbers.

    Args:
      path: a CSV file in UTF-8, with or without a header.
      kind: "means" looks for a column named mean, borda, probability or the like; "scores" for score, btl, theta.

    Returns:
      The numbers, shape (K,).

    Raises:
      ValueError: if the file has no such column, or something else than numbers in it.

    Example:
      >>> path = getfixture("tmp_path") / "items.csv"
      >>> _ = path.write_text("item,score\nred,1.5\nblue,-0.5\n")
      >>> jr.read_numbers(path, "scores").tolist()
      [1.5, -0.5]
    """
    cells = _cells(kind, Path(path))
    for line, cell in cells:
        if not _is_number(cell):
            raise ValueError(f"{kind} must be numbers, got {cell.strip()!r} (line {line} of {str(path)!r})")
    if not cells:
        raise ValueError(f"{kind} must not be empty, got {str(path)!r}")
    return np.array([float(cell) for _, cell in cells])


def _cells(name: str, path: Path) -> list[tuple[int, str]]:
    """Line and text of every number."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{name} must be a text file in UTF-8, got {str(path)!r}") from None
    rows = [(number, row) for number, row in enumerate(csv.reader(lines), 1) if any(cell.strip() for cell in row)]
    if not rows:
        return []
    first = [cell.strip().lower() for cell in rows[0][1]]
    place = next((first.index(known) for known in COLUMNS[name] if known in first), None)
    has_header = place is not None or not any(_is_number(cell) for cell in first)
    body = rows[1:] if has_header else rows
    for number, row in body:
        if len(row) != len(first):
            raise ValueError(f"{name} must have {len(first)} columns in every line, got {len(row)} in line {number}")
    if place is None:
        numeric = [column for column in range(len(first)) if all(_is_number(row[column]) for _, row in body)]
        if len(first) > 1 and len(numeric) != 1:
            rule = f"must have a column named {COLUMNS[name][0]}, or only one column of numbers"
            raise ValueError(f"{name} {rule}, got {len(first)} columns ({', '.join(rows[0][1])}) in {str(path)!r}")
        place = numeric[0] if len(first) > 1 else 0
    return [(number, row[place]) for number, row in body]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
