"""`jaxrank fit`: scores, intervals and tiers from a file of pairwise answers."""

import json
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from jaxrank.cli import inputs

MOST_RATERS = 20
"""Raters in the table; JSON has all of them."""


def fit(
    answers: Annotated[
        str, typer.Argument(help=f"winner,loser[,count] or left,right,winner[,rater]. {inputs.ANSWERS}")
    ],
    model: Annotated[str, typer.Option(help="btl or thurstone.")] = "btl",
    prior: Annotated[float, typer.Option(help="Precision of a Gaussian prior that keeps scores finite.")] = 0.0,
    scale: Annotated[str, typer.Option(help="centred, lowest (the lowest is 0) or elo.")] = "centred",
    clusters: Annotated[int | None, typer.Option(help="Show that many tiers of equal size.")] = None,
    boundaries: Annotated[str | None, typer.Option(help="Or tiers that end after these ranks, such as 3,12.")] = None,
    level: Annotated[float, typer.Option(help="Level of the confidence intervals.")] = 0.95,
    largest_group: inputs.LargestGroup = False,
    columns: inputs.Columns = None,
    outcomes: inputs.Outcomes = None,
    skip_self: inputs.SkipSelf = False,
    matrix: inputs.Matrix = False,
    transpose: inputs.Transpose = False,
    answers_per_pair: inputs.AnswersPerPair = None,
    labels: inputs.Labels = None,
    header: inputs.Header = None,
    delimiter: inputs.Delimiter = None,
    encoding: inputs.Encoding = None,
    top: Annotated[int | None, typer.Option(help="Show only this many of the best items.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Write item, score, standard error, interval and tier to this CSV.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw scores and intervals to this .png, .svg or .pdf.")] = None,
    force: inputs.Force = False,
) -> None:
    """Fit scores to pairwise answers, with their uncertainty and a test of whether the model fits.

    Example: jaxrank fit answers.csv --clusters 5 --plot scores.png
    """
    with inputs.report_errors(fit):
        if model not in ("btl", "thurstone"):
            raise ValueError(f"model must be btl or thurstone, got {model!r}")
        if top is not None and top < 1:
            raise ValueError(f"top must be at least 1, got {top}")
        inputs.check_outputs({"answers": answers, "labels": labels}, out=out, plot=plot, force=force)
        reading = {"skip_self": skip_self, "matrix": matrix, "header": header, "delimiter": delimiter}
        reading |= {"transpose": transpose, "answers_per_pair": answers_per_pair, "labels": inputs.labels_in(labels)}
        data, notes = read(answers, columns, outcomes, prior, largest_group, **reading, encoding=encoding)

        import numpy as np

        import jaxrank as jr

        cut = inputs.cut(boundaries, None, clusters)
        points = None if cut is None else jr.cut_points(data.num_items, cut)
        jr.keep_compiled_programs()
        fitter: Any = jr.fit_btl if model == "btl" else jr.fit_thurstone
        fitted = without_warning(fitter, data, prior=prior, scale=scale)
        tiers = None if points is None else np.asarray(jr.metrics.clusters(fitted.order, points))
        report = _report(fitted, points, tiers, level, notes)
        if out is not None:
            fitted.save(out, level=level, tiers=None if tiers is None else tiers + 1)
        if plot is not None:
            jr.plots.draw_fit(fitted, plot, tiers, level)
    if as_json:
        typer.echo(json.dumps(report, indent=2))
        return
    typer.echo(_table(report, top))
    for path, what in ((out, "scores are"), (plot, "picture is")):
        if path is not None:
            typer.echo(f"\nThe {what} in {path}.")


