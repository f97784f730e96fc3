"""What a plan says, in numbers and in plain words."""

import dataclasses
import math
from typing import Literal, NamedTuple

Name = Literal["EvidenceRank", "LUCBRank"]


class Forecast(NamedTuple):
    """What the algorithm is expected to take for one setting.

    Attributes:
      epsilon: the tolerance.
      delta: the risk.
      samples: mean over trials.
      interval_low: lower end of a 95% interval of the mean; NaN where extrapolated.
      interval_high: its upper end.
      quantile_95: 95% of the trials took fewer; NaN where extrapolated.
      source: "simulated" or "extrapolated".
      trials: finished trials behind it; fewer than asked for after Ctrl-C, 0 where extrapolated.
      upper_bound: Theorem 2, which is about LUCBRank; infinite where epsilon = 0 and means are tied across a boundary.
      uniform: estimate of what uniform sampling with the same stopping test takes, if every empirical mean were exact.

    Example:
      See `plan`.
    """

    epsilon: float
    delta: float
    samples: float
    interval_low: float
    interval_high: float
    quantile_95: float
    source: Literal["simulated", "extrapolated"]
    trials: int
    upper_bound: float
    uniform: float


class AtBudget(NamedTuple):
    """Expected share of items in the right cluster, with so many samples."""

    samples: int
    adaptive: float
    uniform: float
    """Every item sampled as often as every other; a duel counts for both of its items."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What to expect before anyone is paid.

    Attributes:
      num_items: K.
      boundaries: ranks after which a cluster ends.
      duels: whether judgements are duels.
      algorithm: which algorithm will choose the questions.
      trials: trials per setting that were asked for.
      forecasts: one for every setting.
      lower_bounds: sharp lower bound at epsilon = 0, by delta: no algorithm with that guarantee takes fewer on average.
      at_budget: what to expect with the budget given; None without one.
      all_pairs: what to expect if every pair is asked once, K(K-1)/2 duels, without a guarantee; None without duels.
      interrupted: whether Ctrl-C ended the simulating; only what was simulated until then is here.

    Example:
      See `plan`.
    """

    num_items: int
    boundaries: tuple[int, ...]
    duels: bool
    algorithm: Name
    trials: int
    forecasts: list[Forecast]
    lower_bounds: dict[float, float]
    at_budget: AtBudget | None
    all_pairs: AtBudget | None
    interrupted: bool

    def verdict(self, price: float | None = None) -> list[str]:
        """Which way is cheaper, in plain words.

        Args:
          price: of one judgement; adds what each number of judgements costs.

        Returns:
          Sentences: one for every setting, one about asking every pair once, one or two about the budget.

        Example:
          >>> plan = jr.plan(jr.BernoulliArms(means=[0.8, 0.5, 0.2]), (1,), epsilons=(0.2,), trials=2, progress=False)
          >>> plan.verdict()[0][:38]
          'epsilon 0.2, delta 0.1: adaptive takes'
        """
        unit = "duels" if self.duels else "samples"

        def money(samples: float) -> str:
            return "" if price is None else f" ({samples * price:,.2f})"

        lines = []
        for row in self.forecasts:
            if not (math.isfinite(row.samples) and math.isfinite(row.uniform)):
                continue
            ratio = row.uniform / row.samples
            setting = f"epsilon {row.epsilon:g}, delta {row.delta:g}"
            other = f"uniform sampling with the same stopping test about {row.uniform:,.0f}"
            cheaper = f"adaptive is {ratio:.1f}x cheaper" if ratio > 1 else f"uniform is {1 / ratio:.1f}x cheaper"
            lines.append(f"{setting}: adaptive takes {row.samples:,.0f} {unit}, {other}: {cheaper}.")
        whole = self.all_pairs
        if whole is not None:
            first = min(row.samples for row in self.forecasts)
            fewer = "fewer than any guarantee here" if whole.samples < first else "more than the loosest guarantee here"
            lines.append(
                f"Asking every pair once takes {whole.samples:,} duels{money(whole.samples)}, {fewer}; it guarantees "
                f"nothing, and puts {whole.uniform:.0%} of the items in the right cluster."
            )
        stop = self.at_budget
        if stop is not None:
            better = "adaptive" if stop.adaptive > stop.uniform else "uniform"
            lines.append(
                f"With {stop.samples:,} {unit}{money(stop.samples)}: {stop.adaptive:.0%} of the items in the right "
                f"cluster by adaptive sampling, {stop.uniform:.0%} by uniform; {better} sampling does better."
            )
            if self.duels and better == "uniform":
                lines.append(
                    "(A uniform duel counts for both of its items; an adaptive one only for the item asked about.)"
                )
        return lines
