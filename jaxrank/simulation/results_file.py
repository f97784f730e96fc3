"""A file of finished trials that survives a kill at any moment: an SQLite database with one row per trial.

One table, `trials`: instance, trial, one column for each field of `Runs`, and a checksum of the row; single numbers are
kept as such, arrays as the bytes of their rows. While it is open, no second process can write to it.
"""

import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

VERSION = 2
"""Of the tables."""


class ResultsFile:
    """Rows of finished trials.

    Attributes:
      rows: instance and trial of every undamaged row that the file held when it was opened, and their results.
    """

    def __init__(self, path: str | Path, fingerprint: str, row_shapes: dict[str, tuple[tuple[int, ...], Any]]):
        """Open or make the file for the simulation with this fingerprint, whose results have these shapes."""
        self.path = Path(path)
        self._shapes = row_shapes
        with _explained(path):
            self._connection = sqlite3.connect(self.path, timeout=0, isolation_level=None)
            try:
                self._open(repr(str(path)), fingerprint)
                self.rows = self._read()
            except BaseException:
                self.close()
                raise

    def _open(self, name: str, fingerprint: str) -> None:
        run = self._connection.execute
        # Once taken, the lock is kept until the file is closed.
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("BEGIN EXCLUSIVE")
        tables = {row[0] for row in run("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables:
            columns = ", ".join(f'"{column}"' for column in self._shapes)
            run("CREATE TABLE simulation (version INTEGER, fingerprint TEXT)")
            run("INSERT INTO simulation VALUES (?, ?)", (VERSION, fingerprint))
            rows = f"instance INTEGER, trial INTEGER, {columns}, checksum INTEGER"
            run(f"CREATE TABLE trials ({rows}, PRIMARY KEY (instance, trial))")
        elif tables != {"simulation", "trials"}:
            raise ValueError(f"resume_file must be a file that simulate wrote, got {name}, another database")
        found = run("SELECT version, fingerprint FROM simulation").fetchone()
        if found != (VERSION, fingerprint):
            rule = (
                "must belong to the same simulation (key, settings, budget, precision, version of the package's trials)"
            )
            raise ValueError(f"resume_file {rule}, got {name} of another one")
        run("COMMIT")

    def _read(self) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        columns = ", ".join(f'"{column}"' for column in self._shapes)
        stored = self._connection.execute(f"SELECT instance, trial, {columns}, checksum FROM trials")
        rows = [row for *row, checksum in stored if checksum == _checksum(row)]
        instance, trial, *fields = zip(*rows, strict=True) if rows else [()] * (2 + len(self._shapes))
        results = {}
        for (name, (shape, kind)), values in zip(self._shapes.items(), fields, strict=True):
            flat = np.frombuffer(b"".join(values), kind) if shape else np.asarray(values, kind)
            results[name] = flat.reshape(len(rows), *shape)
        return np.asarray(instance, int), np.asarray(trial, int), results

    def append(self, instance: np.ndarray, trial: np.ndarray, results: dict[str, np.ndarray]) -> None:
        """Add rows, all or none of them."""
        fields = [
            [row.tobytes() for row in np.ascontiguousarray(results[name], kind)]
            if shape
            else np.asarray(results[name]).tolist()
            for name, (shape, kind) in self._shapes.items()
        ]
        marks = ", ".join("?" * (3 + len(fields)))
        rows = [(*row, _checksum(row)) for row in zip(instance.tolist(), trial.tolist(), *fields, strict=True)]
        with _explained(self.path):
            self._connection.execute("BEGIN")
            self._connection.executemany(f"INSERT OR REPLACE INTO trials VALUES ({marks})", rows)
            self._connection.execute("COMMIT")

    def close(self) -> None:
        """Close the file and give up its lock."""
        self._connection.close()


def _checksum(row: Iterable[Any]) -> int:
    """Of a row's place and its results: a bit that flipped on disk must not become a result."""
    cells = [int(cell) if isinstance(cell, bool) else cell for cell in row]
    return zlib.crc32(b"|".join(cell if isinstance(cell, bytes) else repr(cell).encode() for cell in cells))


@contextmanager
def _explained(path: str | Path) -> Iterator[None]:
    """Say what SQLite's errors mean."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        name = repr(str(path))
        if "locked" in str(error):
            rule = f"must not be in use by another process, got {name}"
        elif "malformed" in str(error):
            rule = f"must be a whole file, got {name}, which is damaged: delete it, or use another one"
        elif isinstance(error, sqlite3.OperationalError):
            rule = f"must be a file that can be written, got {name}: {error}"
        else:
            rule = f"must be a file that simulate wrote, got {name}"
        raise ValueError(f"resume_file {rule}") from None
