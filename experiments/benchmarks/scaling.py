"""How `simulate` scales: with trials, with cores, with items; what it compiles and how much memory it takes.

Every figure comes from a fresh process; figures that are compared are measured in turns. Experiment 1 (K = 15, c = 3).

    python experiments/benchmarks/scaling.py [--quick] [--repeats N] [--out DIR]
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

TWO_DEVICES = "--xla_force_host_platform_device_count=2"


def work(job: dict) -> dict:
    """Run one job in this process: a first call that compiles, then the calls that are timed."""
    import jax

    import jaxrank as jr

    items, clusters = job.get("items", 15), job.get("clusters", 3)
    if items == 15:
        means, boundaries = jr.paper.EXPERIMENT_1, (3, 12)
    else:
        means, boundaries = np.linspace(0.9, 0.1, items), jr.quantiles(clusters)
    algorithm = jr.LUCBRank(
        num_items=items, boundaries=boundaries, delta=0.1, alpha=1.1, pulls_per_item=job.get("pulls", 1)
    )
    arms = jr.BernoulliArms(means=means) if not job.get("duels") else jr.Duels.btl(np.linspace(3.9, 0, items))
    start = time.perf_counter()
    jr.simulate(jax.random.key(0), algorithm, arms, num_trials=job.get("lanes", 256), max_samples=items + 100)
    first_call = time.perf_counter() - start
    rows = []
    for trials in job["trials"]:
        wall, cpu = time.perf_counter(), time.process_time()
        runs = jr.simulate(jax.random.key(1), algorithm, arms, num_trials=trials, max_samples=job["samples"])
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        rounds = float(runs.rounds.sum()) + trials * -(-items // (2 * len(algorithm.boundaries) * job.get("pulls", 1)))
        rows.append({"trials": trials, "wall": wall, "cpu": cpu, "rounds": rounds})
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"first_call": first_call, "rows": rows, "peak_mib": peak}


def start(job: dict, *, cores: str | None = None, flags: str = "") -> dict:
    """The result of a job in a process of its own, pinned to these cores."""
    command = [sys.executable, __file__, "--job", json.dumps(job)]
    if cores is not None:
        command = ["taskset", "-c", cores, *command]
    environment = {**os.environ, "XLA_FLAGS": flags}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def flatness(sizes: list[int], repeats: int) -> dict:
    """Time per trial for these numbers of trials, one after the other in one process, several times."""
    rows = start({"trials": sizes * repeats, "samples": 4_000})["rows"]
    per_trial = {
        size: float(np.median([row["wall"] / size for row in rows if row["trials"] == size]) * 1e6) for size in sizes
    }
    print("\ntime per trial (4,000 samples each)")
    for size, value in per_trial.items():
        print(f"  {size:>9,} trials: {value:8.1f} µs per trial")
    spread = max(per_trial.values()) / min(per_trial.values()) - 1
    print(f"  spread {spread:.1%}", flush=True)
    return {"us_per_trial": per_trial, "spread": spread}


def cores(trials: int, repeats: int) -> dict:
    """One core against two, by pinning, in turns; two as two worker threads and as two host devices."""
    job = {"trials": [trials, trials], "samples": 20_000}
    setups = {
        "one core": {"cores": "0"},
        "two cores": {"cores": "0,1"},
        "two host devices": {"cores": "0,1", "flags": TWO_DEVICES},
    }
    seconds = {name: [] for name in setups}
    for _ in range(repeats):
        for name, setup in setups.items():
            seconds[name].append(min(row["wall"] for row in start(job, **setup)["rows"]))
    medians = {name: float(np.median(values)) for name, values in seconds.items()}
    print(f"\n{trials:,} trials of 20,000 samples, pinned")
    for name, value in medians.items():
        print(f"  {name:17s} {value:7.2f} s  {medians['one core'] / value:5.2f}x", flush=True)
    return {"seconds": seconds, "speedup": {name: medians["one core"] / value for name, value in medians.items()}}


def memory(trials: int) -> dict:
    """Peak memory of very many short trials."""
    result = start({"trials": [trials], "samples": 60})
    print(f"\n{trials:,} trials of 60 samples: peak memory {result['peak_mib']:,.0f} MiB", flush=True)
    return {"trials": trials, "peak_mib": result["peak_mib"]}


def compiling() -> dict:
    """First call of `simulate`."""
    seconds = {
        "K = 15": start({"trials": [], "samples": 1})["first_call"],
        "K = 100, c = 5, duels": start({"items": 100, "clusters": 5, "duels": 1, "trials": [], "samples": 1})[
            "first_call"
        ],
    }
    print("\nfirst call, compilation included")
    for name, value in seconds.items():
        print(f"  {name:22s} {value:5.1f} s", flush=True)
    return seconds


def items(quick: bool) -> dict:
    """Cost of a round as the number of items grows, with one and with many pulls per item."""
    cases = [(1_000, 10, 1, 3), (10_000, 10, 1, 3), (10_000, 10, 32, 10), (100_000, 5, 1, 1.02), (100_000, 5, 128, 4)]
    print("\nmany items")
    rows = []
    for number, clusters, pulls, samples in cases[:1] if quick else cases:
        lanes = max(2, 2**17 // number)
        job = {"items": number, "clusters": clusters, "pulls": pulls, "lanes": lanes, "trials": [lanes]}
        result = start({**job, "samples": int(number * samples)})
        row = result["rows"][0]
        cost = row["wall"] / row["rounds"]
        rows.append({**job, "us_per_round": cost * 1e6, "ns_per_item": cost / number * 1e9, **result})
        print(
            f"  K = {number:>7,}, c = {clusters:2d}, {pulls:3d} pulls per item: {cost * 1e6:9.1f} µs per round,"
            f" {cost / number * 1e9:6.1f} ns per item, peak {result['peak_mib']:,.0f} MiB",
            flush=True,
        )
    return {"rows": rows}


def main() -> None:
    """Parse, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke size")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    parser.add_argument("--job", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job is not None:
        print(json.dumps(work(arguments.job)))
        return
    quick = arguments.quick
    data = {
        "flatness": flatness([200, 400] if quick else [1_000, 10_000, 100_000], 1 if quick else arguments.repeats),
        "cores": cores(100 if quick else 2_000, 1 if quick else arguments.repeats),
        "memory": memory(10_000 if quick else 1_000_000),
        "compiling": compiling(),
        "items": items(quick),
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "scaling.json").write_text(json.dumps(data, indent=2))
    print(f"\nwritten to {arguments.out}/scaling.json")


if __name__ == "__main__":
    main()
