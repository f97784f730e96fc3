"""`jaxrank simulate`: rank a known instance many times and see what it costs and how often it fails."""

import collections
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from jaxrank.cli import inputs


def simulate(
    means: Annotated[str | None, typer.Option(help="Mean reward of every item: 0.5,0.4,... or a CSV file.")] = None,
    scores: Annotated[
        str | None, typer.Option(help="BTL score of every item, for duels: 1.2,0,... or a CSV file.")
    ] = None,
    boundaries: Annotated[str | None, typer.Option(help="Ranks after which a cluster ends, such as 3,12.")] = None,
    sizes: Annotated[str | None, typer.Option(help="Cluster sizes instead, best first, such as 3,9,3.")] = None,
    clusters: Annotated[
        int | None, typer.Option(help="That many clusters of equal size instead; for GapRank, how many to find.")
    ] = None,
    delta: Annotated[float, typer.Option(help="Probability of a mistake that you accept.")] = 0.1,
    epsilon: Annotated[
        float,
        typer.Option(
            help="How far an item may stand on the wrong side of a boundary; for GapRank, how much wider the gaps of "
            "another clustering may be."
        ),
    ] = 0.05,
    ranking: Annotated[inputs.Ranking, typer.Option("--algorithm", **inputs.ALGORITHM)] = inputs.Ranking.EVIDENCE,
    alpha: Annotated[float | None, inputs.ALPHA] = None,
    smallest: Annotated[int | None, typer.Option(help="For GapRank: least size of a cluster.")] = None,
    largest: Annotated[int | None, typer.Option(help="For GapRank: largest size of a cluster.")] = None,
    trials: Annotated[int, typer.Option(help="Independent trials.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    budget: Annotated[int | None, typer.Option(help="Largest number of samples per trial.")] = None,
    resume_file: Annotated[
        Path | None, typer.Option(help="Keep finished trials in this file and resume from it.")
    ] = None,
    lanes: Annotated[int | None, typer.Option(help="Trials run at once; chosen automatically if not given.")] = None,
    chunk: Annotated[
        int | None, typer.Option(help="Rounds between checks for finished trials; adapted if not given.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also write every trial to this .npz file.")] = None,
    force: inputs.Force = False,
) -> None:
    """Rank a known instance many times: how often it errs, and what it costs.

    Without arguments: Experiment 1 of the paper (15 items, top 3 / middle / bottom 3) at epsilon = 0.05.
    """
    with inputs.report_errors(simulate):
        sources = {"means": means, "scores": scores}
        inputs.check_outputs(sources, out=out, resume_file=resume_file, force=force, suffix=".npz")
        inputs.checked_seed(seed)
        values = _values(means, scores)
        algorithm = _algorithm(
            len(values), boundaries, sizes, clusters, delta, epsilon, ranking, alpha, smallest, largest
        )
        engine = {"resume_file": resume_file, "num_lanes": lanes, "chunk_rounds": chunk}
        report, runs = _simulate(values, scores is not None, algorithm, trials, seed, budget, engine)
        if out is not None:
            runs.save(str(out))
    typer.echo(json.dumps(report, indent=2) if as_json else _table(report, default=means is None and scores is None))
    if out is not None and not as_json:
        typer.echo(f"\nEvery trial is in {out}; read it with jaxrank.Runs.load({str(out)!r}).")
    if runs.interrupted:
        raise typer.Exit(inputs.INTERRUPTED)


def _values(means: str | None, scores: str | None) -> list[float]:
    given = inputs.only_one(means=means, scores=scores)
    if given is not None:
        return inputs.numbers(given, means or scores or "")

    import jaxrank as jr

    return jr.paper.EXPERIMENT_1.tolist()


def _algorithm(num_items, boundaries, sizes, clusters, delta, epsilon, ranking, alpha, smallest, largest):
    alpha = inputs.alpha_of(ranking, alpha)
    points = inputs.cut(boundaries, sizes, clusters)

    import jaxrank as jr

    setting = {"num_items": num_items, "delta": delta, "epsilon": epsilon}
    if ranking is inputs.Ranking.GAPS:
        if boundaries is not None or sizes is not None:
            raise ValueError("boundaries and sizes are what GapRank finds: give clusters, smallest or largest, or none")
        return jr.GapRank(
            **setting, num_clusters=clusters, smallest=1 if smallest is None else smallest, largest=largest
        )
    if smallest is not None or largest is not None:
        raise ValueError(f"smallest and largest are limits for GapRank: give --algorithm gaprank, got {ranking.value}")
    if points is None:
        if num_items != 15:
            raise ValueError(
                f"boundaries, sizes or clusters must be given for items of your own, got {num_items} items"
            )
        points = jr.paper.EXPERIMENT_1_BOUNDARIES
    if ranking is inputs.Ranking.LUCB:
        return jr.LUCBRank(**setting, boundaries=points, alpha=alpha)
    return jr.EvidenceRank(**setting, boundaries=points)


def _simulate(values: list[float], duels: bool, algorithm: Any, trials: int, seed: int, budget: int | None, engine):
    import jax
    import numpy as np

    import jaxrank as jr

    environment = jr.Duels.btl(np.asarray(values)) if duels else jr.BernoulliArms(means=np.asarray(values))
    jr.keep_compiled_programs()
    runs = jr.simulate(jax.random.key(seed), algorithm, environment, num_trials=trials, max_samples=budget, **engine)
    asked, trials = trials, len(runs.trial)
    if trials == 0:
        raise KeyboardInterrupt("interrupted before any trial finished")
    true_means = np.asarray(environment.means)
    if isinstance(algorithm, jr.GapRank):
        best, found = list(algorithm.best_boundaries(true_means)), _counted(runs.found_boundaries, len(values))
        wrong = jr.metrics.gap_mistakes(
            runs.order, runs.found_boundaries, true_means, algorithm.limits, algorithm.epsilon
        )
    else:
        best, found = list(algorithm.boundaries), None
        wrong = jr.metrics.mistakes(runs.order, true_means, algorithm.boundaries, algorithm.epsilon)
    wrong, rate = np.asarray(wrong), getattr(algorithm, "confidence", None)
    low, high = jr.metrics.wilson_interval(int(wrong.sum()), trials)
    report: dict[str, Any] = {
        "algorithm": type(algorithm).__name__,
        "environment": "duels (BTL)" if duels else "direct rewards (Bernoulli)",
        "num_items": len(values),
        "boundaries": best,
        "found": found,
        "delta": float(algorithm.delta),
        "epsilon": float(algorithm.epsilon),
        "alpha": float(rate.alpha) if isinstance(rate, jr.ExplorationRate) else None,
        "trials": trials,
        "trials_asked_for": asked,
        "interrupted": runs.interrupted,
        "biased": runs.biased,
        "seed": seed,
        "budget": budget,
        "mistakes": int(wrong.sum()),
        "mistake_rate": float(wrong.mean()),
        "mistake_interval_95": [low, high],
        "finished": int(runs.done.sum()),
        "samples_mean": float(runs.samples.mean()),
        "samples_standard_error": float(runs.samples.std(ddof=1) / trials**0.5) if trials > 1 else None,
        "samples_quantiles_5_50_95": [float(q) for q in np.quantile(runs.samples, [0.05, 0.5, 0.95])],
        "rounds_mean": float(runs.rounds.mean()),
        "true_means": [float(m) for m in true_means],
        "samples_per_item": [float(p) for p in runs.pulls.mean(axis=0)],
        "version": jr.__version__,
    }
    return report, runs


def _counted(found: Any, num_items: int) -> list[dict[str, Any]]:
    """The boundaries that were found, and in how many trials, most often first."""
    counts = collections.Counter(tuple(int(cut) for cut in row if cut < num_items) for row in found)
    return [{"boundaries": list(cuts), "trials": count} for cuts, count in counts.most_common()]


def _table(report: dict[str, Any], *, default: bool) -> str:
    low, high = report["mistake_interval_95"]
    trials, finished = report["trials"], report["finished"]
    error = report["samples_standard_error"]
    q5, q50, q95 = report["samples_quantiles_5_50_95"]
    held = "within" if report["mistake_rate"] <= report["delta"] else "ABOVE"
    lines = []
    if report["interrupted"]:
        lines.append(f"INTERRUPTED: {trials} of {report['trials_asked_for']} trials finished")
    if report["biased"]:
        lines.append("BIASED: unfinished trials were dropped, so short ones are over-represented: samples are too low")
    lines += [
        f"{inputs.named(report)} on {report['num_items']} items, {report['environment']},"
        f" {'boundaries' if report['found'] is None else 'widest gaps after ranks'} {tuple(report['boundaries'])}"
        + ("  [Experiment 1 of the paper]" if default else ""),
        f"delta {report['delta']:g}, epsilon {report['epsilon']:g}, {trials} trials, seed {report['seed']}",
        "",
        f"  mistake rate      {report['mistake_rate']:.3f}   95% interval [{low:.3f}, {high:.3f}], {held} delta"
        f" = {report['delta']:g}",
        f"  samples to stop   {report['samples_mean']:,.0f}"
        + (f" ± {error:,.0f}" if error is not None else "")
        + f"   (5%, 50%, 95% of trials: {q5:,.0f}, {q50:,.0f}, {q95:,.0f})",
        f"  rounds            {report['rounds_mean']:,.0f}",
    ]
    for row in report["found"] or []:
        lines.append(f"  found             {tuple(row['boundaries'])} in {row['trials']} of {trials} trials")
    if finished < trials:
        lines.append(
            f"  NOT FINISHED      {trials - finished} of {trials} trials spent their budget of {report['budget']:,}:"
        )
        lines.append("                    their orders carry no guarantee")
    lines += ["", "  samples per item, by true mean", *_bars(report), ""]
    lines += ["Try next", *(f"  {line}" for line in _advice(report))]
    return "\n".join(lines)


def _bars(report: dict[str, Any], width: int = 40, most_rows: int = 30) -> list[str]:
    means, pulls, cuts = report["true_means"], report["samples_per_item"], report["boundaries"]
    ranked = sorted(range(len(means)), key=lambda item: -means[item])
    scale = max(pulls)
    step = -(-len(ranked) // most_rows)
    rows = []
    for place, item in enumerate(ranked):
        if place in cuts:
            rows.append("   " + "·" * (width + 30))
        if place % step == 0 or place in cuts or place + 1 in cuts:
            bar = "█" * max(1, round(width * pulls[item] / scale))
            rows.append(f"   item {item:<5d} {means[item]:.4f}  {bar} {pulls[item]:,.0f}")
    return rows


def _advice(report: dict[str, Any]) -> list[str]:
    epsilon = report["epsilon"]
    advice = []
    if report["finished"] < report["trials"]:
        advice.append("--budget with more samples, or a larger --epsilon, to let every trial finish")
    if epsilon > 0:
        advice.append(f"--epsilon {epsilon / 2:g}   stricter clusters; expect up to four times the samples")
    advice.append(f"--epsilon {max(2 * epsilon, 0.05):g}   looser clusters, far fewer samples")
    advice.append(f"--delta {report['delta'] / 10:g}   a tenth of the risk, for some more samples")
    if report["algorithm"] == inputs.Ranking.EVIDENCE.value:
        advice.append("--algorithm lucbrank   the paper's algorithm: the same guarantee from more samples")
        advice.append("--algorithm gaprank --clusters 3   where are the widest gaps?")
    advice.append("--scores FILE --clusters 5   your own items, judged in duels")
    return advice
