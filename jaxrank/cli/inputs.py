"""Reading what people type and the files they name."""

import enum
import importlib.util
import math
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer


class Ranking(enum.Enum):
    """The algorithms that the commands offer, by name."""

    EVIDENCE = "EvidenceRank"
    LUCB = "LUCBRank"
    GAPS = "GapRank"


ALGORITHM: dict[str, Any] = {
    "help": "EvidenceRank, which needs the fewest samples; LUCBRank, the paper's algorithm; for simulate also GapRank, "
    "which finds the boundaries.",
    "case_sensitive": False,
}
ALPHA: Any = typer.Option(help="For LUCBRank: exponent of the paper's exploration rate, above 1.", show_default="1.1")
ANSWERS = "CSV, TSV, spaces, JSON, JSONL or Parquet, also gzipped; - is standard input."
Columns = Annotated[
    str | None,
    typer.Option(help="What columns mean, by name or number from 1, such as winner=best,loser=worst,rater=judge."),
]
Outcomes = Annotated[
    str | None, typer.Option(help="How the winner column encodes the sides, such as left=1,right=0,tie=2.")
]
SkipSelf = Annotated[bool, typer.Option("--skip-self", help="Leave out rows that compare an item with itself.")]
Matrix = Annotated[bool, typer.Option("--matrix", help="The file is a matrix of how often each row beat each column.")]
Transpose = Annotated[bool, typer.Option("--transpose", help="In the matrix, columns beat rows.")]
AnswersPerPair = Annotated[
    float | None,
    typer.Option(help="The matrix holds shares of wins, and every pair had this many answers."),
]
Labels = Annotated[str | None, typer.Option(help="A file with the names of the matrix's items, one per line.")]
Header = Annotated[bool | None, typer.Option(help="Whether the first row names the columns; detected if not given.")]
Delimiter = Annotated[
    str | None, typer.Option(help="What separates columns: a character, tab or space; detected if not given.")
]
Encoding = Annotated[str | None, typer.Option(help="Encoding of the file; detected if not given.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
LargestGroup = Annotated[
    bool, typer.Option("--largest-group", help="Fit only the largest group of items that are linked by answers.")
]

INTERRUPTED = 130
"""Exit code of a program that Ctrl-C ended."""

ALIASES = {
    "num_trials": "trials",
    "max_samples": "budget",
    "num_lanes": "lanes",
    "chunk_rounds": "chunk",
    "num_items": "items",
    "num_clusters": "clusters",
    "c": "clusters",
    "epsilons": "epsilon",
    "deltas": "delta",
}
"""Arguments of the library by the option that sets them."""


def alpha_of(algorithm: Ranking, alpha: float | None) -> float | None:
    """LUCBRank's alpha; None for an algorithm without."""
    if algorithm is Ranking.LUCB:
        import jaxrank as jr

        return float(jr.ExplorationRate().alpha) if alpha is None else alpha
    if alpha is not None:
        raise ValueError(f"alpha belongs to LUCBRank's rate: give --algorithm lucbrank, got {algorithm.value}")
    return None


def named(report: dict[str, Any]) -> str:
    """The algorithm of a report, with its alpha if it has one."""
    return report["algorithm"] + ("" if report["alpha"] is None else f", alpha {report['alpha']:g}")


@contextmanager
def report_errors(command: Callable[..., None]) -> Iterator[None]:
    """Turn a bad value into one line on standard error, with this command's option names, and exit code 2."""
    try:
        yield
    except KeyboardInterrupt as error:
        typer.echo(str(error) or "interrupted", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except (ValueError, OSError) as error:
        typer.echo(f"error: {in_flags(printable(str(error)), command)}", err=True)
        raise typer.Exit(2) from None


def _flags(command: Callable[..., None]) -> dict[str, str]:
    """The option for each argument, by the argument's name in the command and in the library."""
    flags = {}
    for name, annotation in get_type_hints(command, include_extras=True).items():
        for option in getattr(annotation, "__metadata__", ()):
            if isinstance(option, typer.models.OptionInfo):
                flags[name] = (option.param_decls or ("--" + name.replace("_", "-"),))[0]
    return flags | {name: flags[option] for name, option in ALIASES.items() if option in flags}


def labels_in(path: str | None) -> list[str] | None:
    """The lines of a file of names."""
    if path is None:
        return None
    try:
        return [line.strip() for line in Path(path).read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"labels must be a file of names, one per line, got {path!r}: {error}") from None


def in_flags(message: str, command: Callable[..., None]) -> str:
    """The message with the command's options in place of the library's arguments."""
    flags = _flags(command)
    # Arguments occur at the start, before the rule; in brackets, as a hint; and anywhere if their names contain "_".
    head = re.match(r"(\w+(?:, \w+)*(?:,? (?:and|or) \w+)?) (?=must|exclude|belong|are |needs)", message)
    if head:
        first = re.sub(r"\w+", lambda word: flags.get(word[0], word[0]), head[1])
        message = first + message[head.end(1) :]
    message = re.sub(r"\((\w+)\)", lambda word: f"({flags.get(word[1], word[1])})", message)
    return re.sub(r"(?<![-\w])\w+_\w+(?![\w.])", lambda word: flags.get(word[0], word[0]), message)


def printable(text: str) -> str:
    """The text without what would steer a terminal."""
    return "".join("?" if unicodedata.category(char) in ("Cc", "Cf", "Cs") and char != "\n" else char for char in text)


def padded(text: str, width: int) -> str:
    """The text filled up to a width on the screen, where some letters are two columns wide."""
    return text + " " * max(0, width - columns_wide(text))


def columns_wide(text: str) -> int:
    """How many columns of the screen a text takes."""
    return sum(1 + (unicodedata.east_asian_width(c) in "WF") - bool(unicodedata.combining(c)) for c in text)


def numbers(name: str, text: str) -> list[float]:
    """Numbers from "0.5,0.4,0.3", or from the file of that name: its only column of numbers, or the one so named."""
    import jaxrank as jr

    inline = ("," in text and not Path(text).is_file()) or _is_number(text)
    if not inline:
        if not Path(text).is_file():
            raise ValueError(f"{name} must be numbers such as 0.5,0.4,0.3 or the path of a CSV file, got {text!r}")
        return jr.read_numbers(text, "means" if name == "means" else "scores").tolist()
    values = text.split(",")
    for place, cell in enumerate(values, start=1):
        if not _is_number(cell):
            raise ValueError(f"{name} must be numbers, got {cell.strip()!r} (entry {place} of {text!r})")
    return [float(cell) for cell in values]


def whole_numbers(name: str, text: str) -> tuple[int, ...]:
    """Whole numbers from "3,12"."""
    try:
        return tuple(int(cell) for cell in text.split(","))
    except ValueError:
        raise ValueError(f"{name} must be whole numbers such as 3,12, got {text!r}") from None


def pairs(name: str, text: str | None) -> dict[str, str] | None:
    """A dictionary from "winner=best,loser=worst"."""
    if text is None:
        return None
    parts = [part.split("=", 1) for part in text.split(",")]
    if any(len(part) != 2 for part in parts):
        raise ValueError(f"{name} must look like winner=best,loser=worst, got {text!r}")
    return {key.strip(): value.strip() for key, value in parts}


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


def check_outputs(
    sources: Mapping[str, str | Path | None],
    *,
    out: Path | None = None,
    plot: Path | None = None,
    resume_file: Path | None = None,
    force: bool,
    suffix: str | None = None,
) -> None:
    """Check, before the work that they are to hold, that files can be written and that nothing is lost by it.

    Args:
      sources: other files of the command, by the option that names them; what is no file is passed over.
      out: file of the numbers.
      plot: file of the picture.
      resume_file: file that an earlier call may have begun.
      force: whether files that exist may be replaced.
      suffix: that `out` must have.
    """
    if plot is not None:
        if plot.suffix not in (".png", ".svg", ".pdf"):
            raise ValueError(f"plot must end in .png, .svg or .pdf, got {str(plot)!r}")
        if importlib.util.find_spec("matplotlib") is None:
            raise ValueError("plot needs matplotlib, which is not installed: pip install 'jaxrank[plot]'")
    if out is not None and suffix is not None and out.suffix != suffix:
        raise ValueError(f"out must end in {suffix}, got {str(out)!r}")
    used = dict(sources)
    for name, path in (("resume_file", resume_file), ("out", out), ("plot", plot)):
        if path is None:
            continue
        if name != "resume_file":  # simulate itself says what is wrong with that
            _check_writable(name, path)
        for other, known in used.items():
            if known is not None and is_same_file(path, known):
                raise ValueError(f"{name} must not be the file of another option ({other}), got {str(path)!r}")
        if path.is_file() and not force and name != "resume_file":
            raise ValueError(f"{name} must be a new file unless it may be replaced (force), got {str(path)!r}")
        used[name] = path


def _check_writable(name: str, path: Path) -> None:
    if not path.parent.is_dir():
        raise ValueError(f"{name} must be in a folder that exists, got {str(path)!r}")
    # A file is replaced by a new one, which needs a folder that can be written.
    places = [path, Path(os.path.realpath(path)).parent] if path.exists() else [path.parent]
    if path.is_dir() or not all(os.access(place, os.W_OK) for place in places):
        raise ValueError(f"{name} must be a file that can be written, got {str(path)!r}")


def is_same_file(path: Path, other: str | Path) -> bool:
    """Whether two paths lead to one file, through links too; "-" is the file that standard input is read from."""
    if str(other) == "-":
        try:
            return path.exists() and os.path.samestat(path.stat(), os.fstat(sys.stdin.fileno()))
        except (OSError, ValueError):  # standard input is closed, or none of the system's
            return False
    if os.path.realpath(path) == os.path.realpath(other):
        return True
    return path.exists() and os.path.exists(other) and os.path.samefile(path, other)


def checked_seed(seed: int) -> int:
    """A seed that JAX and NumPy take."""
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed must lie in [0, {2**32 - 1}], got {seed}")
    return seed


def finite(value: Any) -> float | None:
    """The number as JSON has it: None where it is not finite."""
    return float(value) if math.isfinite(value) else None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
