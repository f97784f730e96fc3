"""`jaxrank reproduce`: the paper's figures and claims, one experiment each."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from jaxrank.cli import inputs

EXPERIMENTS = {
    "algorithm": "Figure 1: LUCBRank at work, intervals and critical items",
    "experiment_1": "Experiment 1: mistake probability, 15 items",
    "constants": "what the paper leaves open: alpha, Active Ranking's factor",
    "street_view": "the street-view scores",
    "complete_ranking": "a complete ranking: adaptive methods and their partners",
    "pentiles": "street-view pentiles: mistake probability",
    "inversions": "inversions between and within pentiles",
    "against_active_ranking": "the claim of 2-3x fewer samples than Active Ranking",
    "noise_models": "Quicksort under a noisy permutation and small gaps",
    "bounds": "measured samples between the bounds of the theorems",
    "fewer_samples": "beyond the paper: the same guarantee from fewer samples",
}
"""In the order in which `all` runs them."""
SUFFIXES = (".json", ".png", ".svg")
"""Of the files that an experiment writes."""
ON_STREET_VIEW = {"street_view", "complete_ranking", "pentiles", "inversions", "against_active_ranking"}


def reproduce(
    name: Annotated[str, typer.Argument(help="An experiment, or all; list shows them.")] = "list",
    scores: Annotated[
        Path | None, typer.Option(help="Street-view BTL scores, one per line; a synthetic stand-in if not given.")
    ] = None,
    quick: Annotated[bool, typer.Option(help="A smoke test at reduced size; all experiments take minutes.")] = False,
    fresh: Annotated[bool, typer.Option(help="Recompute finished experiments.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder of the results: results, or results/quick.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """Run the paper's experiments: numbers as JSON, pictures as PNG and SVG.

    Finished experiments are not computed again, and one that was interrupted goes on where it was.
    """
    with inputs.report_errors(reproduce):
        names = _chosen(name)
        folder = _folder()
        out = out or Path("results/quick" if quick else "results")
        _check(scores, [_file(out, each, suffix) for each in names for suffix in SUFFIXES])
    if not names:
        typer.echo("\n".join(f"{each:24s}{about}" for each, about in EXPERIMENTS.items()))
        return
    steps = []
    for number, each in enumerate(names, start=1):
        typer.echo(f"[{number}/{len(names)}] {each}: {EXPERIMENTS[each]}", err=True)
        command = [sys.executable, str(folder / f"{each}.py"), "--out", str(out)]
        command += ["--quick"] * quick + ["--fresh"] * fresh
        command += ["--scores", str(scores)] if scores is not None and each in ON_STREET_VIEW else []
        start = time.perf_counter()
        code, text = _call(command, show=not as_json)
        if code == inputs.INTERRUPTED:
            typer.echo(f"interrupted in {each}: the same command goes on from here", err=True)
            raise typer.Exit(inputs.INTERRUPTED)
        if code != 0:
            typer.echo(f"error: {each} failed with exit code {code}", err=True)
            raise typer.Exit(1)
        steps.append(_step(each, out, time.perf_counter() - start, text))
    typer.echo(json.dumps(steps, indent=2) if as_json else _table(steps))


def _chosen(name: str) -> list[str]:
    if name == "list":
        return []
    if name != "all" and name not in EXPERIMENTS:
        raise ValueError(f"name must be all, list or one of {', '.join(EXPERIMENTS)}, got {name!r}")
    return list(EXPERIMENTS) if name == "all" else [name]


def _folder() -> Path:
    """The experiments: inside the package if it was installed, beside it in a source tree."""
    package = Path(__file__).parent.parent
    for folder in (package / "experiments", package.parent / "experiments"):
        if (folder / "figure.py").is_file():
            return folder
    raise ValueError("the experiments are not installed beside jaxrank")


def _file(out: Path, name: str, suffix: str) -> Path:
    return out / f"{name}{suffix}"


def _check(scores: Path | None, outputs: list[Path]) -> None:
    if scores is not None and not scores.is_file():
        raise ValueError(f"scores must be the path of a file with one number per line, got {str(scores)!r}")
    if scores is not None and any(inputs.is_same_file(path, scores) for path in outputs):
        raise ValueError(f"scores must not be a file that the experiment writes, got {str(scores)!r}")
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError("reproduce draws with matplotlib, which is not installed: pip install 'jaxrank[plot]'")


def _call(command: list[str], *, show: bool) -> tuple[int, str]:
    """Exit code and output of an experiment in a process of its own; Ctrl-C reaches it too, and it saves its trials."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        text, _ = process.communicate()
    except KeyboardInterrupt:
        text, _ = process.communicate()
        return inputs.INTERRUPTED, text
    if show and process.returncode == 0:
        typer.echo(text)
    return process.returncode, text


def _step(name: str, out: Path, seconds: float, text: str) -> dict[str, Any]:
    data = json.loads(_file(out, name, ".json").read_text())
    longest = max(data["seconds"]["steps"].items(), key=lambda item: item[1], default=(None, 0.0))
    return {
        "experiment": name,
        "seconds_now": round(seconds, 1),
        "seconds_of_computing": data["seconds"]["wall"],
        "cpu_seconds_of_computing": data["seconds"]["cpu"],
        "longest_step": longest[0],
        "longest_step_seconds": longest[1],
        "instance": None if data["instance"] is None else data["instance"]["name"],
        "files": [str(_file(out, name, suffix)) for suffix in SUFFIXES],
        "summary": text.strip(),
    }


def _table(steps: list[dict[str, Any]]) -> str:
    rows = [f"{'experiment':24s}{'now (s)':>9s}{'computing (s)':>15s}{'CPU (s)':>9s}  longest step"]
    for step in steps:
        longest = f"{step['longest_step']}, {step['longest_step_seconds']:.0f} s" if step["longest_step"] else "-"
        rows.append(
            f"{step['experiment']:24s}{step['seconds_now']:9.0f}{step['seconds_of_computing']:15.0f}"
            f"{step['cpu_seconds_of_computing']:9.0f}  {longest}"
        )
    rows.append(f"{'together':24s}{sum(step['seconds_now'] for step in steps):9.0f}")
    if any("STAND-IN" in (step["instance"] or "") for step in steps):
        rows.append(
            "\nThe street-view experiments ran on a SYNTHETIC STAND-IN: give the images' scores with --scores FILE."
        )
    return "\n".join(rows)
