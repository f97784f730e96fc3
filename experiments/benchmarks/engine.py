"""How fast `simulate` is, against the programs its users would write instead.

Four contestants, interleaved in one run on one machine:

- `jaxrank`: `jaxrank.simulate`.
- `textbook`: the textbook JAX program: `jit(vmap(while_loop))`, bounds by a 24-step bisection, order by argsort.
- `numba`: the program a good engineer would write instead: parallel over trials, early exit per trial, every bound
  refreshed each round by warm-started Newton, order kept up by insertion.
- `numba, fewer steps`: the same, but bounds of items that were not sampled get one Newton step instead of two.

Prints ratios of trials (or lane rounds) per second, and writes JSON and a plot. Wall time, with CPU time beside it.

    python experiments/benchmarks/engine.py [--quick] [--repeats N] [--out DIR]
"""

import argparse
import dataclasses
import json
import platform
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numba
import numpy as np

import jaxrank as jr


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


CASES = [
    Case("K = 15, c = 3, to termination", 15, (3, 12), 0.05, 2_000, 10**9, textbook_trials=64),
    Case("K = 100, c = 5, duels", 100, (20, 40, 60, 80), 0.0, 256, 16_000, duels=True, textbook_trials=32),
    Case("K = 10,000, c = 10", 10_000, tuple(range(1_000, 10_000, 1_000)), 0.0, 4, 40_000),
]
QUICK = [
    dataclasses.replace(CASES[0], trials=64, epsilon=0.2, textbook_trials=16),
    dataclasses.replace(CASES[1], trials=16, max_samples=2_000, textbook_trials=8),
    dataclasses.replace(CASES[2], trials=2, max_samples=12_000),
]
DELTA, ALPHA = 0.1, 1.1


def means_of(case: Case) -> np.ndarray:
    """True means: Experiment 1 at K = 15, evenly spread otherwise; for duels, Borda scores of evenly spread BTL."""
    if case.num_items == 15:
        return np.array([0.5] + [0.5 - a / 40 for a in range(2, 16)])
    if case.duels:
        return np.asarray(jr.Duels.btl(scores_of(case)).means, float)
    return np.linspace(0.9, 0.1, case.num_items)


def scores_of(case: Case) -> np.ndarray:
    """BTL scores of the duels."""
    return np.linspace(3.9, 0.0, case.num_items)


def ours(case: Case, seed: int) -> tuple[float, float]:
    """Rounds in all and mean samples of `jaxrank.simulate`."""
    algorithm = jr.LUCBRank(
        num_items=case.num_items, boundaries=case.boundaries, delta=DELTA, epsilon=case.epsilon, alpha=ALPHA
    )
    environment = jr.Duels.btl(scores_of(case)) if case.duels else jr.BernoulliArms(means=means_of(case))
    runs = jr.simulate(
        jax.random.key(seed), algorithm, environment, num_trials=case.trials, max_samples=case.max_samples
    )
    return float(runs.rounds.sum()), float(runs.samples.mean())


