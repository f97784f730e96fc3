"""What a guarantee will cost, and what stopping earlier gives: `plan`."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrank import metrics, theory
from jaxrank.algorithms import EvidenceRank, LUCBRank
from jaxrank.core import checks
from jaxrank.core.boundaries import Boundaries, cut_points, tied_boundary
from jaxrank.environments import BernoulliArms, Duels, ScoredDuels
from jaxrank.simulation.simulate import simulate
from jaxrank.stats.evidence import log_evidence
from jaxrank.stats.kl_bounds import kl_lower, kl_upper
from jaxrank.stats.sequences import Design, ExplorationRate

MOST_SAMPLES = 10**7
"""Samples per trial beyond which a setting is extrapolated, not simulated."""
UNIFORM_TRIALS = 400
BOUND_OVER_SAMPLES = {"EvidenceRank": 150, "LUCBRank": 30}
"""Theorem 2's bound over the samples taken, roughly: what there is to go by before anything was simulated."""

Name = Literal["EvidenceRank", "LUCBRank"]


class _Setting(NamedTuple):
    epsilon: float
    delta: float
    name: Name
    alpha: float

    def algorithm(self, num_items: int, points: tuple[int, ...]) -> EvidenceRank | LUCBRank:
        setting = {"num_items": num_items, "boundaries": points, "delta": self.delta, "epsilon": self.epsilon}
        return EvidenceRank(**setting) if self.name == "EvidenceRank" else LUCBRank(**setting, alpha=self.alpha)


class Forecast(NamedTuple):
    """What the algorithm is expected to take for one setting."""

    epsilon: float
    delta: float
    samples: float
    """Mean over trials."""
    interval_low: float
    """95% interval of the mean, with `interval_high`; NaN where extrapolated."""
    interval_high: float
    quantile_95: float
    """95% of the trials took fewer; NaN where extrapolated."""
    source: Literal["simulated", "extrapolated"]
    trials: int
    """Finished trials behind it; fewer than asked for after Ctrl-C, 0 where extrapolated."""
    upper_bound: float
    """Theorem 2, which is about LUCBRank; infinite where epsilon = 0 and means are tied across a boundary."""
    uniform: float
    """Estimate of what uniform sampling with the same proofs takes: as if every empirical mean were exact."""


class AtBudget(NamedTuple):
    """Expected share of items in the right cluster, with so many samples."""

    samples: int
    adaptive: float
    uniform: float
    """Every item sampled as often as every other; a duel counts for both of its items."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What to expect before anyone is paid."""

    num_items: int
    boundaries: tuple[int, ...]
    duels: bool
    algorithm: Name
    trials: int
    forecasts: list[Forecast]
    lower_bounds: dict[float, float]
    """Sharp lower bound at epsilon = 0, by delta: no algorithm with that guarantee takes fewer on average."""
    at_budget: AtBudget | None
    all_pairs: AtBudget | None
    """Every pair asked once, K(K-1)/2 duels: no guarantee. None without duels."""
    interrupted: bool
    """Whether Ctrl-C ended the simulating; only what was simulated until then is here."""


