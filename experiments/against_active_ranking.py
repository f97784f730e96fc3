"""The claim "2-3x fewer samples than Active Ranking": samples until the mistake probability falls to a level.

On Experiment 1 and on the street-view pentiles, with 95% bootstrap intervals over trials.

python experiments/against_active_ranking.py [--scores FILE] [--quick] [--out DIR]
"""

import dataclasses

import figure
import numpy as np
from instances import EXPERIMENT_1, PENTILES, TOP_AND_BOTTOM_3

import jaxrank as jr


@dataclasses.dataclass(frozen=True)
class Config:
    """What is run."""

    trials: int = 1000
    samples: tuple[int, int] = (48_000, 24_000)
    """Budget on Experiment 1 of Active Ranking and of LUCBRank, which needs less."""
    street_view_trials: int = 200
    duels: tuple[int, int] = (3_000_000, 2_200_000)
    marks: int = 60
    levels: tuple[float, ...] = (0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)
    delta: float = 0.1
    resamples: int = 1000
    seed: int = 6


def reached(wrong: np.ndarray, marks: np.ndarray, level: float) -> np.ndarray:
    """Samples at which the share of wrong trials first falls to the level, between marks along the curve's logarithm.

    Any leading axes are those of resamples; infinite where the level is not reached.
    """
    rate = np.minimum.accumulate(wrong, axis=-1)
    below = rate <= level
    place = np.where(below.any(axis=-1), below.argmax(axis=-1), 0)
    before = np.maximum(place - 1, 0)
    high = np.take_along_axis(rate, before[..., None], -1)[..., 0]
    low = np.take_along_axis(rate, place[..., None], -1)[..., 0]
    share = np.where(place > 0, (high - level) / np.maximum(high - low, 1e-12), 1)
    samples = marks[before] ** (1 - share) * marks[place] ** share
    return np.where(below.any(axis=-1), samples, np.inf)


def ratios(mine: np.ndarray, theirs: np.ndarray, my_marks, their_marks, config: Config) -> dict:
    """Samples at every level, and theirs over mine with bootstrap intervals."""
    rng = np.random.default_rng(config.seed)
    resampled = [
        np.stack([part[rng.integers(len(part), size=len(part))].mean(axis=0) for _ in range(config.resamples)])
        for part in (mine, theirs)
    ]
    rows = {}
    for level in config.levels:
        own = reached(mine.mean(axis=0), my_marks, level)
        other = reached(theirs.mean(axis=0), their_marks, level)
        if not np.isfinite(own + other):
            continue
        with np.errstate(invalid="ignore"):
            spread = reached(resampled[1], their_marks, level) / reached(resampled[0], my_marks, level)
        # A resample that does not reach the level in time counts as the largest ratio.
        low, high = np.quantile(np.where(np.isfinite(spread), spread, np.inf), [0.025, 0.975], method="nearest")
        high = float(high) if np.isfinite(high) else None
        rows[str(level)] = {
            "own": float(own),
            "other": float(other),
            "ratio": {"value": float(other / own), "low": float(low), "high": high},
        }
    return rows


def compute(config: Config, recorder: figure.Recorder) -> dict:
    """Ratios of samples, by instance and alpha."""
    arms, duels = jr.BernoulliArms(means=EXPERIMENT_1), jr.Duels.btl(recorder.scores)
    street_view = dataclasses.replace(config, trials=config.street_view_trials)
    result = {}
    for name, environment, cuts, setting, budgets in [
        ("Experiment 1", arms, TOP_AND_BOTTOM_3, config, config.samples),
        ("street-view pentiles", duels, PENTILES, street_view, config.duels),
    ]:
        means = np.asarray(environment.means)
        common = {"num_items": len(means), "boundaries": cuts, "delta": config.delta}
        others = {
            "factor 1": (jr.ActiveRanking(**common, factor="code"), budgets[0]),
            "factor 4": (jr.ActiveRanking(**common, factor="proven"), budgets[0]),
        }
        mine = {f"alpha {alpha:g}": (jr.LUCBRank(**common, alpha=alpha), budgets[1]) for alpha in (2.0, 1.1)}
        wrong, marks = {}, {}
        for contestant, (algorithm, budget) in (others | mine).items():
            points = figure.marks(budget, config.marks)
            runs = recorder.simulate(
                f"{name}: {contestant}", algorithm, environment, setting, record_at=points, max_samples=points[-1]
            )
            wrong[contestant] = np.asarray(jr.metrics.mistakes(runs.recorded_orders, means, cuts), float)
            marks[contestant] = np.asarray(points, float)
        result[name] = {
            f"LUCBRank, {own}; AR, {other}": ratios(wrong[own], wrong[other], marks[own], marks[other], config)
            for other in others
            for own in mine
        }
    return {"ratios": result}


def draw(data: dict, plt):
    """Ratios against the level, one panel for each instance."""
    picture, axes = plt.subplots(1, 2, figsize=(10, 5), layout="constrained", sharey=True)
    found = [
        row["ratio"]
        for contestants in data["ratios"].values()
        for rows in contestants.values()
        for row in rows.values()
    ]
    top = 1.05 * max([3.0, *(ratio["high"] or ratio["value"] for ratio in found)])
    for axis, (name, contestants) in zip(axes, data["ratios"].items(), strict=True):
        axis.axhspan(2, 3, color="#000000", alpha=0.08, lw=0, label="the paper's 2 to 3")
        axis.axhline(1, color="#000000", lw=1)
        # Not every contestant reaches every level within its budget.
        levels = [
            str(level) for level in data["config"]["levels"] if any(str(level) in r for r in contestants.values())
        ]
        axis.set_xticks(range(len(levels)), levels, fontsize=10)
        for place, (contestant, rows) in enumerate(contestants.items()):
            across = np.asarray([levels.index(level) for level in rows]) + 0.15 * (place - 1.5)
            value, low, high = (
                np.asarray([row["ratio"][key] or top for row in rows.values()], float)
                for key in ("value", "low", "high")
            )
            axis.errorbar(
                across,
                value,
                yerr=[value - low, high - value],
                fmt="os^D"[place],
                ms=5,
                capsize=2,
                color=figure.COLOURS[place],
                label=contestant,
            )
        axis.set(xlabel="mistake probability reached", title=name, ylim=(0, top))
        axis.title.set_fontsize(12)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("samples of Active Ranking /\nsamples of LUCBRank")
    figure.legend(picture, columns=2)
    return picture


def summary(data: dict) -> str:
    """All ratios."""
    parts = []
    for name, contestants in data["ratios"].items():
        for contestant, rows in contestants.items():
            cells = {
                f"mistake probability {level}": [
                    f"{row['own']:,.0f}",
                    f"{row['other']:,.0f}",
                    figure.span(row["ratio"]["value"], row["ratio"]["low"], row["ratio"]["high"] or np.inf, digits=2),
                ]
                for level, row in rows.items()
            }
            parts.append(figure.table(f"{name}, {contestant}", ["samples", "Active Ranking's", "ratio"], cells))
    return "\n\n".join(parts)


EXPERIMENT = figure.Experiment(
    name="against_active_ranking",
    about="How many times fewer samples LUCBRank needs than Active Ranking to reach a mistake probability.",
    config=Config(),
    quick=Config(
        trials=40,
        samples=(3000, 3000),
        street_view_trials=8,
        duels=(2000, 2000),
        marks=6,
        levels=(0.95, 0.9, 0.8),
        resamples=50,
    ),
    compute=compute,
    draw=draw,
    summary=summary,
    on_street_view=True,
)

if __name__ == "__main__":
    figure.main(EXPERIMENT)
