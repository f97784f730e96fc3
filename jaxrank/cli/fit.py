"""`jaxrank fit`: scores, intervals and tiers from a file of pairwise answers."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from jaxrank.cli import inputs


def fit(
    answers: Annotated[
        str, typer.Argument(help="CSV, TSV or JSONL: winner,loser[,count] or left,right,winner[,rater].")
    ],
    model: Annotated[str, typer.Option(help="btl or thurstone.")] = "btl",
    prior: Annotated[float, typer.Option(help="Precision of a Gaussian prior that keeps scores finite.")] = 0.0,
    scale: Annotated[str, typer.Option(help="centred, lowest (the lowest is 0) or elo.")] = "centred",
    clusters: Annotated[int | None, typer.Option(help="Show that many tiers of equal size.")] = None,
    boundaries: Annotated[str | None, typer.Option(help="Or tiers that end after these ranks, such as 3,12.")] = None,
    level: Annotated[float, typer.Option(help="Level of the confidence intervals.")] = 0.95,
    columns: Annotated[
        str | None, typer.Option(help="What columns mean, such as winner=best,loser=worst,rater=judge.")
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help="Mark between columns; found out if not given.")] = None,
    encoding: Annotated[str | None, typer.Option(help="Encoding of the file; found out if not given.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write item,score to this CSV, for simulate --scores.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw scores and intervals to this .png, .svg or .pdf.")] = None,
) -> None:
    """Fit scores to pairwise answers, say how sure they are, and whether the model fits.

    Example: jaxrank fit answers.csv --clusters 5 --plot scores.png
    """
    with inputs.complaints():
        report, warnings = _fit(
            answers, model, prior, scale, clusters, boundaries, level, columns, delimiter, encoding, out, plot
        )
    if as_json:
        typer.echo(json.dumps({**report, "warnings": warnings}, indent=2))
        return
    typer.echo(_table(report, warnings))
    for path, what in ((out, "scores"), (plot, "picture")):
        if path is not None:
            typer.echo(f"\nThe {what} {'are' if what == 'scores' else 'is'} in {path}.")


def _fit(answers, model, prior, scale, clusters, boundaries, level, columns, delimiter, encoding, out, plot):
    if model not in ("btl", "thurstone"):
        raise ValueError(f"model must be btl or thurstone, got {model!r}")
    if clusters is not None and boundaries is not None:
        raise ValueError("clusters and boundaries exclude each other: give one of them")
    inputs.picture(plot)
    named = None if columns is None else _pairs("columns", columns)

    import numpy as np

    import jaxrank as jr

    data = jr.Comparisons.read(answers, columns=named, delimiter=delimiter, encoding=encoding)
    inputs.keep_compiled_programs()
    fitted = (jr.fit_btl if model == "btl" else jr.fit_thurstone)(data, prior=prior, scale=scale)
    tiers = points = None
    if clusters is not None or boundaries is not None:
        cut = jr.quantiles(clusters) if clusters is not None else inputs.whole_numbers("boundaries", boundaries or "")
        points = jr.cut_points(data.num_items, cut)
        tiers = np.searchsorted(np.asarray(points), np.argsort(fitted.order), side="right")
    small = data.num_items <= jr.fit.MOST_FOR_ERRORS
    errors = fitted.standard_errors if small else np.full(data.num_items, np.nan)
    intervals = fitted.intervals(level) if small else np.full((data.num_items, 2), np.nan)
    goodness = jr.model_checks.goodness_of_fit(fitted, num_samples=100) if data.num_items <= 200 else None
    if out is not None:
        fitted.save(out)
    if plot is not None:
        jr.plots.draw_fit(fitted, plot, tiers, level)
    infit = jr.model_checks.infit_by_item(fitted)
    rows = [
        {
            "item": data.labels[i],
            "score": float(fitted.scores[i]),
            "standard_error": _finite(errors[i]),
            "interval": [_finite(intervals[i, 0]), _finite(intervals[i, 1])],
            "borda_score": _finite(data.borda_scores[i]),
            "answers": float(infit.answers[i]),
            "infit": _finite(infit.values[i]),
            "tier": None if tiers is None else int(tiers[i]) + 1,
        }
        for i in fitted.order
    ]
    report: dict[str, Any] = {
        "model": model,
        "prior": prior,
        "scale": scale,
        "level": level,
        "num_items": data.num_items,
        "answers": data.total,
        "boundaries": None if points is None else list(points),
        "converged": fitted.converged,
        "error": fitted.error,
        "solver": fitted.solver,
        "passes": fitted.passes,
        "newton_steps": fitted.newton_steps,
        "log_likelihood": fitted.log_likelihood,
        "goodness_of_fit": None if goodness is None else goodness._asdict(),
        "items": rows,
        "version": jr.__version__,
    }
    return report, _warnings(fitted, goodness, points, intervals)


def _warnings(fitted, goodness, points, intervals) -> list[str]:
    warnings = []
    if not fitted.converged:
        warnings.append(f"the fit did not converge: scores may be off by {fitted.error:.2g} or more")
    report = fitted.connectivity
    if not report.scores_exist:
        warnings.append(f"{report.explain(fitted.labels)}: only the prior keeps their scores finite")
    if goodness is not None and goodness.p_value < 0.01:
        warnings.append(
            f"the model does not fit well (p = {goodness.p_value:.3f}, by simulation): read scores with care, and see "
            "infit for the items it explains worst"
        )
    per_item = 2 * fitted.comparisons.total / len(fitted.labels)
    if per_item < 20:
        warnings.append(f"only {per_item:.1f} answers per item: most tiers will be uncertain")
    for point in points or ():
        above, below = fitted.order[point - 1], fitted.order[point]
        if intervals[above, 0] < intervals[below, 1]:
            unsure = int(((intervals[:, 0] < fitted.scores[above]) & (intervals[:, 1] > fitted.scores[below])).sum())
            warnings.append(
                f"the boundary after rank {point} is not settled: {unsure} items' intervals reach across it"
            )
    return warnings


def _finite(value) -> float | None:
    return float(value) if abs(value) < float("inf") else None


def _pairs(name: str, text: str) -> dict[str, str]:
    parts = [part.split("=", 1) for part in text.split(",")]
    if any(len(part) != 2 for part in parts):
        raise ValueError(f"{name} must look like winner=best,loser=worst, got {text!r}")
    return {key.strip(): value.strip() for key, value in parts}


def _table(report: dict[str, Any], warnings: list[str]) -> str:
    lines = [f"WARNING: {warning}" for warning in warnings]
    if warnings:
        lines.append("")
    prior = f", prior precision {report['prior']:g}" if report["prior"] else ""
    name = "BTL" if report["model"] == "btl" else "Thurstone"
    lines.append(
        f"{name} scores ({report['scale']}{prior}) of {report['num_items']} items, {report['answers']:,.0f} answers;"
        f" {report['solver']}, log-likelihood {report['log_likelihood']:,.1f}"
    )
    goodness = report["goodness_of_fit"]
    if goodness is not None:
        lines.append(
            f"fit of the model: deviance {goodness['deviance']:,.1f} on {goodness['degrees_of_freedom']} degrees"
            f" of freedom, p = {goodness['p_value']:.3f} by simulation"
        )
    width = max(4, *(len(row["item"]) for row in report["items"]))
    has_tier = report["boundaries"] is not None
    head = f"{report['level']:.0%} interval"
    lines += [
        "",
        f"  rank  {'item':{width}s}  {'score':>9s}  {head:>19s}  {'Borda':>6s}  {'answers':>8s}  {'infit':>6s}",
    ]
    lines[-1] += "  tier" if has_tier else ""
    for rank, row in enumerate(report["items"], 1):
        if has_tier and rank - 1 in report["boundaries"]:
            lines.append("  " + "·" * (width + 62))
        low, high = row["interval"]
        span = "unknown" if low is None else f"[{low:8.3f}, {high:8.3f}]"
        numbers = [f"{row[key]:6.3f}" if row[key] is not None else "     -" for key in ("borda_score", "infit")]
        lines.append(
            f"  {rank:4d}  {row['item']:{width}s}  {row['score']:9.3f}  {span:>20s}  {numbers[0]}"
            f"  {row['answers']:8,.0f}  {numbers[1]}" + (f"  {row['tier']:4d}" if has_tier else "")
        )
    return "\n".join(lines)