def plan(
    environment: BernoulliArms | Duels | ScoredDuels,
    boundaries: Boundaries,
    *,
    epsilons: Sequence[float] = (0.2, 0.1, 0.05),
    deltas: Sequence[float] = (0.1,),
    algorithm: Name = "EvidenceRank",
    alpha: float | None = None,
    budget: int | None = None,
    trials: int = 40,
    seed: int = 0,
    max_samples: int = MOST_SAMPLES,
    progress: bool | None = None,
) -> Plan:
    """Simulate an algorithm on what is believed to be the truth, and set it beside the theory and uniform sampling.

    Ctrl-C ends the simulating: the plan then has only the settings that were simulated.

    Args:
      environment: arms or duels with the means or scores you expect.
      boundaries: where clusters end, as for `LUCBRank`.
      epsilons: tolerances to plan for; any order.
      deltas: risks to plan for.
      algorithm: what will ask: "EvidenceRank", or "LUCBRank" as the paper has it.
      alpha: exponent of the paper's exploration rate, for LUCBRank; 1.1 by default.
      budget: samples you could pay for; adds what to expect if you stop there.
      trials: trials per setting.
      seed: of the random numbers.
      max_samples: per trial. A setting that would take more is extrapolated along Theorem 2 from the one before it.
      progress: as in `simulate`.
    """
    environment.check()
    trials = checks.whole("trials", trials, low=2)
    checks.require(
        algorithm in BOUND_OVER_SAMPLES, "algorithm", f"must be one of {', '.join(BOUND_OVER_SAMPLES)}", algorithm
    )
    if alpha is not None and algorithm != "LUCBRank":
        raise ValueError(f"alpha belongs to LUCBRank's rate: give it with algorithm LUCBRank, got {algorithm}")
    alpha = 1.1 if alpha is None else alpha
    for name, values, high in (("epsilon", epsilons, float("inf")), ("delta", deltas, 1.0)):
        checks.require(len(values) > 0, name, "must not be empty", "none")
        for value in values:
            checks.inside(name, value, 0, high, closed=(name == "epsilon", False))
    means = np.asarray(environment.means, float)
    points = cut_points(len(means), boundaries)
    _Setting(max(epsilons), min(deltas), algorithm, alpha).algorithm(len(means), points).check()
    if budget is not None:
        budget = checks.whole("budget", budget, low=len(means))
    key = jax.random.key(checks.whole("seed", seed, low=0, high=2**32 - 1))
    forecasts, lower_bounds, interrupted = [], {}, False
    for delta in sorted(deltas, reverse=True):
        known = None
        for epsilon in sorted(epsilons, reverse=True):
            if interrupted:
                break
            setting = _Setting(float(epsilon), float(delta), algorithm, float(alpha))
            known, interrupted = _forecast(
                key, environment, means, points, setting, known, trials, max_samples, progress
            )
            if known is not None:
                forecasts.append(known)
        lower_bounds[float(delta)] = _lower_bound(means, points, delta)
    if interrupted:
        # An extrapolation is no better than what it starts from, and what it starts from may be missing.
        forecasts = [row for row in forecasts if row.source == "simulated"]
    duels = not isinstance(environment, BernoulliArms)

    def stopped_at(samples: int, uniform: float) -> tuple[AtBudget | None, bool]:
        strictest = _Setting(min(epsilons), min(deltas), algorithm, alpha).algorithm(len(means), points)
        label = _label(progress, f"{samples:,} {'duels' if duels else 'samples'}")
        runs = simulate(key, strictest, environment, trials, max_samples=samples, progress=label)
        if runs.interrupted and (runs.biased or not len(runs.trial)):
            return None, True
        adaptive = float(np.mean(metrics.share_placed(runs.order, means, points)))
        return AtBudget(samples, adaptive, uniform), runs.interrupted

    rng = np.random.default_rng(seed)
    at_budget = all_pairs = None
    if budget is not None and not interrupted:
        at_budget, interrupted = stopped_at(budget, _uniform_share(rng, environment, means, points, budget))
    if duels and not interrupted:
        every = len(means) * (len(means) - 1) // 2
        all_pairs, interrupted = stopped_at(every, _uniform_share(rng, environment, means, points, None))
    return Plan(
        num_items=len(means),
        boundaries=points,
        duels=duels,
        algorithm=algorithm,
        trials=trials,
        forecasts=forecasts,
        lower_bounds=lower_bounds,
        at_budget=at_budget,
        all_pairs=all_pairs,
        interrupted=interrupted,
    )


def _lower_bound(means, points, delta) -> float:
    if tied_boundary(means, points) is not None:
        return float("inf")
    return float(theory.sharp_lower_bound(means, points, delta=min(delta, 0.5)))


def _label(progress: bool | None, text: str) -> bool | str | None:
    """What to write beside a bar, unless there is to be none."""
    return text if progress is None else progress


