"""How fast `fit_btl` is, against its peers, to the same accuracy.

Every contestant gets arrays of winners and losers and runs at the loosest of its tolerances whose scores are within
1e-4 of a float64 Newton reference (written here, with SciPy); those that never are, are listed with their error, and
timed once. Warm times are medians of interleaved repeats; the first call of each is timed apart. Peers come with the
`benchmark` extra; one that is not installed, or that would take minutes, is left out. (arena-rank 0.1.1 asks for
exactly jax 0.8.1 and cannot be installed beside jaxrank.) At last jaxrank alone, each size in a fresh process: the
first call after the imports, the second, and the peak memory of the process.

    python experiments/benchmarks/btl.py [--quick] [--repeats N] [--only CASE] [--out DIR]
"""

import argparse
import dataclasses
import functools
import importlib
import json
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from btl_peers import centred, installed
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, cg

import jaxrank as jr

COLOURS = {
    "jaxrank": "#0072B2",
    "evalica": "#D55E00",
    "choix": "#E69F00",
    "scikit-learn": "#009E73",
    "numba (Newman)": "#999999",
}
ACCURATE = 1e-4
PATIENCE = 60.0
"""Seconds after which a contestant gets no tighter tolerance to try."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A random data set."""

    name: str
    count: int
    rows: int
    banded: bool = False
    skip: tuple[str, ...] = ()
    """Contestants that would take minutes, or too much memory."""


DENSE = ("evalica", "choix")
CASES = [
    Case("K = 100, n = 6,000", 100, 6_000),
    Case("K = 1,000, n = 100,000", 1_000, 100_000),
    Case("K = 1,000, banded", 1_000, 100_000, banded=True, skip=("evalica", "numba (Newman)")),
    Case("K = 10,000, n = 1,000,000", 10_000, 1_000_000, skip=DENSE),
    Case("K = 100,000, n = 10,000,000", 100_000, 10_000_000, skip=DENSE),
]
ALONE = [(100, 6_000), (1_000, 100_000), (100_000, 10_000_000), (100_000, 100_000_000)]
QUICK = [Case("K = 30, n = 600", 30, 600), Case("K = 60, banded", 60, 1_200, banded=True)]


