"""What every experiment has around its own computation: arguments, files, going on after an interrupt, pictures.

An experiment is a frozen config, `compute` and `draw`; `main` below does the rest. The numbers go to NAME.json with
config, seed and versions, the picture to NAME.png and NAME.svg. Finished trials are kept on the way, so that the same
command goes on after an interrupt; once the numbers are there, it only draws them again.
"""

import argparse
import dataclasses
import hashlib
import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from instances import Instance, street_view

import jaxrank as jr
from jaxrank import plots

COLOURS = [colour for colour in plots.COLOURS if colour != "#F0E442"]
"""Without yellow, which is too pale for a line on white."""
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)), (0, (3, 2)))
"""So that lines can be told apart without colours."""


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One figure or claim."""

    name: str
    about: str
    config: Any
    quick: Any
    """The config of a smoke test."""
    compute: Callable[[Any, "Recorder"], dict]
    draw: Callable[[dict, Any], Any]
    """From the numbers and matplotlib's pyplot to a figure."""
    summary: Callable[[dict], str]
    on_street_view: bool = False


@dataclasses.dataclass
class Recorder:
    """Where an experiment works: runs simulations that can be interrupted, and notes what they cost."""

    folder: Path
    """Of finished trials."""
    street_view: Instance | None
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)

    @property
    def scores(self) -> np.ndarray:
        """The street-view scores."""
        if self.street_view is None:
            raise ValueError("street_view must be given to an experiment on street-view scores, got None")
        return self.street_view.scores

    def simulate(
        self, name: str, algorithm, environment, config, *, trials: int | None = None, key=None, **settings
    ) -> jr.Runs:
        """`jr.simulate`, by default with a key made from the config's seed and the name."""
        trials = config.trials if trials is None else trials
        if key is None:
            digest = hashlib.sha256(name.encode()).digest()
            key = jax.random.fold_in(jax.random.key(config.seed), int.from_bytes(digest[:4], "little"))
        kept = self.folder / (re.sub(r"\W+", "-", name) + ".trials")
        self.folder.mkdir(parents=True, exist_ok=True)
        start = time.perf_counter()
        print(f"  {name} ...", file=sys.stderr, flush=True)
        runs = jr.simulate(key, algorithm, environment, trials, resume_file=kept, progress=name, **settings)
        if runs.interrupted:
            raise KeyboardInterrupt
        self.seconds[name] = round(time.perf_counter() - start, 1)
        print(f"  {name}: {trials} trials, {self.seconds[name]:.1f} s", file=sys.stderr, flush=True)
        return runs


def rates(wrong: np.ndarray) -> dict[str, Any]:
    """Share of trials (first axis) that are wrong, with Wilson's 95% intervals."""
    wrong = np.asarray(wrong)
    ends = [jr.metrics.wilson_interval(int(count), len(wrong)) for count in wrong.sum(axis=0)]
    return {"value": wrong.mean(axis=0).tolist(), "low": [low for low, _ in ends], "high": [high for _, high in ends]}


def averages(values: np.ndarray) -> dict[str, list[float]]:
    """Means over trials (first axis) with normal 95% intervals."""
    values = np.asarray(values, float)
    mean, half = values.mean(axis=0), 1.96 * values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return {"value": mean.tolist(), "low": (mean - half).tolist(), "high": (mean + half).tolist()}


