"""Quicksort's brittleness: inversions after one run under a noisy permutation and under BTL with small gaps.

python experiments/noise_models.py [--quick] [--out DIR]
"""

import dataclasses

import figure
import numpy as np
from figure import COLOURS

import jaxrank as jr


@dataclasses.dataclass(frozen=True)
class Config:
    """What is run."""

    trials: int = 400
    sizes: tuple[int, ...] = (25, 50, 100, 200, 400)
    errors: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1)
    btl_items: int = 100
    gaps: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
    seed: int = 8


def compute(config: Config, recorder: figure.Recorder) -> dict:
    """Inverted pairs after a run, by noise, and of uniform duels as many as a run takes."""
    permutation = {}
    for items in config.sizes:
        pairs, standing = items * (items - 1) / 2, -np.arange(items, dtype=float)
        sets = jr.ScoredDuels(
            scores=np.broadcast_to(standing, (len(config.errors), items)),
            noise=np.asarray(config.errors),
            model="noisy_permutation",
        )
        runs = recorder.simulate(f"noisy permutation, {items} items", jr.Quicksort(num_items=items), sets, config)
        inverted = np.asarray(jr.metrics.kendall_tau_distance(runs.order, standing)) * pairs
        permutation[str(items)] = figure.averages(inverted.T)
    items = config.btl_items
    scores = -np.outer(config.gaps, np.arange(items))
    duels = jr.Duels.btl(scores)
    quicksort = recorder.simulate("BTL, Quicksort", jr.Quicksort(num_items=items), duels, config)
    budget = int(quicksort.samples.mean())
    rivals = {
        "Uniform, as many duels": jr.Uniform(num_items=items, pairs=True),
        "Uniform, as many duels, BTL": jr.ByLikelihood(algorithm=jr.Uniform(num_items=items, pairs=True)),
    }
    orders = {"Quicksort, one run": quicksort.order} | {
        name: recorder.simulate(f"BTL, {name}", rival, duels, config, max_samples=budget).order
        for name, rival in rivals.items()
    }
    errors = {
        name: figure.averages(np.asarray(jr.metrics.kendall_tau_distance(order, scores[:, None])).T)
        for name, order in orders.items()
    }
    return {"permutation": permutation, "btl": errors, "comparisons": quicksort.samples.mean(axis=1).tolist()}


def growth(data: dict) -> tuple[float, float, float]:
    """Exponents of K and of p, and the factor of K^2 p, by least squares on logarithms."""
    rows = [
        (np.log(int(items)), np.log(error), np.log(value))
        for items, curve in data["permutation"].items()
        for error, value in zip(data["config"]["errors"], curve["value"], strict=True)
        if value > 0
    ]
    size, error, inverted = np.asarray(rows).T
    design = np.stack([np.ones_like(size), size, error], axis=1)
    _, by_size, by_error = np.linalg.lstsq(design, inverted, rcond=None)[0]
    return float(by_size), float(by_error), float(np.exp((inverted - 2 * size - error).mean()))


def draw(data: dict, plt):
    """Inversions against K, and Kendall tau distance against the gap."""
    picture, (left, right) = plt.subplots(1, 2, figsize=(10, 4.8), layout="constrained")
    sizes = np.asarray([int(items) for items in data["permutation"]])
    *_, factor = growth(data)
    for place, error in enumerate(data["config"]["errors"]):
        value, low, high = (
            np.asarray([curve[key][place] for curve in data["permutation"].values()])
            for key in ("value", "low", "high")
        )
        left.plot(sizes, value, "o", color=COLOURS[place], label=f"p = {error:g}")
        left.fill_between(sizes, low, high, color=COLOURS[place], alpha=0.2, lw=0)
        left.plot(sizes, factor * sizes**2 * error, "-", color=COLOURS[place], lw=1)
    left.set(xscale="log", yscale="log", xlabel="items K (noisy permutation)", ylabel="inverted pairs after one run")
    left.set_xticks(sizes, [str(size) for size in sizes])
    left.minorticks_off()
    left.legend(title=f"lines: {factor:.2f} K² p", frameon=False)
    left.grid(alpha=0.3)
    figure.lines(right, data["config"]["gaps"], data["btl"])
    right.set(
        xscale="log",
        xlabel=f"gap between neighbours (BTL, {data['config']['btl_items']} items)",
        ylabel="share of pairs inverted",
        ylim=(0, None),
    )
    right.legend(frameon=False)
    return picture


def summary(data: dict) -> str:
    """The growth, and Quicksort beside uniform duels."""
    by_size, by_error, factor = growth(data)
    rows = {
        name: [
            figure.span(*(curve[key][place] for key in ("value", "low", "high")))
            for place in range(len(curve["value"]))
        ]
        for name, curve in data["btl"].items()
    }
    return (
        f"Noisy permutation: inverted pairs grow as K^{by_size:.2f} p^{by_error:.2f}; with the exponents 2 and 1, "
        f"{factor:.2f} K^2 p.\nBTL, {data['config']['btl_items']} items, one run of "
        f"{min(data['comparisons']):,.0f} to {max(data['comparisons']):,.0f} comparisons:\n"
        + figure.table("gap", [f"{gap:g}" for gap in data["config"]["gaps"]], rows)
    )


EXPERIMENT = figure.Experiment(
    name="noise_models",
    about="Quicksort under a noisy permutation and under BTL with small gaps.",
    config=Config(),
    quick=Config(trials=10, sizes=(10, 20), errors=(0.05, 0.1), btl_items=10, gaps=(0.1, 1.0)),
    compute=compute,
    draw=draw,
    summary=summary,
)

if __name__ == "__main__":
    figure.main(EXPERIMENT)