def _forecast(
    key, environment, means, points, setting, before, trials, max_samples, progress
) -> tuple[Forecast | None, bool]:
    """The forecast, None if Ctrl-C left too little for one, and whether it was pressed."""
    epsilon, delta, name, alpha = setting
    tied = tied_boundary(means, points, epsilon == 0) is not None
    bound = uniform = float("inf")
    if not tied:
        bound = float(theory.upper_bound(means, points, delta=delta, epsilon=epsilon, alpha=alpha))
        uniform = _uniform_samples(-np.sort(-means), points, setting)

    def guessed(samples: float) -> Forecast:
        return Forecast(epsilon, delta, samples, np.nan, np.nan, np.nan, "extrapolated", 0, bound, uniform)

    if tied:
        return guessed(float("inf")), False
    # The first setting has nothing to go by but the usual ratio of samples to the bound.
    expected = bound / BOUND_OVER_SAMPLES[name] if before is None else before.samples * bound / before.upper_bound
    if expected > max_samples:
        return guessed(expected), False
    algorithm = setting.algorithm(len(means), points)
    label = _label(progress, f"epsilon {epsilon:g}, delta {delta:g}")
    runs = simulate(key, algorithm, environment, trials, max_samples=4 * max_samples, progress=label)
    if runs.interrupted and (runs.biased or len(runs.trial) < 2):
        return None, True
    if not runs.done.all():
        return guessed(max(expected, float(runs.samples.mean()))), runs.interrupted
    mean, error = float(runs.samples.mean()), float(runs.samples.std(ddof=1)) / len(runs.samples) ** 0.5
    most = float(np.quantile(runs.samples, 0.95))
    low, high = mean - 1.96 * error, mean + 1.96 * error
    forecast = Forecast(epsilon, delta, mean, low, high, most, "simulated", len(runs.samples), bound, uniform)
    return forecast, runs.interrupted


def _uniform_samples(ranked, points, setting: _Setting) -> float:
    """Samples until all boundaries are settled, if every item is sampled in turn and its mean is met exactly.

    The items next to a boundary are settled last: evidence for a pair rises with the one mean and falls with the other.
    """
    count = len(ranked)
    last, first = ranked[np.asarray(points) - 1], ranked[np.asarray(points)]
    rate, design = ExplorationRate(alpha=setting.alpha), Design(count, len(points))
    algorithm = setting.algorithm(count, points)
    needed = algorithm.threshold() if isinstance(algorithm, EvidenceRank) else None

    def settled(rounds: int) -> bool:
        if needed is not None:
            return bool(_proven(rounds, first, last, setting.epsilon, needed))
        return bool(_settled(rounds, first, last, setting.delta, setting.epsilon, rate, design))

    with jax.enable_x64(True):
        low, high = 0, 1
        while not settled(high):
            low, high = high, 2 * high
            if high > 2**52:
                return float("inf")
        while high - low > 1 + low // 1_000:
            middle = (low + high) // 2
            low, high = (low, middle) if settled(middle) else (middle, high)
    return float(count * high)


@jax.jit
def _proven(rounds, first, last, epsilon, needed):
    pulls = jnp.full(first.shape, rounds)
    return jnp.all(log_evidence(last, pulls, first, pulls, epsilon) >= needed.astype(first.dtype))


@functools.partial(jax.jit, static_argnames="design")
def _settled(rounds, first, last, delta, epsilon, rate, design):
    pulls = jnp.full(first.shape, rounds)
    threshold = rate.threshold(means=last, pulls=pulls, rounds=rounds, delta=delta, design=design)
    return jnp.all(kl_upper(first, pulls, threshold) - kl_lower(last, pulls, threshold) < epsilon)


def _uniform_share(rng, environment, means, points, samples: int | None) -> float:
    """Expected share of items in the right cluster after uniform sampling; None asks every pair once."""
    count = len(means)
    if isinstance(environment, BernoulliArms):
        pulls = np.full(count, (samples or 0) // count) + (np.arange(count) < (samples or 0) % count)
        scores = rng.binomial(pulls, means, (UNIFORM_TRIALS, count)) / np.maximum(pulls, 1)
    else:
        everyone = jnp.arange(count)
        left, right = np.triu_indices(count, 1)
        chance = np.asarray(jax.vmap(lambda i: environment.win_probability(jnp.full(count, i), everyone))(everyone))
        trials = max(20, min(UNIFORM_TRIALS, 20_000_000 // len(left)))
        scores = np.empty((trials, count))
        for trial in range(trials):
            pairs = len(left)
            times = np.ones(pairs, int) if samples is None else rng.multinomial(samples, np.full(pairs, 1 / pairs))
            won = rng.binomial(times, np.clip(chance[left, right], 0, 1))
            wins = np.bincount(left, won, count) + np.bincount(right, times - won, count)
            met = np.bincount(left, times, count) + np.bincount(right, times, count)
            scores[trial] = np.where(met > 0, wins / np.maximum(met, 1), 0.5)
    # Ties are broken at random, as they are in every algorithm here.
    order = np.lexsort((rng.random(scores.shape), -scores), axis=-1)
    return float(np.mean(metrics.share_placed(order, means, points)))
