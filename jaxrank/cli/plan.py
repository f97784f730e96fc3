"""`jaxrank plan`: what a guarantee will cost, before anyone pays."""

import dataclasses
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jaxrank.cli import inputs
from jaxrank.cli.fit import read, without_warning

if TYPE_CHECKING:
    from jaxrank import Plan


def plan(
    means: Annotated[str | None, typer.Option(help="Mean reward of every item: 0.5,0.4,... or a CSV file.")] = None,
    scores: Annotated[
        str | None, typer.Option(help="BTL score of every item, for duels: 1.2,0,... or a CSV file.")
    ] = None,
    answers: Annotated[
        str | None, typer.Option(help=f"A pilot's pairwise answers, to fit scores to. {inputs.ANSWERS}")
    ] = None,
    items: Annotated[int | None, typer.Option(help="Only the number of items: assumes normal BTL scores.")] = None,
    boundaries: Annotated[str | None, typer.Option(help="Ranks after which a cluster ends, such as 3,12.")] = None,
    sizes: Annotated[str | None, typer.Option(help="Cluster sizes instead, best first, such as 3,9,3.")] = None,
    clusters: Annotated[int | None, typer.Option(help="That many clusters of equal size instead.")] = None,
    epsilon: Annotated[str, typer.Option(help="Tolerances to plan for.")] = "0.2,0.1,0.05",
    delta: Annotated[str, typer.Option(help="Probabilities of a mistake to plan for.")] = "0.1",
    algorithm: Annotated[inputs.Ranking, typer.Option(**inputs.ALGORITHM)] = inputs.Ranking.EVIDENCE,
    alpha: Annotated[float | None, inputs.ALPHA] = None,
    price: Annotated[float | None, typer.Option(help="Price of one judgement.")] = None,
    budget: Annotated[int | None, typer.Option(help="Judgements you could pay for.")] = None,
    prior: Annotated[float, typer.Option(help="Prior precision for a pilot's scores; see fit.")] = 0.0,
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
    trials: Annotated[int, typer.Option(help="Trials per setting.")] = 40,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also write the JSON to this file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw samples against epsilon to this .png, .svg or .pdf.")] = None,
    force: inputs.Force = False,
) -> None:
    """Predict how many judgements a guarantee takes, what they cost, and what a smaller budget gives.

    Examples: jaxrank plan --items 100 --clusters 5 --price 0.05 --budget 1000
    or, after a pilot: jaxrank plan --answers pilot.csv --clusters 5 --budget 3000
    """
    with inputs.report_errors(plan):
        inputs.only_one(means=means, scores=scores, answers=answers, items=items)
        sources = {"means": means, "scores": scores, "answers": answers, "labels": labels}
        inputs.check_outputs(sources, out=out, plot=plot, force=force)
        inputs.checked_seed(seed)
        alpha = inputs.alpha_of(algorithm, alpha)
        if algorithm is inputs.Ranking.GAPS:
            raise ValueError("algorithm must be EvidenceRank or LUCBRank, which rank by given boundaries, got GapRank")
        if price is not None and not (price > 0 and math.isfinite(price)):
            raise ValueError(f"price must be finite and above 0, got {price:g}")
        points = inputs.cut(boundaries, sizes, clusters)
        own = any(given is not None for given in (means, scores, answers, items))
        if points is None and own:
            raise ValueError("boundaries, sizes or clusters must be given for items of your own")
        settings = {
            "epsilons": _numbers("epsilon", epsilon),
            "deltas": _numbers("delta", delta),
            "algorithm": algorithm.value,
            "alpha": alpha,
            "budget": budget,
            "trials": trials,
            "seed": seed,
        }

        import jaxrank as jr

        jr.keep_compiled_programs()
        reading = {"skip_self": skip_self, "matrix": matrix, "header": header, "delimiter": delimiter}
        reading |= {"transpose": transpose, "answers_per_pair": answers_per_pair, "labels": inputs.labels_in(labels)}
        pilot = {"prior": prior, "columns": columns, "outcomes": outcomes, "largest_group": largest_group, **reading}
        environment, source, notes = _instance(means, scores, answers, items, {**pilot, "encoding": encoding})
        result = jr.plan(environment, jr.paper.EXPERIMENT_1_BOUNDARIES if points is None else points, **settings)
        if result.interrupted:
            notes.append("interrupted: only what was simulated until then is shown")
            if not result.forecasts:
                raise KeyboardInterrupt("interrupted before any setting was simulated")
        if plot is not None:
            jr.plots.draw_plan(result, plot, price)
        report = _report(result, source, notes, price, alpha, seed)
        if out is not None:
            with jr.atomic_write(out) as temporary:
                temporary.write_text(json.dumps(report, indent=2) + "\n")
    typer.echo(json.dumps(report, indent=2) if as_json else _table(report))
    if not as_json:
        for path, what in ((out, "numbers are"), (plot, "picture is")):
            if path is not None:
                typer.echo(f"\nThe {what} in {path}.")
    if report["interrupted"]:
        raise typer.Exit(inputs.INTERRUPTED)