def textbook(case: Case):
    """`jit(vmap(while_loop))` as one would first write it."""
    points = jnp.asarray(case.boundaries)
    means = jnp.asarray(means_of(case))
    scores = jnp.asarray(scores_of(case)) if case.duels else None
    count, half = case.num_items, len(case.boundaries)
    k1 = (half / 2) ** ALPHA + 2 * jnp.e / (ALPHA - 1) + 4 * jnp.e / (ALPHA - 1) ** 2

    def divergence(p, q):
        q = jnp.clip(q, 1e-7, 1 - 1e-7)
        return jax.scipy.special.xlogy(p, p / q) + jax.scipy.special.xlogy(1 - p, (1 - p) / (1 - q))

    def bound(p, pulls, beta, edge):
        def halve(_, bracket):
            inside, outside = bracket
            middle = (inside + outside) / 2
            good = pulls * divergence(p, middle) <= beta
            return jnp.where(good, middle, inside), jnp.where(good, outside, middle)

        return jax.lax.fori_loop(0, 24, halve, (p, jnp.full_like(p, edge)))[1]

    def sample(key, items):
        if scores is None:
            return (jax.random.uniform(key, items.shape) < means[items]).astype(float)
        opponent_key, win_key = jax.random.split(key)
        opponent = jax.random.randint(opponent_key, items.shape, 0, count - 1)
        opponent = opponent + (opponent >= items)
        return jax.random.bernoulli(win_key, jax.nn.sigmoid(scores[items] - scores[opponent])).astype(float)

    def look(pulls, sums, t):
        p = sums / pulls
        x = jnp.log(k1 * count / DELTA) + ALPHA * jnp.log(t)
        beta = x + jnp.log(x)
        lower, upper = bound(p, pulls, beta, 0.0), bound(p, pulls, beta, 1.0)
        rank = jnp.argsort(jnp.argsort(-p))
        above = rank[None, :] < points[:, None]
        low, high = jnp.where(above, lower, jnp.inf), jnp.where(above, -jnp.inf, upper)
        critical = jnp.stack([jnp.argmin(low, axis=1), jnp.argmax(high, axis=1)], axis=1)
        return critical, jnp.max(high, axis=1) - jnp.min(low, axis=1)

    def trial(key):
        first_key, key = jax.random.split(key)
        pulls = jnp.ones(count)
        sums = sample(first_key, jnp.arange(count))
        critical, _ = look(pulls, sums, 1.0)

        def going(carry):
            _, _, _, active, _, _, samples = carry
            return jnp.any(active) & (samples < case.max_samples)

        def body(carry):
            pulls, sums, t, active, critical, key, samples = carry
            key, now = jax.random.split(key)
            items, weight = critical.reshape(-1), jnp.repeat(active, 2).astype(float)
            sums = sums.at[items].add(weight * sample(now, items))
            pulls = pulls.at[items].add(weight)
            critical, overlap = look(pulls, sums, t + 1)
            return pulls, sums, t + 1, active & (overlap >= case.epsilon), critical, key, samples + weight.sum()

        start = (pulls, sums, 1.0, jnp.ones(half, bool), critical, key, float(count))
        _, _, t, _, _, _, samples = jax.lax.while_loop(going, body, start)
        return t, samples

    batch = jax.jit(jax.vmap(trial))

    def run(seed: int) -> tuple[float, float]:
        rounds, samples = batch(jax.random.split(jax.random.key(seed), case.textbook_trials))
        return float(rounds.sum()), float(samples.mean())

    return run


@numba.njit(fastmath=False)
def _newton_width(p, level, width, steps):
    """Steps on d(p, p + width) = level in the coordinate -log(1 - width / (1 - p)), from outside."""
    rest = 1.0 - p
    if rest <= 0.0:
        return 0.0
    width = min(max(width, 1e-9), rest * (1 - 1e-9))
    for _ in range(steps):
        q = p + width
        d = rest * np.log(rest / (rest - width))
        if p > 0.0:
            d += p * np.log(p / q)
        width -= (rest - width) * np.expm1((d - level) * q / width)
        width = min(max(width, 1e-9), rest * (1 - 1e-12))
    return width


@numba.njit(parallel=True)
def _numba_trials(means, scores, points, epsilon, k1, trials, max_samples, seed, fewer_steps):
    count, half = means.size, points.size
    rounds, spent = np.zeros(trials), np.zeros(trials)
    for trial in numba.prange(trials):
        np.random.seed(seed * 1_000_003 + trial)
        pulls, sums, p = np.ones(count), np.zeros(count), np.zeros(count)
        lower, upper = np.zeros(count), np.ones(count)
        order, place = np.argsort(np.random.random(count)), np.zeros(count, np.int64)
        active, critical = np.ones(half, np.bool_), np.zeros((half, 2), np.int64)
        fresh = np.zeros(count, np.bool_)
        for a in range(count):
            sums[a] = _answer(means, scores, a)
            p[a] = sums[a]
        order = order[np.argsort(-p[order], kind="mergesort")]
        for r in range(count):
            place[order[r]] = r
        t, samples, left = 1, float(count), half
        first = True
        while left > 0 and samples < max_samples:
            if not first:
                for i in range(half):
                    if not active[i]:
                        continue
                    for side in range(2):
                        a = critical[i, side]
                        sums[a] += _answer(means, scores, a)
                        pulls[a] += 1
                        p[a] = sums[a] / pulls[a]
                        fresh[a] = True
                        samples += 1
                        r = place[a]
                        while r > 0 and p[order[r - 1]] < p[a]:
                            order[r] = order[r - 1]
                            place[order[r]] = r
                            r -= 1
                        while r < count - 1 and p[order[r + 1]] > p[a]:
                            order[r] = order[r + 1]
                            place[order[r]] = r
                            r += 1
                        order[r] = a
                        place[a] = r
                t += 1
            x = np.log(k1 * count / 0.1) + 1.1 * np.log(t)
            beta = x + np.log(x)
            for a in range(count):
                level = beta / pulls[a]
                steps = 2 if (fresh[a] or t < 20 or not fewer_steps) else 1
                if first:
                    steps = 8
                most = np.sqrt(level / 2)
                upper[a] = p[a] + _newton_width(p[a], level, min(upper[a] - p[a], most), steps)
                lower[a] = p[a] - _newton_width(1.0 - p[a], level, min(p[a] - lower[a], most), steps)
                fresh[a] = False
            for i in range(half):
                best, least = -1, np.inf
                for r in range(points[i]):
                    if lower[order[r]] < least:
                        best, least = order[r], lower[order[r]]
                worst, most = -1, -np.inf
                for r in range(points[i], count):
                    if upper[order[r]] > most:
                        worst, most = order[r], upper[order[r]]
                critical[i, 0], critical[i, 1] = best, worst
                if not first and active[i] and most - least < epsilon:
                    active[i] = False
                    left -= 1
            first = False
        rounds[trial], spent[trial] = t, samples
    return rounds, spent


