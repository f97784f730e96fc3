"""What the paper leaves open: LUCBRank's alpha and Active Ranking's factor, on Experiment 1.

python experiments/constants.py [--quick] [--out DIR]
"""

import dataclasses
from collections.abc import Mapping

import figure
import numpy as np
from figure import COLOURS
from instances import EXPERIMENT_1, TOP_AND_BOTTOM_3

import jaxrank as jr


@dataclasses.dataclass(frozen=True)
class Config:
    """What is run."""

    trials: int = 1000
    samples: int = 16_000
    marks: int = 40
    trials_to_stop: int = 200
    epsilon: float = 0.0
    delta: float = 0.1
    seed: int = 7


def contestants(config: Config) -> Mapping[str, jr.Algorithm]:
    """All that are compared, by name."""
    setting = {"num_items": 15, "boundaries": TOP_AND_BOTTOM_3, "delta": config.delta}
    named = {
        f"LUCBRank, alpha {alpha:g}": jr.LUCBRank(**setting, alpha=alpha, epsilon=config.epsilon)
        for alpha in (1.1, 1.5, 2.0)
    }
    return named | {
        f"Active Ranking, factor {factor:g}": jr.ActiveRanking(**setting, factor=factor) for factor in (1.0, 2.0, 4.0)
    }


def compute(config: Config, recorder: figure.Recorder) -> dict:
    """Mistakes on the way, and samples until the stop."""
    marks = figure.marks(config.samples, config.marks)
    arms = jr.BernoulliArms(means=EXPERIMENT_1)
    curves, stops = {}, {}
    for name, algorithm in contestants(config).items():
        runs = recorder.simulate(name, algorithm, arms, config, record_at=marks, max_samples=marks[-1])
        curves[name] = figure.rates(
            np.asarray(jr.metrics.mistakes(runs.recorded_orders, EXPERIMENT_1, TOP_AND_BOTTOM_3))
        )
        runs = recorder.simulate(f"{name}, to the stop", algorithm, arms, config, trials=config.trials_to_stop)
        wrong = np.asarray(jr.metrics.mistakes(runs.order, EXPERIMENT_1, TOP_AND_BOTTOM_3, config.epsilon))
        stops[name] = {**figure.averages(runs.samples[:, None]), "mistakes": int(wrong.sum()), "trials": len(wrong)}
    return {"samples": marks, "curves": curves, "stops": stops}


def draw(data: dict, plt):
    """Mistakes on the way; samples until the stop."""
    picture, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained", width_ratios=(3, 2))
    figure.lines(left, data["samples"], data["curves"], unit=1000)
    left.set(xlabel="samples (thousands)", ylabel="mistake probability", ylim=(0, 1), xlim=(0, None))
    for place, stop in enumerate(data["stops"].values()):
        value, low, high = (stop[key][0] / 1000 for key in ("value", "low", "high"))
        right.errorbar(value, place, xerr=[[value - low], [high - value]], fmt="o", capsize=3, color=COLOURS[place])
        right.annotate(f"{value:,.0f}", (value, place), xytext=(0, 7), textcoords="offset points", ha="center")
    short = [
        name.replace("Active Ranking, factor", "AR,").replace("LUCBRank, alpha", "LUCB,") for name in data["stops"]
    ]
    right.set_yticks(range(len(short)), short)
    right.set(xscale="log", xlabel="samples until the stop (thousands)", ylim=(len(short) - 0.5, -0.8))
    right.margins(x=0.2)
    right.grid(alpha=0.3)
    figure.legend(picture, columns=3)
    return picture


def summary(data: dict) -> str:
    """Stop times and mistakes."""
    rows = {
        name: [
            figure.span(stop["value"][0], stop["low"][0], stop["high"][0], digits=0),
            f"{stop['mistakes']} of {stop['trials']}",
            figure.at(data, name, data["samples"][-1] // 2),
            figure.at(data, name, data["samples"][-1]),
        ]
        for name, stop in data["stops"].items()
    }
    budgets = [f"wrong at {samples:,}" for samples in (data["samples"][-1] // 2, data["samples"][-1])]
    return figure.table("constant", ["samples until the stop", "mistakes", *budgets], rows)


EXPERIMENT = figure.Experiment(
    name="constants",
    about="The effect of the constants that the paper leaves open: alpha, and Active Ranking's factor.",
    config=Config(),
    quick=Config(trials=40, samples=1000, marks=4, trials_to_stop=2, epsilon=0.2),
    compute=compute,
    draw=draw,
    summary=summary,
)

if __name__ == "__main__":
    figure.main(EXPERIMENT)
