"""Measured samples of LUCBRank between the lower and the upper bounds, on random instances.

Instances have 3 to 60 items and 2 to K clusters; means have random gaps, those at boundaries stretched, and an
instance whose sharp lower bound is above a limit is drawn again, so that runs end.

python experiments/bounds.py [--quick] [--out DIR]
"""

import dataclasses
import math

import figure
import jax
import numpy as np
from figure import COLOURS

import jaxrank as jr


@dataclasses.dataclass(frozen=True)
class Config:
    """What is run."""

    instances: int = 50
    most_items: int = 60
    trials: int = 10
    delta: float = 0.1
    alpha: float = 1.1
    most_needed: float = 100_000
    """Largest sharp lower bound of an instance."""
    seed: int = 0


def draw_instance(rng: np.random.Generator, config: Config) -> tuple[np.ndarray, tuple[int, ...]]:
    """Means, best first, and boundaries."""
    while True:
        # Even in the logarithm, so that small sizes are not rare.
        items = round(math.exp(rng.uniform(math.log(3), math.log(config.most_items))))
        clusters = round(math.exp(rng.uniform(math.log(2), math.log(items))))
        cuts = tuple(int(cut) for cut in np.sort(rng.choice(np.arange(1, items), clusters - 1, replace=False)))
        gaps = rng.gamma(1.0, size=items + 1)
        gaps[list(cuts)] += 2 * gaps.mean()
        means = 1 - np.cumsum(gaps)[:-1] / gaps.sum()
        if jr.theory.lower_bound(means, cuts, delta=config.delta) < config.most_needed:
            return means, cuts


def compute(config: Config, recorder: figure.Recorder) -> dict:
    """All instances with their bounds and the samples that trials took."""
    rng = np.random.default_rng(config.seed)
    rows = []
    for number in range(config.instances):
        means, cuts = draw_instance(rng, config)
        algorithm = jr.LUCBRank(num_items=len(means), boundaries=cuts, delta=config.delta, alpha=config.alpha)
        name = f"instance {number + 1} of {config.instances} ({len(means)} items, {len(cuts) + 1} clusters)"
        key = jax.random.key(config.seed + number)
        runs = recorder.simulate(name, algorithm, jr.BernoulliArms(means=means), config, key=key)
        rows.append(
            {
                "num_items": len(means),
                "boundaries": cuts,
                "means": means.tolist(),
                "theorem_3": float(jr.theory.lower_bound(means, cuts, delta=config.delta)),
                "sharp_lower_bound": float(jr.theory.sharp_lower_bound(means, cuts, delta=config.delta)),
                "samples": runs.samples.tolist(),
                "upper_bound": float(
                    jr.theory.upper_bound(means, cuts, delta=config.delta, epsilon=0.0, alpha=config.alpha)
                ),
            }
        )
    return {"instances": rows}


def summary(data: dict) -> str:
    """How many instances lie between, and the ratios to the bounds."""
    rows = data["instances"]
    samples = np.asarray([np.mean(row["samples"]) for row in rows])
    low, sharp, high = (
        np.asarray([row[key] for row in rows]) for key in ("theorem_3", "sharp_lower_bound", "upper_bound")
    )
    between = int(((np.maximum(low, sharp) <= samples) & (samples <= high)).sum())
    items, clusters = ([f(row) for row in rows] for f in (lambda r: r["num_items"], lambda r: len(r["boundaries"]) + 1))
    return (
        f"{between} of {len(rows)} instances ({min(items)} to {max(items)} items, {min(clusters)} to {max(clusters)} "
        f"clusters) lie between the bounds. Samples over the sharp lower bound: median "
        f"{np.median(samples / sharp):.1f}, from {(samples / sharp).min():.1f} to {(samples / sharp).max():.1f}; upper "
        f"bound over samples: median {np.median(high / samples):.1f}, from {(high / samples).min():.1f} to "
        f"{(high / samples).max():.1f}; sharp lower bound over Theorem 3's: median "
        f"{np.median(sharp / low):.2f}, from {(sharp / low).min():.2f} to {(sharp / low).max():.2f}."
    )


def draw(data: dict, plt):
    """Samples and bounds against the sharp lower bound."""
    rows = sorted(data["instances"], key=lambda row: row["sharp_lower_bound"])
    sharp = np.asarray([row["sharp_lower_bound"] for row in rows])
    picture, axis = plt.subplots(figsize=(6.5, 5), layout="constrained")
    axis.plot(sharp, [row["upper_bound"] for row in rows], "v", color=COLOURS[3], ms=5, label="upper bound (Theorem 2)")
    mean = np.asarray([np.mean(row["samples"]) for row in rows])
    reach = np.abs(np.asarray([np.quantile(row["samples"], [0, 1]) for row in rows]).T - mean)
    axis.errorbar(sharp, mean, yerr=reach, fmt="o", color=COLOURS[0], ms=4, lw=1, label="LUCBRank: mean, all trials")
    axis.plot(sharp, sharp, "-", color="#000000", lw=1, label="sharp lower bound")
    axis.plot(sharp, [row["theorem_3"] for row in rows], "^", color=COLOURS[2], ms=5, label="lower bound (Theorem 3)")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("sharp lower bound, T* d(delta, 1 - delta) (samples)")
    axis.set_ylabel("samples until LUCBRank stops")
    axis.grid(alpha=0.3)
    figure.legend(picture)
    return picture


EXPERIMENT = figure.Experiment(
    name="bounds",
    about="Samples of LUCBRank between the lower and the upper bounds, on random instances.",
    config=Config(),
    quick=Config(instances=2, most_items=4, trials=3, most_needed=1_000),
    compute=compute,
    draw=draw,
    summary=summary,
)

if __name__ == "__main__":
    figure.main(EXPERIMENT)
