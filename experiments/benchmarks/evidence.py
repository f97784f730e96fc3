"""What a sample costs to compute: EvidenceRank and mixture bounds beside LUCBRank with the paper's rate.

All three rank the same instance through `jaxrank.simulate`, interleaved in one run on one machine, each to its own end
or to the same budget. Prints time per sample and per trial with their ratios, and writes JSON; CPU time stands beside
wall time.

    python experiments/benchmarks/evidence.py [--quick] [--repeats N] [--only CASE] [--out DIR]
"""

import dataclasses
import time

import jax
import numpy as np
from contest import ALPHA, DELTA, Case, hold

import jaxrank as jr

CASES = [
    Case("K = 15, c = 3, to termination", 15, (3, 12), 0.0, 512, 10**9),
    Case("K = 100, c = 5, duels, epsilon = .1, to termination", 100, (20, 40, 60, 80), 0.1, 64, 10**9, duels=True),
    Case("K = 100, c = 5, duels, 400,000 samples", 100, (20, 40, 60, 80), 0.0, 64, 400_000, duels=True),
]
QUICK = [dataclasses.replace(CASES[0], trials=16, epsilon=0.2)]


def contestants(case: Case) -> dict:
    """Each as a function of the seed, giving the samples of all trials."""
    setting = {"num_items": case.num_items, "boundaries": case.boundaries, "delta": DELTA, "epsilon": case.epsilon}
    environment = jr.Duels.btl(case.scores) if case.duels else jr.BernoulliArms(means=case.means)

    def rank(algorithm):
        def run(seed: int) -> np.ndarray:
            key = jax.random.key(seed)
            runs = jr.simulate(key, algorithm, environment, num_trials=case.trials, max_samples=case.max_samples)
            return np.asarray(runs.samples, float)

        return run

    return {
        "LUCBRank": rank(jr.LUCBRank(**setting, alpha=ALPHA)),
        "LUCBRank, mixture": rank(jr.LUCBRank(**setting, confidence=jr.Mixture())),
        "EvidenceRank": rank(jr.EvidenceRank(**setting)),
    }


def measure(case: Case, repeats: int) -> dict:
    """Interleaved repeats after one call of each, which compiles."""
    running = contestants(case)
    rows: dict = {name: {"wall": [], "cpu": [], "samples": []} for name in running}
    for run in running.values():
        run(0)
    for repeat in range(1, repeats + 1):
        for name, run in running.items():
            wall, cpu = time.perf_counter(), time.process_time()
            samples = run(repeat)
            rows[name]["wall"].append(time.perf_counter() - wall)
            rows[name]["cpu"].append(time.process_time() - cpu)
            rows[name]["samples"].append(float(samples.sum()))
    for row in rows.values():
        wall, cpu, samples = (np.asarray(row[key]) for key in ("wall", "cpu", "samples"))
        row["ns_per_sample"] = float(np.median(wall / samples) * 1e9)
        row["cpu_ns_per_sample"] = float(np.median(cpu / samples) * 1e9)
        row["samples_per_trial"] = float(samples.mean() / case.trials)
        row["ms_per_trial"] = float(np.median(wall) / case.trials * 1e3)
    # Ratios repeat by repeat, so that a slow minute of the machine slows both sides.
    for row in rows.values():
        for key, ratio in (("wall", "ratio"), ("cpu", "cpu_ratio")):
            mine, paper = (np.asarray(side[key]) / side["samples"] for side in (row, rows["LUCBRank"]))
            row[ratio] = float(np.median(mine / paper))
    return rows


def report(case: Case, rows: dict, repeats: int) -> None:
    """The table of one case."""
    print(f"\n{case.name}  ({case.trials} trials, median of {repeats} interleaved repeats)")
    head = f"{'ns/sample':>11s}{'ratio':>8s}{'CPU ns':>9s}{'ratio':>8s}{'samples/trial':>15s}{'ms/trial':>10s}"
    print(f"  {'':18s}{head}")
    for name, row in rows.items():
        print(
            f"  {name:18s}{row['ns_per_sample']:11.0f}{row['ratio']:7.2f}x{row['cpu_ns_per_sample']:9.0f}"
            f"{row['cpu_ratio']:7.2f}x{row['samples_per_trial']:15,.0f}{row['ms_per_trial']:10.1f}",
            flush=True,
        )


if __name__ == "__main__":
    hold("evidence", __doc__, CASES, QUICK, measure, report)