def marks(last: int, count: int) -> list[int]:
    """Budgets evenly spaced up to the last."""
    return [last * (place + 1) // count for place in range(count)]


def at(data: dict, curve: str, samples: int) -> str:
    """The value of a curve at the mark nearest to so many samples, with its interval."""
    place = int(np.abs(np.asarray(data["samples"]) - samples).argmin())
    return span(*(data["curves"][curve][key][place] for key in ("value", "low", "high")))


def span(value: float, low: float, high: float, digits: int = 3) -> str:
    """A number with its interval."""
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def table(title: str, columns: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    """Text in columns."""
    widths = [max(len(str(row[place])) for row in [columns, *rows.values()]) for place in range(len(columns))]
    first = max(len(name) for name in [title, *rows])
    lines = [(title, columns), *rows.items()]
    return "\n".join(
        "  ".join([name.ljust(first), *(str(cell).rjust(width) for cell, width in zip(row, widths, strict=True))])
        for name, row in lines
    )


def lines(axis, samples: Sequence[float], curves: dict[str, dict], *, unit: float = 1.0, start: int = 0) -> None:
    """Curves with their intervals as bands."""
    across = np.asarray(samples) / unit
    for place, (name, curve) in enumerate(curves.items(), start=start):
        colour = COLOURS[place % len(COLOURS)]
        axis.plot(across, curve["value"], color=colour, ls=DASHES[place % len(DASHES)], lw=1.8, label=name)
        axis.fill_between(across, curve["low"], curve["high"], color=colour, alpha=0.2, lw=0)
    axis.grid(alpha=0.3)


def legend(figure, columns: int = 2) -> None:
    """All names above the picture, where no line is hidden; names of several panels once."""
    found: dict[str, Any] = {}
    for axis in figure.axes:
        handles, labels = axis.get_legend_handles_labels()
        found |= {label: handle for handle, label in zip(handles, labels, strict=True) if label not in found}
    figure.legend(found.values(), found.keys(), loc="outside upper center", ncols=columns, frameon=False)


def main(experiment: Experiment) -> None:
    """Parse, compute, write, draw, say what came out."""
    parser = argparse.ArgumentParser(description=experiment.about)
    parser.add_argument("--quick", action="store_true", help="a smoke size, in seconds")
    parser.add_argument("--fresh", action="store_true", help="compute again what is there already")
    parser.add_argument("--out", type=Path, help="folder of the results (results, or results/quick)")
    if experiment.on_street_view:
        parser.add_argument("--scores", type=Path, help="street-view BTL scores, one per line; else a stand-in")
    arguments = parser.parse_args()
    jr.keep_compiled_programs()
    out = arguments.out or Path("results/quick" if arguments.quick else "results")
    instance = None
    if experiment.on_street_view:
        try:
            instance = street_view(arguments.scores)
        except (OSError, ValueError) as error:
            parser.error(str(error))
    try:
        data = _numbers(experiment, arguments.quick, arguments.fresh, out, instance)
    except KeyboardInterrupt:
        print("interrupted: the same command goes on from here", file=sys.stderr)
        sys.exit(130)
    _picture(experiment, data, out / experiment.name)
    print(f"{experiment.name}: {experiment.about}")
    if instance is not None:
        print(f"Instance: {instance.name}.")
    print(experiment.summary(data["result"] | {"config": data["config"]}))
    print(f"Numbers and picture: {out / experiment.name}.json, .png, .svg")


def _numbers(experiment: Experiment, quick: bool, fresh: bool, out: Path, instance: Instance | None) -> dict:
    config = experiment.quick if quick else experiment.config
    identity = {
        "experiment": experiment.name,
        "config": dataclasses.asdict(config),
        "quick": quick,
        "instance": None if instance is None else {"name": instance.name, "digest": instance.digest},
        "versions": {"jaxrank": jr.__version__, "jax": jax.__version__, "numpy": np.__version__},
    }
    identity = json.loads(json.dumps(identity))
    path = out / f"{experiment.name}.json"
    if path.is_file() and not fresh:
        known = json.loads(path.read_text())
        if {name: known.get(name) for name in identity} == identity:
            return known
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:8]
    folder = out / f"{experiment.name}-{digest}-unfinished"
    if fresh:
        shutil.rmtree(folder, ignore_errors=True)
    recorder = Recorder(folder=folder, street_view=instance)
    start = time.perf_counter(), time.process_time()
    result = experiment.compute(config, recorder)
    spent = {"wall": round(time.perf_counter() - start[0], 1), "cpu": round(time.process_time() - start[1], 1)}
    data = {**identity, "seconds": {**spent, "steps": recorder.seconds}, "result": result}
    out.mkdir(parents=True, exist_ok=True)
    with jr.atomic_write(path) as temporary:
        temporary.write_text(json.dumps(data))
    shutil.rmtree(folder, ignore_errors=True)
    return data


def _picture(experiment: Experiment, data: dict, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from PIL import Image

    # Sizes that can still be read when the picture is shown at half its size.
    plt.rcParams.update({"font.size": 12, "svg.hashsalt": experiment.name, "figure.dpi": 110})
    figure = experiment.draw(data["result"] | {"config": data["config"]}, plt)
    if data["instance"] is not None:
        figure.supxlabel(data["instance"]["name"], x=0.995, ha="right", fontsize=8, color="#555555")
    if data["quick"]:
        style = {"ha": "center", "va": "center", "rotation": 25, "fontsize": 34, "color": "#888888", "alpha": 0.35}
        figure.text(0.5, 0.5, "SMOKE SIZE: NOT A RESULT", **style)
    figure.savefig(path.with_suffix(".png"))
    with Image.open(path.with_suffix(".png")) as image:
        # A palette is enough for lines and bands, at a third of the size; this method keeps rare colours apart.
        image.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE).save(path.with_suffix(".png"), optimize=True)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    plt.close(figure)
