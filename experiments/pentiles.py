"""Street-view pentiles: mistake probability against duels.

python experiments/pentiles.py [--scores FILE] [--quick] [--out DIR]
"""

import dataclasses

import figure
import numpy as np
from instances import PENTILES

import jaxrank as jr


@dataclasses.dataclass(frozen=True)
class Config:
    """What is run."""

    trials: int = 600
    duels: int = 2_000_000
    marks: int = 40
    delta: float = 0.1
    seed: int = 3


def contestants(items: int, delta: float) -> dict[str, jr.Algorithm]:
    """All that are compared, by name."""
    setting = {"num_items": items, "boundaries": PENTILES, "delta": delta}
    pairs = jr.Uniform(num_items=items, pairs=True)
    quicksort = jr.Quicksort(num_items=items, boundaries=PENTILES, repeats=None)
    return {
        "Uniform": jr.Uniform(num_items=items),
        "Active Ranking, factor 1": jr.ActiveRanking(**setting, factor="code"),
        "Uniform, both credited": pairs,
        "Uniform, BTL (UniformParam)": jr.ByLikelihood(algorithm=pairs),
        "Quicksort, BTL (QSParam)": jr.ByLikelihood(algorithm=quicksort),
        "LUCBRank, alpha 2": jr.LUCBRank(**setting, alpha=2.0),
        "LUCBRank, alpha 1.1": jr.LUCBRank(**setting, alpha=1.1),
    }


def compute(config: Config, recorder: figure.Recorder) -> dict:
    """Mistake probabilities of the running order."""
    marks = figure.marks(config.duels, config.marks)
    duels = jr.Duels.btl(recorder.scores)
    means, curves = np.asarray(duels.means), {}
    for name, algorithm in contestants(duels.num_items, config.delta).items():
        runs = recorder.simulate(name, algorithm, duels, config, record_at=marks, max_samples=marks[-1])
        curves[name] = figure.rates(np.asarray(jr.metrics.mistakes(runs.recorded_orders, means, PENTILES)))
        placed = np.asarray(jr.metrics.share_placed(runs.recorded_orders, means, PENTILES))
        curves[name]["share_placed"] = placed.mean(axis=0).tolist()
    return {"samples": marks, "curves": curves}


def draw(data: dict, plt):
    """Mistake probability against duels."""
    picture, axis = plt.subplots(figsize=(6.5, 5.2), layout="constrained")
    figure.lines(axis, data["samples"], data["curves"], unit=1e6)
    axis.set(xlabel="duels (millions)", ylabel="mistake probability", ylim=(0, 1), xlim=(0, None))
    figure.legend(picture)
    return picture


def summary(data: dict) -> str:
    """Values at the quarters."""
    last = data["samples"][-1]
    budgets = [last // 4, last // 2, 3 * last // 4, last]
    rows = {name: [figure.at(data, name, budget) for budget in budgets] for name in data["curves"]}
    return figure.table("mistake probability", [f"{budget:,}" for budget in budgets], rows)


EXPERIMENT = figure.Experiment(
    name="pentiles",
    about="Mistake probability on the street-view pentiles.",
    config=Config(),
    quick=Config(trials=8, duels=4000, marks=4),
    compute=compute,
    draw=draw,
    summary=summary,
    on_street_view=True,
)

if __name__ == "__main__":
    figure.main(EXPERIMENT)