def without_warning(fitter: Any, *args: Any, **options: Any) -> Any:
    """The fit, where the report itself says that it did not converge."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the fit did not converge", RuntimeWarning)
        return fitter(*args, **options)


def read(answers: str, columns: str | None, outcomes: str | None, prior: float, largest_group: bool, **options):
    """The answers in a file, and what to say about those that were left out."""
    named = {"columns": inputs.pairs("columns", columns), "outcomes": inputs.pairs("outcomes", outcomes)}

    import jaxrank as jr

    data = jr.Comparisons.read(answers, **named, **options)
    notes = [f"{count:,} rows {reason} were left out" for reason, count in data.left_out.items()]
    if largest_group:
        # Without a prior, scores exist only where wins lead both ways.
        kept = data.largest_group(strong=prior == 0)
        if kept.num_items < data.num_items:
            rest = sorted(set(data.labels) - set(kept.labels))
            names = ", ".join(map(repr, rest[:5])) + (f" and {len(rest) - 5} more" if len(rest) > 5 else "")
            lost = f"{data.total - kept.total:,.0f} answers"
            notes.append(f"only the largest group was fitted; {len(rest)} items with {lost} were left out: {names}")
        data = kept
    return data, notes


def _report(fitted: Any, points: Any, tiers: Any, level: float, notes: list[str]) -> dict[str, Any]:
    import numpy as np

    import jaxrank as jr

    data, checks, small = fitted.comparisons, jr.diagnostics, fitted.has_standard_errors
    errors = fitted.standard_errors if small else np.full(data.num_items, np.nan)
    intervals = fitted.intervals(level) if small else np.full((data.num_items, 2), np.nan)
    goodness = checks.goodness_of_fit(fitted, num_samples=100) if data.num_items <= 200 else None
    infit = checks.infit_by_item(fitted)
    caveats = checks.caveats(fitted, points, goodness=goodness, level=level)
    rows = [
        {
            "item": data.labels[i],
            "score": float(fitted.scores[i]),
            "standard_error": inputs.finite(errors[i]),
            "interval": [inputs.finite(intervals[i, 0]), inputs.finite(intervals[i, 1])],
            "borda_score": inputs.finite(data.borda_scores[i]),
            "answers": float(infit.answers[i]),
            "infit": inputs.finite(infit.values[i]),
            "tier": None if tiers is None else int(tiers[i]) + 1,
        }
        for i in fitted.order
    ]
    raters = None
    if data.raters is not None:
        found = checks.raters(fitted)
        raters = [
            {"rater": label, "answers": float(n), "agreement": inputs.finite(a), "infit": inputs.finite(i)}
            for label, n, a, i in zip(*found, strict=True)
        ]
        raters.sort(key=lambda row: -(row["infit"] or 0))
    return {
        "model": fitted.model,
        "prior": fitted.prior,
        "scale": fitted.scale,
        "level": level,
        "num_items": data.num_items,
        "answers": data.total,
        "ties": data.ties,
        "direction": data.in_words(),
        "boundaries": None if points is None else list(points),
        "converged": fitted.converged,
        "error": fitted.error,
        "solver": fitted.solver,
        "passes": fitted.passes,
        "newton_steps": fitted.newton_steps,
        "log_likelihood": fitted.log_likelihood,
        "goodness_of_fit": None
        if goodness is None
        else {**goodness._asdict(), "p_value": inputs.finite(goodness.p_value), "in_words": str(goodness)},
        "items": rows,
        "raters": raters,
        "warnings": notes + [inputs.in_flags(text, fit) for text in caveats],
        "version": jr.__version__,
    }


def _table(report: dict[str, Any], top: int | None) -> str:
    lines = [f"WARNING: {inputs.printable(warning)}" for warning in report["warnings"]]
    if lines:
        lines.append("")
    prior = f", prior precision {report['prior']:g}" if report["prior"] else ""
    name = "BTL" if report["model"] == "btl" else "Thurstone"
    ties = f" ({report['ties']:,.0f} of them ties, each half a win for both)" if report["ties"] else ""
    lines.append(
        f"{name} scores ({report['scale']}{prior}) of {report['num_items']} items, {report['answers']:,.0f} answers"
        f"{ties}; {report['solver']}, log-likelihood {report['log_likelihood']:,.1f}"
    )
    lines.append(f"read so that {inputs.printable(report['direction'])}")
    if report["goodness_of_fit"] is not None:
        lines.append(f"fit of the model: {report['goodness_of_fit']['in_words']}")
    shown = report["items"][:top]
    labels = [inputs.printable(row["item"]) for row in shown]
    width = max(4, *(inputs.columns_wide(label) for label in labels))
    has_tier = report["boundaries"] is not None
    head = f"{report['level']:.0%} interval"
    lines += [
        "",
        f"  rank  {'item':{width}s}  {'score':>9s}  {head:>19s}  {'Borda':>6s}  {'answers':>8s}  {'infit':>6s}",
    ]
    lines[-1] += "  tier" if has_tier else ""
    for rank, (row, label) in enumerate(zip(shown, labels, strict=True), 1):
        if has_tier and rank - 1 in report["boundaries"]:
            lines.append("  " + "·" * (width + 62))
        low, high = row["interval"]
        span = "unknown" if low is None else f"[{low:8.3f}, {high:8.3f}]"
        numbers = [f"{row[key]:6.3f}" if row[key] is not None else "     -" for key in ("borda_score", "infit")]
        lines.append(
            f"  {rank:4d}  {inputs.padded(label, width)}  {row['score']:9.3f}  {span:>20s}  {numbers[0]}"
            f"  {row['answers']:8,.0f}  {numbers[1]}" + (f"  {row['tier']:4d}" if has_tier else "")
        )
    if len(shown) < len(report["items"]):
        lines.append(f"  ... {len(report['items']) - len(shown)} more")
    return "\n".join(lines + _rater_lines(report["raters"]))


def _rater_lines(raters: list[dict[str, Any]] | None) -> list[str]:
    if not raters:
        return []
    shown = raters[:MOST_RATERS]
    labels = [inputs.printable(row["rater"]) for row in shown]
    width = max(5, *(inputs.columns_wide(label) for label in labels))
    lines = ["", f"  {'rater':{width}s}  {'answers':>8s}  {'agreement':>9s}  {'infit':>6s}   (highest infit first)"]
    for row, label in zip(shown, labels, strict=True):
        agreement = "-" if row["agreement"] is None else f"{row['agreement']:.0%}"
        infit = "-" if row["infit"] is None else f"{row['infit']:.3f}"
        lines.append(f"  {inputs.padded(label, width)}  {row['answers']:8,.0f}  {agreement:>9s}  {infit:>6s}")
    return lines + ([f"  ... {len(raters) - len(shown)} more"] if len(shown) < len(raters) else [])