def _instance(
    means: str | None, scores: str | None, answers: str | None, items: int | None, pilot: dict[str, Any]
) -> tuple[Any, str, list[str]]:
    """What is believed to be the truth, where it is from, and what to say about it."""
    import numpy as np

    import jaxrank as jr

    if means is not None:
        environment = jr.BernoulliArms(means=np.asarray(inputs.numbers("means", means)))
        return environment, "the means given, direct rewards", []
    if scores is not None:
        return jr.Duels.btl(np.asarray(inputs.numbers("scores", scores))), "the BTL scores given, duels", []
    if answers is not None:
        return _from_pilot(answers, pilot)
    if items is not None:
        source = "assumed BTL scores: evenly spread normal quantiles of standard deviation 1, duels"
        note = "the scores are an assumption, not your data: a pilot of a few answers per item tells more (--answers)"
        return jr.typical_duels(items), source, [note]
    return jr.BernoulliArms(means=jr.paper.EXPERIMENT_1), "Experiment 1 of the paper, direct rewards", []


def _numbers(name: str, text: str) -> list[float]:
    try:
        return [float(cell) for cell in text.split(",")]
    except ValueError:
        raise ValueError(f"{name} must be numbers such as 0.2,0.1,0.05, got {text!r}") from None


def _from_pilot(answers: str, options: dict[str, Any]) -> tuple[Any, str, list[str]]:
    import jaxrank as jr

    data, notes = read(answers, **options)
    prior = options["prior"]
    try:
        fitted = without_warning(jr.fit_btl, data, prior=prior)
    except ValueError as error:
        raise ValueError(f"answers are too few to plan from: {error}") from None
    if not fitted.converged:
        notes.append(f"the fit of the pilot did not converge: scores may be off by {fitted.error:.2g} or more")
    noise = jr.diagnostics.noise_share(fitted)
    if noise > 0.1:
        notes.append(
            f"the pilot is thin: about {noise:.0%} of the spread of its scores is noise, so the true items are closer "
            "together and the true cost is higher"
        )
    if prior > 0:
        notes.append(f"scores fitted with a prior of precision {prior:g}")
    source = f"BTL scores fitted to {data.total:,.0f} answers about {data.num_items} items in {answers}, duels"
    return jr.Duels.btl(fitted.scores), f"{source}, read so that {data.in_words()}", notes


def _report(result: "Plan", source: str, notes: list[str], price: float | None, alpha: float | None, seed: int):
    import jaxrank as jr

    def cost(samples: float) -> float | None:
        return inputs.finite(samples * price) if price is not None else None

    rows = [
        {
            **{
                name: value if isinstance(value, str) else inputs.finite(value) for name, value in row._asdict().items()
            },
            "cost": cost(row.samples),
        }
        for row in result.forecasts
    ]
    report: dict[str, Any] = dataclasses.asdict(result)
    for name in ("at_budget", "all_pairs"):
        entry = getattr(result, name)
        report[name] = None if entry is None else {**entry._asdict(), "cost": cost(entry.samples)}
    return {
        **report,
        "source": source,
        "notes": notes,
        "forecasts": rows,
        "lower_bounds": {f"{delta:g}": inputs.finite(value) for delta, value in result.lower_bounds.items()},
        "price": price,
        "alpha": alpha,
        "seed": seed,
        "verdict": result.verdict(price),
        "version": jr.__version__,
    }


def _table(report: dict[str, Any]) -> str:
    unit = "duels" if report["duels"] else "samples"
    with_bound = report["algorithm"] == inputs.Ranking.LUCB.value
    lines = [f"NOTE: {note}" for note in report["notes"]] + [""] * bool(report["notes"])
    lines += [
        f"{report['num_items']} items, boundaries {tuple(report['boundaries'])}; {report['source']}",
        f"{inputs.named(report)}, {report['trials']} trials per line, seed {report['seed']}",
        "",
        f"  epsilon  delta  {unit:>14s}  {'95% interval of the mean':>26s}  {'95% need less than':>18s}"
        + (f"  {'Theorem 2':>14s}" if with_bound else "")
        + (f"  {'cost':>14s}" if report["price"] is not None else ""),
    ]

    def shown(value, width):
        return f"{value:{width},.0f}" if value is not None else f"{'-':>{width}s}"

    for row in report["forecasts"]:
        span = (
            f"{row['interval_low']:,.0f} to {row['interval_high']:,.0f}"
            if row["interval_low"] is not None
            else f"({row['source']})"
        )
        if row["samples"] is None:
            span = "(never: means are tied)"
        bound = "  " + shown(row["upper_bound"], 14) if with_bound else ""
        cost = "" if report["price"] is None else ("  " + shown(row["cost"], 14))
        lines.append(
            f"  {row['epsilon']:7g}  {row['delta']:5g}  {shown(row['samples'], 14)}  {span:>26s}"
            f"  {shown(row['quantile_95'], 18)}{bound}{cost}"
        )
    lines.append("")
    for delta, bound in report["lower_bounds"].items():
        if bound is not None:
            lines.append(
                f"No algorithm reaches epsilon 0 at delta {delta} with fewer than {bound:,.0f} {unit} on average."
            )
    return "\n".join([*lines, "", *report["verdict"]])
