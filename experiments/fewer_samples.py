"""Samples of EvidenceRank and of mixture bounds beside LUCBRank's and the sharp lower bound, on many shapes.

python experiments/fewer_samples.py [--quick] [--out DIR]
"""

import dataclasses
import math

import figure
import numpy as np
from figure import COLOURS, DASHES
from instances import EXPERIMENT_1, TOP_AND_BOTTOM_3

import jaxrank as jr

METHODS = ("LUCBRank", "LUCBRank, mixture", "EvidenceRank", "EvidenceRank, one level")
MARKERS = ("o", "s", "D", "v")


@dataclasses.dataclass(frozen=True)
class Shape:
    """Means, best first, and where clusters end; for duels, BTL scores instead of means."""

    means: tuple[float, ...]
    boundaries: tuple[int, ...]
    duels: bool = False

    @property
    def environment(self) -> jr.BernoulliArms | jr.ScoredDuels:
        """Who answers."""
        values = np.asarray(self.means)
        return jr.Duels.btl(values) if self.duels else jr.BernoulliArms(means=values)


def spread(high: float, low: float, count: int) -> tuple[float, ...]:
    """Evenly spaced."""
    return tuple(float(value) for value in np.linspace(high, low, count))


def drawn(items: int, boundaries: tuple[int, ...], seed: int) -> Shape:
    """Random gaps, those at boundaries stretched."""
    gaps = np.random.default_rng(seed).gamma(1.0, size=items + 1)
    gaps[list(boundaries)] += 3
    return Shape(tuple(float(value) for value in 1 - np.cumsum(gaps)[:-1] / gaps.sum()), boundaries)


SHAPES = {
    "Experiment 1": Shape(tuple(EXPERIMENT_1.tolist()), TOP_AND_BOTTOM_3),
    "two items": Shape((0.6, 0.5), (1,)),
    "one above equals": Shape((0.5, *[0.35] * 9), (1,)),
    "one below equals": Shape((*[0.6] * 29, 0.35), (29,)),
    "five of fifty, two levels": Shape((*[0.7] * 5, *[0.5] * 45), (5,)),
    "top 4 of 20, even": Shape(spread(0.9, 0.1, 20), (4,)),
    "quintiles of 25, even": Shape(spread(0.95, 0.05, 25), (5, 10, 15, 20)),
    "full order of 8": Shape(spread(0.85, 0.15, 8), tuple(range(1, 8))),
    "rare successes": Shape(tuple(0.3 * 0.7**place for place in range(10)), (2, 5)),
    "rare failures": Shape(tuple(1 - 0.02 * 1.4**place for place in range(10)), (3, 8)),
    "random, 12 items": drawn(12, (1, 4, 9), 1),
    "random, 40 items": drawn(40, (10, 20, 30), 2),
    "duels, 20 items": Shape(spread(3.0, -3.0, 20), (5, 10, 15), duels=True),
    "five levels of 100": Shape(tuple(float(v) for v in np.repeat([0.9, 0.7, 0.5, 0.3, 0.1], 20)), (20, 40, 60, 80)),
}


@dataclasses.dataclass(frozen=True)
class Config:
    """What is run."""

    shapes: tuple[str, ...] = tuple(SHAPES)
    deltas: tuple[float, ...] = (0.1, 0.01, 0.001)
    slopes: tuple[str, ...] = ("Experiment 1", "rare successes")
    """Shapes that are also run with the deltas below, for samples against log(1/delta)."""
    more_deltas: tuple[float, ...] = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8)
    alpha: float = 1.1
    trials: int = 200
    seed: int = 0


def algorithms(shape: Shape, deltas: tuple[float, ...], alpha: float) -> dict:
    """The methods, stacked over deltas."""
    setting = {"num_items": len(shape.means), "boundaries": shape.boundaries, "delta": np.asarray(deltas)}
    ranks = (
        jr.LUCBRank(**setting, alpha=alpha),
        jr.LUCBRank(**setting, confidence=jr.Mixture()),
        jr.EvidenceRank(**setting),
        jr.EvidenceRank(**setting, levels=1),
    )
    return dict(zip(METHODS, ranks, strict=True))


def measured(name: str, deltas: tuple[float, ...], config: Config, recorder: figure.Recorder) -> dict:
    """Samples and mistakes of every method and delta, and the lower bounds."""
    shape, what = SHAPES[name], f"{name}, delta from {deltas[0]:g} to {deltas[-1]:g}"
    means = np.asarray(shape.environment.means, float)
    row: dict = {
        "num_items": len(means),
        "boundaries": shape.boundaries,
        "lower_bound": [float(jr.theory.sharp_lower_bound(means, shape.boundaries, delta=delta)) for delta in deltas],
    }
    for method, algorithm in algorithms(shape, deltas, config.alpha).items():
        runs = recorder.simulate(f"{method}: {what}", algorithm, shape.environment, config)
        row[method] = figure.averages(runs.samples.T)
        row[method]["mistakes"] = jr.metrics.mistakes(runs.order, means, shape.boundaries).sum(axis=1).tolist()
    return row


def compute(config: Config, recorder: figure.Recorder) -> dict:
    """All shapes, and some of them over a long range of delta."""
    return {
        "shapes": {name: measured(name, config.deltas, config, recorder) for name in config.shapes},
        "slopes": {name: measured(name, config.more_deltas, config, recorder) for name in config.slopes},
    }


