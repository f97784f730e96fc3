"""Every picture. Matplotlib is imported inside, so that it stays an extra."""

from pathlib import Path

import numpy as np

from jaxrank.fit import Fit

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442", "#000000")
"""Okabe and Ito's palette, told apart with all common kinds of colour vision."""


def draw_fit(fit: Fit, path: str | Path, tiers: np.ndarray | None = None, level: float = 0.95) -> None:
    """Scores with their intervals, best on top, coloured by tier."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    order = fit.order
    intervals = fit.intervals(level)
    tiers = np.zeros(len(order), int) if tiers is None else np.asarray(tiers)
    height = min(max(2.5, 0.2 * len(order) + 1), 24)
    figure, axis = plt.subplots(figsize=(7, height), layout="constrained")
    for tier in np.unique(tiers):
        place = np.flatnonzero(tiers[order] == tier)
        items = order[place]
        reach = np.stack([fit.scores[items] - intervals[items, 0], intervals[items, 1] - fit.scores[items]])
        reach = np.where(np.isfinite(reach), reach, 0)
        name = f"tier {tier + 1}" if tiers.any() else None
        colour = COLOURS[tier % len(COLOURS)]
        axis.errorbar(fit.scores[items], place, xerr=reach, fmt="o", ms=4, lw=1.2, color=colour, label=name)
    step = -(-len(order) // 100)
    axis.set_yticks(range(0, len(order), step), [fit.labels[item] for item in order[::step]], fontsize=8)
    axis.set_ylim(len(order) - 0.5, -0.5)
    unit = "Elo points" if fit.scale == "elo" else fit.scale
    axis.set_xlabel(f"{'BTL score' if fit.model == 'btl' else 'Thurstone score'} ({unit}), {level:.0%} intervals")
    axis.grid(axis="x", alpha=0.3)
    if tiers.any():
        axis.legend(loc="lower right")
    figure.savefig(path, dpi=150)
    plt.close(figure)