@numba.njit
def _answer(means, scores, a):
    if scores.size == 0:
        return 1.0 if np.random.random() < means[a] else 0.0
    other = np.random.randint(0, scores.size - 1)
    if other >= a:
        other += 1
    return 1.0 if np.random.random() < 1.0 / (1.0 + np.exp(scores[other] - scores[a])) else 0.0


def numba_program(case: Case, fewer_steps: bool):
    """The numba programs; both share their code but for the number of Newton steps."""
    half = len(case.boundaries)
    k1 = (half / 2) ** ALPHA + 2 * np.e / (ALPHA - 1) + 4 * np.e / (ALPHA - 1) ** 2
    scores = scores_of(case) if case.duels else np.zeros(0)
    points = np.asarray(case.boundaries)

    def run(seed: int) -> tuple[float, float]:
        rounds, samples = _numba_trials(
            means_of(case), scores, points, case.epsilon, k1, case.trials, float(case.max_samples), seed, fewer_steps
        )
        return float(rounds.sum()), float(samples.mean())

    return run


def measure(case: Case, repeats: int) -> dict:
    """Interleaved repeats of all contestants; the first call of each, which compiles, is timed apart."""
    contestants = {"jaxrank": lambda seed: ours(case, seed)}
    if case.textbook_trials:
        contestants["textbook"] = textbook(case)
    contestants["numba"] = numba_program(case, fewer_steps=False)
    contestants["numba, fewer steps"] = numba_program(case, fewer_steps=True)
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
    """Bars of time per trial and round, one group per case."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    cases = data["cases"]
    figure, axes = plt.subplots(1, len(cases), figsize=(4 * len(cases), 3.6), layout="constrained")
    colours = {"jaxrank": "#0072B2", "textbook": "#999999", "numba": "#D55E00", "numba, fewer steps": "#E69F00"}
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


def main() -> None:
    """Parse, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke size")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", type=int, help="run only this case, from 0")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    arguments = parser.parse_args()
    cases = QUICK if arguments.quick else CASES
    cases = cases if arguments.only is None else [cases[arguments.only]]
    data: dict = {
        "config": [dataclasses.asdict(case) for case in cases],
        "repeats": arguments.repeats,
        "versions": {"jax": jax.__version__, "numba": numba.__version__, "jaxrank": jr.__version__},
        "machine": {"processor": platform.machine(), "cores": numba.config.NUMBA_NUM_THREADS},
        "cases": {},
    }
    for case in cases:
        rows = measure(case, arguments.repeats)
        data["cases"][case.name] = rows
        print(f"\n{case.name}  ({case.trials} trials, {arguments.repeats} interleaved repeats)")
        print(f"  {'':20s} {'µs/round':>9s} {'CPU µs':>8s} {'ratio':>7s} {'first call s':>13s} {'mean samples':>13s}")
        for name, row in rows.items():
            print(
                f"  {name:20s} {row['us_per_round']:9.3f} {row['cpu_us_per_round']:8.3f} {row['ratio']:6.1f}x"
                f" {row['first_call']:13.2f} {row['mean_samples']:13,.0f}"
            )
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "engine.json").write_text(json.dumps(data, indent=2))
    draw(data, arguments.out / "engine.png")
    print(f"\nwritten to {arguments.out}/engine.json and engine.png")


if __name__ == "__main__":
    main()