def ratio(above: dict, below: dict, place: int) -> tuple[float, float, float]:
    """Ratio of two means with its 95% interval, from the intervals of the two on a logarithmic scale."""
    value = above["value"][place] / below["value"][place]
    errors = [(side["high"][place] - side["value"][place]) / side["value"][place] for side in (above, below)]
    reach = math.exp(math.hypot(*errors))
    return value, value / reach, value * reach


def slope(row: dict, method: str) -> str:
    """Growth between the two smallest deltas over the lower bound's, as if the two means were independent."""
    known, least = row[method], row["lower_bound"][-1] - row["lower_bound"][-2]
    halves = [known["high"][place] - known["value"][place] for place in (-1, -2)]
    return f"{(known['value'][-1] - known['value'][-2]) / least:.2f} ± {math.hypot(*halves) / least:.2f}"


def summary(data: dict) -> str:
    """One row per shape and delta, in Markdown; then what holds for all."""
    deltas, trials = data["config"]["deltas"], data["config"]["trials"]
    lines = [
        "| instance | K, c | delta | lower bound | LUCBRank | mixture: ratio | EvidenceRank | ratio "
        "| over the bound | one level |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    gains, excess, more, wrong = [], [], [], dict.fromkeys(METHODS, 0)
    for name, row in data["shapes"].items():
        paper, mixture, pairs, single = (row[method] for method in METHODS)
        for method in METHODS:
            wrong[method] += sum(row[method]["mistakes"])
        for place, delta in enumerate(deltas):
            gain, over = ratio(paper, pairs, place), pairs["value"][place] / row["lower_bound"][place]
            gains.append(gain[0])
            excess.append(over)
            more += [f"{name} at delta {delta:g}"] * (gain[1] < 1)
            first = (name, f"{row['num_items']}, {len(row['boundaries']) + 1}") if place == 0 else ("", "")
            half = pairs["high"][place] - pairs["value"][place]
            cells = (
                *first,
                f"{delta:g}",
                f"{row['lower_bound'][place]:,.0f}",
                f"{paper['value'][place]:,.0f}",
                f"{ratio(paper, mixture, place)[0]:.2f}",
                f"{pairs['value'][place]:,.0f} ± {half:,.0f}",
                figure.span(*gain, digits=2),
                f"{over:.2f}",
                f"{single['value'][place]:,.0f} ± {single['high'][place] - single['value'][place]:,.0f}",
            )
            lines.append("| " + " | ".join(cells) + " |")
    lines.append(
        f"\nEvidenceRank takes {min(gains):.1f} to {max(gains):.1f} times fewer samples than LUCBRank (median "
        f"{np.median(gains):.1f}) and {min(excess):.1f} to {max(excess):.1f} times the sharp lower bound (median "
        f"{np.median(excess):.1f}).\nMore samples than LUCBRank, or not clearly fewer: {', '.join(more) or 'nowhere'}."
        f"\nMistakes in {len(gains) * trials:,} trials: "
        + ", ".join(f"{method} {count}" for method, count in wrong.items())
        + "."
    )
    for name, row in data["slopes"].items():
        found = "; ".join(f"{method} {slope(row, method)}" for method in METHODS)
        lines.append(f"{name}, slope in log(1/delta) between the two smallest over the lower bound's: {found}.")
    return "\n".join(lines)


def draw(data: dict, plt):
    """Samples against log(1/delta) for some shapes; the ratio to the lower bound for all."""
    count = len(data["slopes"])
    picture, axes = plt.subplots(1, count + 1, figsize=(4.2 * count + 5.6, 5.2), layout="constrained")
    across = np.log(1 / np.asarray(data["config"]["more_deltas"]))
    for axis, (name, row) in zip(axes, data["slopes"].items(), strict=False):
        for place, method in enumerate(METHODS):
            value, low, high = (np.asarray(row[method][key]) for key in ("value", "low", "high"))
            axis.plot(
                across, value, marker=MARKERS[place], ms=4, color=COLOURS[place], ls=DASHES[place], lw=1.8, label=method
            )
            axis.fill_between(across, low, high, color=COLOURS[place], alpha=0.2, lw=0)
        axis.plot(across, row["lower_bound"], color="#000000", lw=1.2, label="sharp lower bound")
        axis.set(title=name, xlabel="log(1 / delta)", ylim=(0, None))
        axis.ticklabel_format(axis="y", style="sci", scilimits=(0, 3), useMathText=True)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("samples until the guarantee")
    last = axes[-1]
    names = list(data["shapes"])[::-1]
    for place, method in enumerate(METHODS):
        for which, size in ((0, 7), (-1, 3.5)):
            rows = [data["shapes"][name] for name in names]
            over = [row[method]["value"][which] / row["lower_bound"][which] for row in rows]
            last.plot(over, range(len(names)), MARKERS[place], ms=size, color=COLOURS[place])
    last.set_yticks(range(len(names)), names)
    last.set(xscale="log", xlabel="samples over the sharp lower bound")
    first, end = (data["config"]["deltas"][place] for place in (0, -1))
    last.set_title(f"delta = {first:g} (large), {end:g} (small)")
    last.set_xticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
    last.minorticks_off()
    last.grid(alpha=0.3)
    figure.legend(picture, columns=5)
    return picture


EXPERIMENT = figure.Experiment(
    name="fewer_samples",
    about="Samples until the same guarantee: LUCBRank, mixture bounds, certificates for pairs.",
    config=Config(),
    quick=Config(
        shapes=("two items", "rare successes"),
        deltas=(0.1, 0.01),
        slopes=("two items",),
        more_deltas=(0.1, 0.01),
        trials=5,
    ),
    compute=compute,
    draw=draw,
    summary=summary,
)

if __name__ == "__main__":
    figure.main(EXPERIMENT)
