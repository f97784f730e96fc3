"""What the contestants of `engine.py` and `evidence.py` are given, and how a contest is held and written down."""

import argparse
import dataclasses
import json
import os
import platform
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

import jaxrank as jr

DELTA, ALPHA = 0.1, 1.1


@dataclasses.dataclass(frozen=True)
class Case:
    """One instance and how far to run it."""

    name: str
    num_items: int
    boundaries: tuple[int, ...]
    epsilon: float
    trials: int
    max_samples: int
    duels: bool = False
    textbook_trials: int = 0
    """The textbook program is slow; it gets fewer trials and is compared by rate. 0 leaves it out."""

    @property
    def scores(self) -> np.ndarray:
        """BTL scores of the duels."""
        return np.linspace(3.9, 0.0, self.num_items)

    @property
    def means(self) -> np.ndarray:
        """True means: Experiment 1 at K = 15, evenly spread otherwise; for duels, their Borda scores."""
        if self.num_items == 15:
            return jr.paper.EXPERIMENT_1
        if self.duels:
            return np.asarray(jr.Duels.btl(self.scores).means, float)
        return np.linspace(0.9, 0.1, self.num_items)

    @property
    def k1(self) -> float:
        """The paper's k1 at alpha = 1.1."""
        half = len(self.boundaries)
        return (half / 2) ** ALPHA + 2 * np.e / (ALPHA - 1) + 4 * np.e / (ALPHA - 1) ** 2


CASES = [
    Case("K = 15, c = 3, to termination", 15, (3, 12), 0.05, 2_000, 10**9, textbook_trials=128),
    Case("K = 100, c = 5, duels", 100, (20, 40, 60, 80), 0.0, 512, 16_000, duels=True, textbook_trials=64),
    Case("K = 10,000, c = 10", 10_000, tuple(range(1_000, 10_000, 1_000)), 0.0, 12, 40_000, textbook_trials=2),
]
QUICK = [
    dataclasses.replace(CASES[0], trials=64, epsilon=0.2, textbook_trials=16),
    dataclasses.replace(CASES[1], trials=16, max_samples=2_000, textbook_trials=8),
    dataclasses.replace(CASES[2], trials=2, max_samples=12_000, textbook_trials=1),
]


def hold(
    name: str,
    about: str | None,
    cases: list[Case],
    quick: list[Case],
    measure: Callable[[Case, int], dict],
    report: Callable[[Case, dict, int], None],
    **versions: str | None,
) -> tuple[dict, Path]:
    """Parse the command line, measure and report every case, write NAME.json; the data and where it is."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke size")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", type=int, help="run only this case, from 0")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    arguments = parser.parse_args()
    chosen = quick if arguments.quick else cases
    chosen = chosen if arguments.only is None else [chosen[arguments.only]]
    data: dict = {
        "config": [dataclasses.asdict(case) for case in chosen],
        "repeats": arguments.repeats,
        "versions": {"jax": jax.__version__, "jaxrank": jr.__version__, **versions},
        "machine": {"processor": platform.machine(), "cores": os.cpu_count()},
        "cases": {},
    }
    for case in chosen:
        data["cases"][case.name] = measure(case, arguments.repeats)
        report(case, data["cases"][case.name], arguments.repeats)
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / f"{name}.json"
    path.write_text(json.dumps(data, indent=2))
    print(f"\nwritten to {path}")
    return data, path
