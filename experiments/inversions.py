"""What LUCBRank gives up and gains: inter- and intra-cluster inversions over those of uniform sampling, street view.

python experiments/inversions.py [--scores FILE] [--quick] [--out DIR]
"""

import dataclasses

import figure
import numpy as np
from instances import PENTILES

import jaxrank as jr


@dataclasses.dataclass(frozen=True)
class Config:
    """What is run."""

    trials: int = 2000
    duels: int = 100_000
    marks: int = 20
    delta: float = 0.1
    seed: int = 4


def ratio(mine: np.ndarray, theirs: np.ndarray) -> dict[str, list[float]]:
    """Mean over mean, with 95% intervals by the delta method on the logarithm."""
    value = mine.mean(axis=0) / theirs.mean(axis=0)
    spread = [part.var(axis=0, ddof=1) / (len(part) * part.mean(axis=0) ** 2) for part in (mine, theirs)]
    half = 1.96 * np.sqrt(sum(spread))
    return {"value": value.tolist(), "low": (value * np.exp(-half)).tolist(), "high": (value * np.exp(half)).tolist()}


def compute(config: Config, recorder: figure.Recorder) -> dict:
    """Ratios of mean inversions."""
    marks = figure.marks(config.duels, config.marks)
    duels = jr.Duels.btl(recorder.scores)
    items, means = duels.num_items, np.asarray(duels.means)
    contestants = {"Uniform": jr.Uniform(num_items=items)} | {
        f"LUCBRank, alpha {alpha:g}": jr.LUCBRank(num_items=items, boundaries=PENTILES, delta=config.delta, alpha=alpha)
        for alpha in (2.0, 1.1)
    }
    counts = {}
    for name, algorithm in contestants.items():
        runs = recorder.simulate(name, algorithm, duels, config, record_at=marks, max_samples=marks[-1])
        counts[name] = [
            np.asarray(part, float) for part in jr.metrics.inversions(runs.recorded_orders, means, PENTILES)
        ]
    uniform = counts.pop("Uniform")
    return {
        "samples": marks,
        "curves": {
            f"{name}, {kind}": ratio(mine[place], uniform[place])
            for place, kind in enumerate(("inter-cluster", "intra-cluster"))
            for name, mine in counts.items()
        },
    }


def draw(data: dict, plt):
    """One panel for each kind of inversion."""
    picture, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
    for axis, kind in zip(axes, ("inter-cluster", "intra-cluster"), strict=True):
        shown = {name.removesuffix(f", {kind}"): curve for name, curve in data["curves"].items() if name.endswith(kind)}
        figure.lines(axis, data["samples"], shown, unit=1000)
        axis.axhline(1, color="#000000", lw=1)
        axis.set(xlabel="duels (thousands)", ylabel=f"{kind} inversions,\nratio to Uniform", xlim=(0, None))
    figure.legend(picture)
    return picture


def summary(data: dict) -> str:
    """Values at the quarters, and the range from a tenth of the axis on."""
    last = data["samples"][-1]
    budgets = [last // 10, last // 4, last // 2, 3 * last // 4, last]
    rows = {name: [figure.at(data, name, budget) for budget in budgets] for name in data["curves"]}
    return figure.table("ratio to Uniform", [f"{budget:,}" for budget in budgets], rows)


EXPERIMENT = figure.Experiment(
    name="inversions",
    about="Inversions between and within the street-view pentiles: LUCBRank over uniform sampling.",
    config=Config(),
    quick=Config(trials=8, duels=4000, marks=4),
    compute=compute,
    draw=draw,
    summary=summary,
    on_street_view=True,
)

if __name__ == "__main__":
    figure.main(EXPERIMENT)