def answers(case: Case, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """BTL answers between random items, or between items at most five places apart; all items linked by a ring."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 1, case.count)
    left = rng.integers(0, case.count, case.rows)
    gap = rng.integers(1, 6 if case.banded else case.count, case.rows)
    right = np.minimum(left + gap, case.count - 1) if case.banded else (left + gap) % case.count
    left = np.where(left == right, left - 1, left)
    won = rng.random(case.rows) < 1 / (1 + np.exp(scores[right] - scores[left]))
    around = np.arange(case.count - 1)
    winners = np.concatenate([np.where(won, left, right), around, around + 1])
    losers = np.concatenate([np.where(won, right, left), around + 1, around])
    return winners.astype(np.int32), losers.astype(np.int32)


def reference(winners: np.ndarray, losers: np.ndarray, count: int) -> np.ndarray:
    """Maximum likelihood by Newton steps in float64, each solved by conjugate gradients.

    A step below 1e-7, known to eight digits, leaves an error far below the 1e-4 that is asked of the contestants.
    """
    rows = len(winners)
    place = np.stack([winners, losers], axis=1).ravel()
    design = csr_array((np.tile([1.0, -1.0], rows), place, 2 * np.arange(rows + 1)), shape=(rows, count))
    scores = np.zeros(count)
    for _ in range(60):
        chance = 1 / (1 + np.exp(-(design @ scores)))
        gradient = centred(design.T @ (1 - chance))
        weight = chance * (1 - chance)
        diagonal = np.bincount(place, np.repeat(weight, 2), count)

        def multiply(vector, weight=weight, diagonal=diagonal):
            # Constant scores have no curvature; a little of it keeps the system regular and the step centred.
            return design.T @ (weight * (design @ vector)) + diagonal.mean() * vector.mean()

        product = LinearOperator((count, count), matvec=multiply, dtype=float)  # pyright: ignore
        scale = LinearOperator((count, count), matvec=lambda v, d=diagonal: v / d, dtype=float)  # pyright: ignore
        step, _ = cg(product, gradient, rtol=1e-8, maxiter=50 * count, M=scale)
        scores = centred(scores + step * min(1, 2 / max(abs(step).max(), 1e-30)))
        if abs(step).max() < 1e-7:
            return scores
    raise RuntimeError("the reference did not converge")


def measure(case: Case, repeats: int) -> dict:
    """Choose tolerances, then time everybody in turns on a fresh data set each time."""
    data = [answers(case, seed) for seed in range(min(repeats, 3) + 1)]
    truth = reference(*data[0], case.count)
    rows: dict = {}
    for name, (fit, _, tolerances) in installed().items():
        if name in case.skip:
            continue
        for tolerance in tolerances:
            start = time.perf_counter()
            error = float(abs(fit(*data[0], case.count, tolerance) - truth).max())
            seconds = time.perf_counter() - start
            row = rows.setdefault(name, {"first_call": seconds, "wall": [], "cpu": []})
            row |= {"tolerance": tolerance, "error": error}
            if error <= ACCURATE or seconds > PATIENCE:
                break
    for repeat in range(repeats):
        for name, row in rows.items():
            if repeat and row["error"] > ACCURATE:
                continue
            fit = installed()[name][0]
            calls = 1 if case.rows > 500_000 or row["error"] > ACCURATE else 5
            winners, losers = data[1 + repeat % (len(data) - 1)]
            timed(row, functools.partial(fit, winners, losers, case.count, row["tolerance"]), calls)
    return summed_up(rows)


def timed(row: dict, run, calls: int) -> None:
    """Add the wall and CPU time of a call: of several after an untimed one, if asked for more than one.

    The untimed one warms the caches and lets threads of the contestant before, which may still spin, come to rest.
    """
    if calls > 1:
        run()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(calls):
        run()
    row["wall"].append((time.perf_counter() - wall) / calls)
    row["cpu"].append((time.process_time() - cpu) / calls)


def summed_up(rows: dict) -> dict:
    """Medians and ratios."""
    for row in rows.values():
        row["ms"], row["cpu_ms"] = (1e3 * float(np.median(row[key])) for key in ("wall", "cpu"))
        row["accurate"] = row["error"] <= ACCURATE
    for row in rows.values():
        row["ratio"] = row["ms"] / rows["jaxrank"]["ms"]
    return rows


def many(fits: int, repeats: int) -> dict:
    """600 tables of 100 items and 6,000 answers at once, against one fit of a peer after the other."""
    case = Case("", 100, 6_000)
    data = [answers(case, seed) for seed in range(fits)]
    tables = np.stack([np.bincount(w * 100 + v, minlength=10_000).reshape(100, 100) for w, v in data]).astype(float)
    peers = {"jaxrank": lambda: np.asarray(jr.btl_scores_of_many(jnp.asarray(tables, jnp.float32)).scores)}
    if "evalica" in installed():
        peer = installed()["evalica"][0]
        peers["evalica"] = lambda: np.stack([peer(w, v, 100, 1e-6) for w, v in data])
    if "choix" in installed():
        other = installed()["choix"][0]
        peers["choix"] = lambda: np.stack([other(w, v, 100, 1e-5) for w, v in data])
    truth = reference(*data[0], 100)
    rows: dict = {}
    for name, run in peers.items():
        start = time.perf_counter()
        error = float(abs(run()[0] - truth).max())
        rows[name] = {"first_call": time.perf_counter() - start, "error": error, "wall": [], "cpu": [], "tolerance": 0}
    for _ in range(repeats):
        for name, run in peers.items():
            timed(rows[name], run, 1)
    return summed_up(rows)


def report(name: str, rows: dict) -> None:
    """The table of one case."""
    print(f"\n{name}")
    print(
        f"  {'':15s} {'ms':>10s} {'CPU ms':>10s} {'ratio':>8s} {'error':>9s} {'tolerance':>10s} {'first call ms':>14s}"
    )
    for peer, row in rows.items():
        print(
            f"  {peer:15s} {row['ms']:10.2f} {row['cpu_ms']:10.2f} {row['ratio']:7.1f}x {row['error']:9.1e}"
            f" {row['tolerance']:10.0e} {1e3 * row['first_call']:14.0f}{'' if row['accurate'] else '  NOT ACCURATE'}",
            flush=True,
        )


def alone(count: int, rows: int) -> None:
    """Print first and second call and peak memory of a fit in this process; the data is made in pieces."""
    winners, losers = (np.empty(rows, np.int32) for _ in range(2))
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 1, count)
    for piece in range(0, rows, 10**6):
        size = min(10**6, rows - piece)
        left, gap = rng.integers(0, count, size), rng.integers(1, count, size)
        right = (left + gap) % count
        won = rng.random(size) < 1 / (1 + np.exp(scores[right] - scores[left]))
        winners[piece : piece + size] = np.where(won, left, right)
        losers[piece : piece + size] = np.where(won, right, left)
    fit, seconds = installed()["jaxrank"][0], []
    # Else imported lazily: the first call is to show what compiling takes.
    importlib.import_module("jaxrank.fitting.fit")
    jax.block_until_ready(jax.jit(lambda x: x + 1)(1))
    for _ in range(2):
        start = time.perf_counter()
        fit(winners, losers, count, 1e-5)
        seconds.append(time.perf_counter() - start)
    # Not `getrusage`, whose peak a process inherits from the one that started it.
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
    print(json.dumps({"first_call": seconds[0], "second_call": seconds[1], "peak_mib": peak}))


def draw(cases: dict, path: Path) -> None:
    """Bars of warm times, one panel per case."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    across = min(len(cases), 3)
    down = -(-len(cases) // across)
    figure, axes = plt.subplots(down, across, figsize=(3.6 * across, 3.3 * down), layout="constrained", squeeze=False)
    for axis in axes.ravel()[len(cases) :]:
        axis.set_axis_off()
    for axis, (case, rows) in zip(axes.ravel(), cases.items(), strict=False):
        names = list(rows)
        colours = [COLOURS[name] if rows[name]["accurate"] else "#DDDDDD" for name in names]
        bars = axis.bar(range(len(names)), [rows[name]["ms"] for name in names], color=colours)
        labels = [f"{rows[name]['ratio']:.1f}x" + ("" if rows[name]["accurate"] else "\ninaccurate") for name in names]
        axis.bar_label(bars, labels, padding=2, fontsize=8)
        axis.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=8)
        axis.set_yscale("log")
        axis.set_ylabel("warm time (ms)")
        axis.set_title(case, fontsize=9)
        axis.margins(y=0.2)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Parse, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke size")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument(
        "--only", type=int, help="run only this case, from 0; then many fits at once; then jaxrank alone"
    )
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    parser.add_argument("--alone", type=int, nargs=2, metavar=("K", "N"), help="jaxrank only, in this process")
    arguments = parser.parse_args()
    if arguments.alone:
        alone(*arguments.alone)
        return
    cases = QUICK if arguments.quick else CASES
    fits = 20 if arguments.quick else 600
    data: dict = {"versions": {"jax": jax.__version__, "jaxrank": jr.__version__}, "cases": {}}
    for number, case in enumerate(cases):
        if arguments.only in (None, number):
            repeats = min(arguments.repeats, 3) if case.rows > 500_000 else arguments.repeats
            data["cases"][case.name] = measure(case, repeats)
            report(case.name, data["cases"][case.name])
    if arguments.only in (None, len(cases)):
        name = f"{fits} fits of K = 100, n = 6,000"
        data["cases"][name] = many(fits, arguments.repeats)
        report(name, data["cases"][name])
    if arguments.only in (None, len(cases) + 1):
        print(f"\n{'jaxrank alone':32s} {'first call s':>14s} {'second s':>10s} {'peak MiB':>10s}")
        data["alone"] = {}
        for count, rows in [(30, 600)] if arguments.quick else ALONE:
            command = [sys.executable, __file__, "--alone", str(count), str(rows)]
            row = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            name = f"K = {count:,}, n = {rows:,}"
            data["alone"][name] = row
            print(
                f"{name:32s} {row['first_call']:14.2f} {row['second_call']:10.3f} {row['peak_mib']:10.0f}", flush=True
            )
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "btl.json").write_text(json.dumps(data, indent=2))
    if data["cases"]:
        draw(data["cases"], arguments.out / "btl.png")
    print(f"\nwritten to {arguments.out}")


if __name__ == "__main__":
    main()
