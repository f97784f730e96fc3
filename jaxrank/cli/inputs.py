"""Reading what people type and the files they name."""

import csv
import enum
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer


class Ranking(enum.Enum):
    """The algorithms that the commands offer, by name."""

    EVIDENCE = "EvidenceRank"
    LUCB = "LUCBRank"
    GAPS = "GapRank"


ALGORITHM: dict[str, Any] = {
    "help": "EvidenceRank, which needs fewest samples; LUCBRank as the paper has it; for simulate also GapRank, which "
    "finds the boundaries.",
    "case_sensitive": False,
}
ALPHA: Any = typer.Option(help="For LUCBRank: exponent of the paper's exploration rate, above 1.", show_default="1.1")


def alpha_of(algorithm: Ranking, alpha: float | None) -> float | None:
    """LUCBRank's alpha; None for an algorithm without."""
    if algorithm is Ranking.LUCB:
        return 1.1 if alpha is None else alpha
    if alpha is not None:
        raise ValueError(f"alpha belongs to LUCBRank's rate: give --algorithm lucbrank, got {algorithm.value}")
    return None


def named(report: dict[str, Any]) -> str:
    """The algorithm of a report, with its alpha if it has one."""
    return report["algorithm"] + ("" if report["alpha"] is None else f", alpha {report['alpha']:g}")


INTERRUPTED = 130
"""Exit code of a program that Ctrl-C ended."""


@contextmanager
def complaints() -> Iterator[None]:
    """Turn a bad value into one line on standard error and exit code 2."""
    try:
        yield
    except KeyboardInterrupt as error:
        typer.echo(str(error) or "interrupted", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except (ValueError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None


def keep_compiled_programs() -> None:
    """Keep JAX's compiled programs in the user's cache folder, so that a second call starts at once.

    A program may set this; the library never does. JAX's own environment variable goes first.
    """
    import jax

    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        jax.config.update("jax_compilation_cache_dir", str(home / "jaxrank" / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def numbers(name: str, text: str) -> list[float]:
    """Numbers from "0.5,0.4,0.3", or from the file of that name: the last column of a CSV, header optional."""
    path = Path(text)
    if not _looks_inline(text):
        if not path.is_file():
            raise ValueError(f"{name} must be numbers such as 0.5,0.4,0.3 or the path of a CSV file, got {text!r}")
        rows = [row for row in csv.reader(path.read_text(encoding="utf-8-sig").splitlines()) if any(row)]
        if rows and not _is_number(rows[0][-1]):
            rows = rows[1:]
        cells = [(f"line {line}", row[-1]) for line, row in enumerate(rows, start=1)]
    else:
        cells = [(f"entry {place}", cell) for place, cell in enumerate(text.split(","), start=1)]
    values = []
    for where, cell in cells:
        if not _is_number(cell):
            raise ValueError(f"{name} must be numbers, got {cell.strip()!r} ({where} of {text!r})")
        values.append(float(cell))
    if not values:
        raise ValueError(f"{name} must not be empty, got {text!r}")
    return values


def whole_numbers(name: str, text: str) -> tuple[int, ...]:
    """Whole numbers from "3,12"."""
    try:
        return tuple(int(cell) for cell in text.split(","))
    except ValueError:
        raise ValueError(f"{name} must be whole numbers such as 3,12, got {text!r}") from None


EXPERIMENT_1 = [0.5] + [0.5 - a / 40 for a in range(2, 16)]
"""The paper's Experiment 1: fifteen Bernoulli items, top 3 / middle / bottom 3."""


def only_one(**options: object) -> str | None:
    """The name of the option that was given, if any; two of them are an error."""
    given = [name for name, value in options.items() if value is not None]
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} exclude each other: give one of them")
    return given[0] if given else None


def cut(boundaries: str | None, sizes: str | None, clusters: int | None):
    """Where clusters end, from the three ways of saying it; None if not said."""
    import jaxrank as jr

    only_one(boundaries=boundaries, sizes=sizes, clusters=clusters)
    if boundaries is not None:
        return whole_numbers("boundaries", boundaries)
    if sizes is not None:
        return jr.sizes(*whole_numbers("sizes", sizes))
    return None if clusters is None else jr.quantiles(clusters)


def picture(path: Path | None) -> None:
    """Check that a picture can be drawn to this path, before the work that it is to show."""
    if path is None:
        return
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise ValueError(f"plot must end in .png, .svg or .pdf, got {str(path)!r}")
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError("plot needs matplotlib, which is not installed: pip install 'jaxrank[plot]'")


def _looks_inline(text: str) -> bool:
    return "," in text and not Path(text).is_file()


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
