"""The futility of adaptivity for a complete ranking: Kendall tau distance against duels, street view.

python experiments/complete_ranking.py [--scores FILE] [--quick] [--out DIR]
"""

import dataclasses

import figure
import numpy as np

import jaxrank as jr

PARTNERS = {
    "Active Ranking, factor 1": "Uniform",
    "Active Ranking, factor 4": "Uniform",
    "Quicksort, BTL (QSParam)": "Uniform, BTL (UniformParam)",
    "Quicksort, mean rank": "Uniform, both credited",
}
"""Every adaptive method and the non-adaptive one that uses its answers in the same way."""


@dataclasses.dataclass(frozen=True)
class Config:
    """What is run."""

    trials: int = 600
    duels: int = 100_000
    marks: int = 40
    delta: float = 0.1
    seed: int = 2


def contestants(items: int, delta: float) -> dict[str, jr.Algorithm]:
    """All that are compared, by name."""
    setting = {"num_items": items, "boundaries": jr.complete(), "delta": delta}
    pairs, quicksort = jr.Uniform(num_items=items, pairs=True), jr.Quicksort(num_items=items, repeats=None)
    return {
        "Uniform": jr.Uniform(num_items=items),
        "Active Ranking, factor 1": jr.ActiveRanking(**setting, factor="code"),
        "Active Ranking, factor 4": jr.ActiveRanking(**setting, factor="proven"),
        "Uniform, both credited": pairs,
        "Quicksort, mean rank": quicksort,
        "Uniform, BTL (UniformParam)": jr.ByLikelihood(algorithm=pairs),
        "Quicksort, BTL (QSParam)": jr.ByLikelihood(algorithm=quicksort),
    }


def compute(config: Config, recorder: figure.Recorder) -> dict:
    """Kendall tau distances, and the differences between partners."""
    marks = figure.marks(config.duels, config.marks)
    duels = jr.Duels.btl(recorder.scores)
    means, errors = np.asarray(duels.means), {}
    for name, algorithm in contestants(duels.num_items, config.delta).items():
        runs = recorder.simulate(name, algorithm, duels, config, record_at=marks, max_samples=marks[-1])
        errors[name] = np.asarray(jr.metrics.kendall_tau_distance(runs.recorded_orders, means))
    differences = {}
    for adaptive, partner in PARTNERS.items():
        mine, theirs = errors[adaptive], errors[partner]
        value = mine.mean(axis=0) - theirs.mean(axis=0)
        half = 1.96 * np.sqrt(mine.var(axis=0, ddof=1) / len(mine) + theirs.var(axis=0, ddof=1) / len(theirs))
        differences[adaptive] = {
            "value": value.tolist(),
            "low": (value - half).tolist(),
            "high": (value + half).tolist(),
        }
    return {
        "samples": marks,
        "curves": {name: figure.averages(value) for name, value in errors.items()},
        "differences": differences,
    }


def draw(data: dict, plt):
    """Kendall tau distance against duels."""
    picture, axis = plt.subplots(figsize=(6.5, 5.2), layout="constrained")
    shown = {name: curve for name, curve in data["curves"].items() if name != "Active Ranking, factor 4"}
    figure.lines(axis, data["samples"], shown, unit=1000)
    axis.set(xlabel="duels (thousands)", ylabel="share of pairs inverted", ylim=(0, 0.1), xlim=(0, None))
    figure.legend(picture)
    return picture


def summary(data: dict) -> str:
    """Values on the way, and where an adaptive method is below its partner."""
    budgets = sorted({data["samples"][len(data["samples"]) * share // 10 - 1] for share in (2, 5, 10)})

    def show(curve, budget):
        place = data["samples"].index(budget)
        return figure.span(*(curve[key][place] for key in ("value", "low", "high")), digits=4)

    columns = [f"{budget:,}" for budget in budgets]
    rows = {name: [show(curve, budget) for budget in budgets] for name, curve in data["curves"].items()}
    text = figure.table("share of pairs inverted", columns, rows)
    gaps = {
        f"{name} minus {PARTNERS[name]}": [show(curve, budget) for budget in budgets]
        for name, curve in data["differences"].items()
    }
    return text + "\n\n" + figure.table("difference, adaptive minus partner", columns, gaps)


EXPERIMENT = figure.Experiment(
    name="complete_ranking",
    about="A complete ranking of the street-view images: adaptive methods against their non-adaptive partners.",
    config=Config(),
    quick=Config(trials=8, duels=2000, marks=4),
    compute=compute,
    draw=draw,
    summary=summary,
    on_street_view=True,
)

if __name__ == "__main__":
    figure.main(EXPERIMENT)
