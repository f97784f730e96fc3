"""Every picture. Matplotlib is imported inside, so that it stays an extra."""

from pathlib import Path

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike

from jaxrank.core.atomic_write import atomic_write
from jaxrank.fitting.result import Fit
from jaxrank.planning.result import Plan

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442", "#000000")
"""Okabe and Ito's palette, told apart with all common kinds of colour vision."""


def _drawable(labels: list[str]) -> tuple[list[str], list[str]]:
    """The labels as matplotlib draws them letter by letter, and the fonts that have their letters.

    A dollar sign would begin a formula. Letters that no installed font has are drawn as empty squares.
    """
    from matplotlib import font_manager, ft2font

    def letters(path: str) -> set[int]:
        try:
            return set(ft2font.FT2Font(path).get_charmap())
        except (RuntimeError, OSError):
            return set()

    families = ["DejaVu Sans"]
    missing = {ord(letter) for label in labels for letter in label} - letters(font_manager.findfont(families[0]))
    for font in font_manager.fontManager.ttflist if missing else ():
        # Matplotlib's font of last resort has a stand-in for every letter.
        if "Last Resort" not in font.name and (found := missing & letters(font.fname)):
            families.append(font.name)
            missing -= found
    blank = dict.fromkeys(missing, "\N{WHITE SQUARE}")
    return [label.translate(blank).replace("$", r"\$") for label in labels], families


def draw_fit(fit: Fit, path: str | Path, tiers: Int[ArrayLike, "K"] | None = None, level: float = 0.95) -> None:
    """Draw scores with their intervals, best on top, coloured by tier.

    Args:
      fit: the fit.
      path: of the picture, .png, .svg or .pdf.
      tiers: tier of every item, from 0, shape (K,); None draws all in one colour.
      level: of the intervals.

    Returns:
      Nothing.

    Example:
      >>> fit = jr.fit_btl(jr.Comparisons.from_matrix([[0, 30], [10, 0]]))
      >>> jr.plots.draw_fit(fit, getfixture("tmp_path") / "scores.png", tiers=[0, 1])
    """
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
    labels, fonts = _drawable([fit.labels[item] for item in order[::step]])
    axis.set_yticks(range(0, len(order), step), labels, fontsize=8, fontfamily=fonts)
    axis.set_ylim(len(order) - 0.5, -0.5)
    unit = "Elo points" if fit.scale == "elo" else fit.scale
    axis.set_xlabel(f"{'BTL score' if fit.model == 'btl' else 'Thurstone score'} ({unit}), {level:.0%} intervals")
    axis.grid(axis="x", alpha=0.3)
    if tiers.any():
        axis.legend(loc="lower right")
    with atomic_write(path) as temporary:
        figure.savefig(temporary, dpi=150)
    plt.close(figure)


def draw_plan(plan: Plan, path: str | Path, price: float | None = None) -> None:
    """Draw samples against epsilon, both logarithmic, with their cost on the right if there is a price.

    Args:
      plan: the plan.
      path: of the picture, .png, .svg or .pdf.
      price: of one judgement.

    Returns:
      Nothing.

    Example:
      >>> plan = jr.plan(jr.BernoulliArms(means=[0.8, 0.5, 0.2]), (1,), epsilons=(0.2,), trials=2, progress=False)
      >>> jr.plots.draw_plan(plan, getfixture("tmp_path") / "plan.png", price=0.05)
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7, 4.5), layout="constrained")
    unit = "duels" if plan.duels else "samples"
    for number, delta in enumerate(sorted({row.delta for row in plan.forecasts}, reverse=True)):
        # A logarithmic axis has no place for epsilon = 0, and nothing for what never ends.
        rows = [row for row in plan.forecasts if row.delta == delta and row.epsilon > 0 and np.isfinite(row.samples)]
        colour = COLOURS[number % len(COLOURS)]
        epsilon, samples = [row.epsilon for row in rows], np.asarray([row.samples for row in rows])
        axis.plot(epsilon, samples, "o-", color=colour, label=f"{plan.algorithm}, delta {delta:g}")
        known = [row for row in rows if row.source == "simulated"]
        if known:
            axis.fill_between(
                [row.epsilon for row in known],
                [row.interval_low for row in known],
                [row.interval_high for row in known],
                color=colour,
                alpha=0.25,
            )
        axis.plot(epsilon, [row.uniform for row in rows], "--", color=colour, label=f"uniform, delta {delta:g}")
        if plan.algorithm == "LUCBRank":
            bounds = [row.upper_bound for row in rows]
            axis.plot(epsilon, bounds, ":", color=colour, label=f"Theorem 2, delta {delta:g}")
    if plan.all_pairs is not None:
        axis.axhline(plan.all_pairs.samples, color="#666666", lw=1, ls="-.", label="every pair once, no guarantee")
    if plan.at_budget is not None:
        axis.axhline(plan.at_budget.samples, color="#000000", lw=1, label="your budget")
    axis.set_xscale("log")
    axis.set_yscale("log")
    ticks = sorted({row.epsilon for row in plan.forecasts if row.epsilon > 0})
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_xlabel("epsilon: how far, in mean reward, an item may stand on the wrong side of a boundary")
    axis.set_ylabel(f"{unit} until the guarantee")
    axis.grid(alpha=0.3)
    figure.legend(loc="outside upper center", ncols=3, fontsize=8)
    if price is not None:
        each = float(price)
        right = axis.secondary_yaxis(
            "right", functions=(lambda n: np.asarray(n) * each, lambda cost: np.asarray(cost) / each)
        )
        right.set_ylabel(f"cost, at {price:g} each")
    with atomic_write(path) as temporary:
        figure.savefig(temporary, dpi=150)
    plt.close(figure)
