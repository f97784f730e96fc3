"""How fast `simulate` is, against the programs its users would write instead.

Four contestants, interleaved in one run on one machine:

- `jaxrank`: `jaxrank.simulate`.
- `textbook`: the textbook JAX program: `jit(vmap(while_loop))`, bounds by a 24-step bisection, order by argsort.
- `numba`: the program a good engineer would write instead: parallel over trials, early exit per trial, every bound
  refreshed each round by warm-started Newton, order kept up by insertion.
- `numba, tricks`: the same with every trick of jaxrank's loop, to tell what comes from the tricks and what from the
  engine.

Prints ratios of wall time per trial and round, and writes JSON and a plot; CPU time stands beside wall time. Without
numba (the `benchmark` extra) its two programs are left out.

    python experiments/benchmarks/engine.py [--quick] [--repeats N] [--only CASE] [--out DIR]
"""

import time
from pathlib import Path

import jax
import numpy as np
from contest import ALPHA, CASES, DELTA, QUICK, Case, hold
from textbook_program import textbook

import jaxrank as jr

try:
    import numba
    from numba_program import numba_program
except ImportError:
    numba = numba_program = None


def ours(case: Case):
    """`jaxrank.simulate` as a function of the seed: rounds in all and mean samples."""
    algorithm = jr.LUCBRank(
        num_items=case.num_items, boundaries=case.boundaries, delta=DELTA, epsilon=case.epsilon, alpha=ALPHA
    )
    environment = jr.Duels.btl(case.scores) if case.duels else jr.BernoulliArms(means=case.means)

    def run(seed: int) -> tuple[float, float]:
        key = jax.random.key(seed)
        runs = jr.simulate(key, algorithm, environment, num_trials=case.trials, max_samples=case.max_samples)
        return float(runs.rounds.sum()), float(runs.samples.mean())

    return run


def measure(case: Case, repeats: int) -> dict:
    """Interleaved repeats of all contestants; the first call of each, which compiles, is timed apart."""
    contestants = {"jaxrank": ours(case)}
    if case.textbook_trials:
        contestants["textbook"] = textbook(case)
    if numba_program is not None:
        contestants["numba"] = numba_program(case, tricks=False)
        contestants["numba, tricks"] = numba_program(case, tricks=True)
    rows: dict = {name: {"wall": [], "cpu": [], "rounds": [], "samples": []} for name in contestants}
    for name, contestant in contestants.items():
        start = time.perf_counter()
        contestant(0)
        rows[name]["first_call"] = time.perf_counter() - start
    for repeat in range(1, repeats + 1):
        for name, contestant in contestants.items():
            wall, cpu = time.perf_counter(), time.process_time()
            rounds, samples = contestant(repeat)
            rows[name]["wall"].append(time.perf_counter() - wall)
            rows[name]["cpu"].append(time.process_time() - cpu)
            rows[name]["rounds"].append(rounds)
            rows[name]["samples"].append(samples)
    for row in rows.values():
        wall, cpu, rounds = (np.asarray(row[key]) for key in ("wall", "cpu", "rounds"))
        row["us_per_round"] = float(np.median(wall / rounds) * 1e6)
        row["cpu_us_per_round"] = float(np.median(cpu / rounds) * 1e6)
        row["mean_samples"] = float(np.mean(row["samples"]))
    for name in contestants:
        rows[name]["ratio"] = rows[name]["us_per_round"] / rows["jaxrank"]["us_per_round"]
    return rows


def draw(data: dict, path: Path) -> None:
    """Bars of time per trial and round, one panel per case."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    cases = data["cases"]
    figure, axes = plt.subplots(1, len(cases), figsize=(4 * len(cases), 3.6), layout="constrained")
    colours = {"jaxrank": "#0072B2", "textbook": "#999999", "numba": "#D55E00", "numba, tricks": "#E69F00"}
    for axis, (case, rows) in zip(np.atleast_1d(axes), cases.items(), strict=True):
        names = list(rows)
        values = [rows[name]["us_per_round"] for name in names]
        bars = axis.bar(range(len(names)), values, color=[colours[name] for name in names])
        axis.bar_label(bars, [f"{rows[name]['ratio']:.1f}x" for name in names], padding=2)
        axis.set_xticks(range(len(names)), [name.replace(", ", ",\n") for name in names])
        axis.set_yscale("log")
        axis.set_ylabel("wall time per trial and round (µs)")
        axis.set_title(case)
        axis.margins(y=0.15)
    figure.savefig(path, dpi=120)


def report(case: Case, rows: dict, repeats: int) -> None:
    """The table of one case."""
    print(f"\n{case.name}  ({case.trials} trials, median of {repeats} interleaved repeats)")
    print(f"  {'':15s} {'µs/round':>10s} {'CPU µs':>10s} {'ratio':>8s} {'first call s':>13s} {'mean samples':>13s}")
    for name, row in rows.items():
        print(
            f"  {name:15s} {row['us_per_round']:10.3f} {row['cpu_us_per_round']:10.3f} {row['ratio']:7.1f}x"
            f" {row['first_call']:13.2f} {row['mean_samples']:13,.0f}",
            flush=True,
        )


def main() -> None:
    """Parse, measure, print, write, draw."""
    if numba is None:
        print("numba is not installed: its programs are left out (pip install 'jaxrank[benchmark]')")
    version = getattr(numba, "__version__", None)
    data, path = hold("engine", __doc__, CASES, QUICK, measure, report, numba=version)
    draw(data, path.with_suffix(".png"))
    print(f"and {path.with_suffix('.png')}")


if __name__ == "__main__":
    main()
