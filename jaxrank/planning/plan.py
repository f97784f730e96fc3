"""What a guarantee will cost, and what stopping earlier gives: `plan`."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from scipy.special import ndtri

from jaxrank import metrics, theory
from jaxrank.algorithms import EvidenceRank, LUCBRank
from jaxrank.core import checks
from jaxrank.core.boundaries import Boundaries, cut_points, tied_boundary
from jaxrank.environments import BernoulliArms, Duels, ScoredDuels
from jaxrank.planning.result import AtBudget, Forecast, Name, Plan
from jaxrank.planning.uniform import uniform_samples, uniform_share
from jaxrank.simulation.simulate import simulate
from jaxrank.stats.sequences import ALPHA

MOST_SAMPLES = 10**7
"""Samples per trial beyond which a setting is extrapolated, not simulated."""
BOUND_OVER_SAMPLES = {"EvidenceRank": 150, "LUCBRank": 30}
"""Theorem 2's bound over the samples taken, roughly: what there is to go by before anything was simulated."""


class _Setting(NamedTuple):
    epsilon: float
    delta: float
    name: Name
    alpha: float

    def algorithm(self, num_items: int, points: tuple[int, ...]) -> EvidenceRank | LUCBRank:
        setting = {"num_items": num_items, "boundaries": points, "delta": self.delta, "epsilon": self.epsilon}
        return EvidenceRank(**setting) if self.name == "EvidenceRank" else LUCBRank(**setting, alpha=self.alpha)


def typical_duels(num_items: int) -> ScoredDuels:
    """Duels between items of which nothing is known: BTL scores at evenly spaced quantiles of a standard normal.

    Args:
      num_items: K, at least 2.

    Returns:
      An environment to plan for, best item first.

    Example:
      >>> jr.typical_duels(3).scores.round(2).tolist()
      [0.97, 0.0, -0.97]
    """
    num_items = checks.whole("num_items", num_items, low=2)
    return Duels.btl(ndtri((np.arange(num_items, 0, -1) - 0.5) / num_items))


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
    """Simulate an algorithm on the instance you expect, and compare it with the theory and with uniform sampling.

    Ctrl-C stops the simulation: the plan then has only the settings that were simulated.

    Args:
      environment: arms or duels with the means or scores you expect.
      boundaries: where clusters end, as for `LUCBRank`.
      epsilons: tolerances to plan for; any order.
      deltas: risks to plan for.
      algorithm: which algorithm will choose the questions: "EvidenceRank", or the paper's "LUCBRank".
      alpha: exponent of the paper's exploration rate, for LUCBRank.
      budget: samples you could pay for; adds what to expect if you stop there.
      trials: trials per setting.
      seed: of the random numbers.
      max_samples: per trial. A setting that would take more is extrapolated along Theorem 2 from the one before it.
      progress: as in `simulate`.

    Returns:
      What to expect.

    Example:
      >>> plan = jr.plan(jr.BernoulliArms(means=[0.8, 0.5, 0.2]), (1,), epsilons=(0.2,), trials=2, progress=False)
      >>> plan.forecasts[0].source, plan.forecasts[0].trials, plan.duels
      ('simulated', 2, False)
    """
    environment.check()
    trials = checks.whole("trials", trials, low=2)
    checks.require(
        algorithm in BOUND_OVER_SAMPLES, "algorithm", f"must be one of {', '.join(BOUND_OVER_SAMPLES)}", algorithm
    )
    if alpha is not None and algorithm != "LUCBRank":
        raise ValueError(f"alpha belongs to LUCBRank's rate: give it with algorithm LUCBRank, got {algorithm}")
    alpha = ALPHA if alpha is None else alpha
    for name, values, rule in (("epsilon", epsilons, checks.nonnegative), ("delta", deltas, checks.probability)):
        checks.require(len(values) > 0, name, "must not be empty", "none")
        for value in values:
            rule(name, value)
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
        at_budget, interrupted = stopped_at(budget, uniform_share(rng, environment, means, points, budget))
    if duels and not interrupted:
        every = len(means) * (len(means) - 1) // 2
        all_pairs, interrupted = stopped_at(every, uniform_share(rng, environment, means, points, None))
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
        uniform = uniform_samples(means, setting.algorithm(len(means), points))

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
