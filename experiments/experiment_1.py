"""Experiment 1: fifteen Bernoulli items, top 3 / middle / bottom 3, mistake probability against samples.

python experiments/experiment_1.py [--quick] [--out DIR]
"""

import dataclasses

import figure
import numpy as np
from instances import EXPERIMENT_1, TOP_AND_BOTTOM_3

import jaxrank as jr


@dataclasses.dataclass(frozen=True)
class Config:
    """What is run."""

    trials: int = 1000
    samples: int = 16_000
    marks: int = 80
    delta: float = 0.1
    seed: int = 1


def contestants(delta: float) -> dict[str, jr.Algorithm]:
    """All that are compared, by name."""
    setting = {"num_items": 15, "boundaries": TOP_AND_BOTTOM_3, "delta": delta}
    return {
        "Uniform": jr.Uniform(num_items=15),
        "Active Ranking, factor 1": jr.ActiveRanking(**setting, factor="code"),
        "LUCBRank, alpha 2": jr.LUCBRank(**setting, alpha=2.0),
        "LUCBRank, alpha 1.1": jr.LUCBRank(**setting, alpha=1.1),
    }


def compute(config: Config, recorder: figure.Recorder) -> dict:
    """Mistake probabilities of the running order."""
    marks = figure.marks(config.samples, config.marks)
    arms = jr.BernoulliArms(means=EXPERIMENT_1)
    curves = {}
    for name, algorithm in contestants(config.delta).items():
        runs = recorder.simulate(name, algorithm, arms, config, record_at=marks, max_samples=marks[-1])
        curves[name] = figure.rates(
            np.asarray(jr.metrics.mistakes(runs.recorded_orders, EXPERIMENT_1, TOP_AND_BOTTOM_3))
        )
        curves[name]["stopped"] = int(runs.done.sum())
    return {"samples": marks, "curves": curves}


def draw(data: dict, plt):
    """Mistake probability against samples."""
    picture, axis = plt.subplots(figsize=(6.5, 4.6), layout="constrained")
    figure.lines(axis, data["samples"], data["curves"], unit=1000)
    axis.set(xlabel="samples (thousands)", ylabel="mistake probability", ylim=(0, 1), xlim=(0, None))
    figure.legend(picture)
    return picture


def summary(data: dict) -> str:
    """Values at the notes' marks."""
    budgets = [budget for budget in (1000, 2000, 4000, 8000, 12_000, 16_000) if budget <= data["samples"][-1]]
    rows = {name: [figure.at(data, name, budget) for budget in budgets] for name in data["curves"]}
    return figure.table("mistake probability", [f"{budget:,}" for budget in budgets], rows)


EXPERIMENT = figure.Experiment(
    name="experiment_1",
    about="Mistake probability on Experiment 1: LUCBRank, Active Ranking, uniform sampling.",
    config=Config(),
    quick=Config(trials=40, samples=1000, marks=4),
    compute=compute,
    draw=draw,
    summary=summary,
)

if __name__ == "__main__":
    figure.main(EXPERIMENT)
