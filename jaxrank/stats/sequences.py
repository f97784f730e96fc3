"""Confidence sequences: thresholds that make confidence bounds time-uniform (anytime-valid)."""

from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num

from jaxrank.core import checks
from jaxrank.core.batch_axis import expand_items
from jaxrank.core.protocol import Number
from jaxrank.core.pytrees import leaf, pytree_dataclass
from jaxrank.stats.families import Bernoulli, Family
from jaxrank.stats.numerics import log, log1p, log_inverse, product, scaled_excess

ALPHA = 1.1
"""Exponent of the paper's exploration rate, where none is given."""


class Design(NamedTuple):
    """What a confidence sequence may need to know of the sampling rule; all static.

    Attributes:
      num_items: K.
      num_boundaries: c - 1.
      pulls_per_round: most pulls of one item in a round.
      single_pulls: whether a critical item is pulled once per boundary and round, as in the paper's Theorem 1.

    Example:
      >>> jr.LUCBRank(num_items=15, boundaries=(3, 12), delta=0.1).design
      Design(num_items=15, num_boundaries=2, pulls_per_round=2, single_pulls=True)
    """

    num_items: int
    num_boundaries: int
    pulls_per_round: int = 1
    single_pulls: bool = True


@runtime_checkable
class ConfidenceSequence(Protocol):
    """A threshold such that, with probability 1 - delta, all bounds of all items hold in all rounds.

    `LUCBRank(confidence=...)` and `GapRank(confidence=...)` take any object with these methods; make it with
    `pytree_dataclass` so that its numbers are pytree leaves.

    Attributes:
      any_sampling_rule: whether the bounds hold however the questions were chosen, and not only in the rounds of
        the algorithm itself.

    Example:
      >>> sequence = jr.Mixture()
      >>> sequence.any_sampling_rule, jr.ExplorationRate().any_sampling_rule
      (True, False)
    """

    @property
    def any_sampling_rule(self) -> bool:
        """See the class."""
        ...

    def threshold(
        self,
        *,
        means: Float[Array, "K *T"],
        pulls: Int[Array, "K *T"],
        rounds: Int[Array, "*T"],
        delta: Float[Array, "*#T"],
        design: Design,
    ) -> Float[Array, "#K *T"]:
        """The threshold beta, one for all items or one each."""
        ...

    def check(self, design: Design, family: Family) -> None:
        """Raise `ValueError` on a setting without a guarantee; traced values are not looked at."""
        ...


@pytree_dataclass
class ExplorationRate:
    r"""The paper's rate: $\beta(t, \delta) = \log(k_1 K t^\alpha/\delta) + \log\log(k_1 K t^\alpha/\delta)$.

    Args:
      alpha: exponent, above 1.
      k1: factor; None takes the smallest one that Theorem 1 allows.

    Example:
      >>> rate = jr.ExplorationRate(alpha=1.5)
      >>> algorithm = jr.LUCBRank(num_items=3, boundaries=(1,), delta=0.1, confidence=rate)
      >>> float(algorithm.confidence.alpha)
      1.5
    """

    alpha: Number = leaf(0, default=ALPHA)
    k1: Number | None = leaf(0, default=None)

    any_sampling_rule = False

    def threshold(
        self,
        *,
        means: Float[Array, "K *T"],
        pulls: Int[Array, "K *T"],
        rounds: Int[Array, "*T"],
        delta: Float[Array, "*#T"],
        design: Design,
    ) -> Float[Array, "#K *T"]:
        """beta(t, delta) of the round t, the same for all items."""
        del pulls
        dtype = means.dtype
        alpha = jnp.asarray(self.alpha, dtype)
        k1 = smallest_k1(alpha, design) if self.k1 is None else jnp.asarray(self.k1, dtype)
        t = jnp.maximum(rounds, 1).astype(dtype)
        log_term = log(k1) + log(jnp.asarray(design.num_items, dtype)) + alpha * log(t)
        # At least 1, so that its own logarithm is not negative; without a guarantee, infinite.
        log_term = jnp.maximum(log_term + log_inverse(jnp.asarray(delta, dtype)), 1)
        threshold = log_term + log(jnp.minimum(log_term, jnp.finfo(dtype).max))
        return jnp.where((alpha > 1) & (k1 > 0), threshold, jnp.inf)[None]

    def check(self, design: Design, family: Family) -> None:
        """Alpha > 1 and k1 as large as Theorem 1 demands."""
        del family
        checks.inside("alpha", self.alpha, 1, float("inf"), "()")
        if self.k1 is None:
            return
        k1, alpha = checks.numbers("k1", self.k1), checks.concrete(self.alpha)
        if k1 is None or alpha is None:
            return
        smallest = checks.concrete(smallest_k1(jnp.asarray(alpha, float), design))
        if smallest is not None and not (k1 >= smallest * (1 - 1e-6)).all():
            rule = f"must be at least {float(smallest.max()):.6g} for the guarantee of Theorem 1 at this alpha"
            checks.fail("k1", rule, k1)


@pytree_dataclass
class Mixture:
    r"""Thresholds from one mixture martingale per item (Krichevsky and Trofimov's), for rewards in [0, 1].

    For each item, the likelihood of its answers mixed over all means with Beta(1/2, 1/2) weights, over the likelihood
    at the true mean, is a nonnegative supermartingale under any sampling rule. By Ville's inequality it stays below
    K / delta at all times with probability 1 - delta / K, so both bounds hold with

        beta = log(K / delta) + log(largest likelihood / mixed likelihood).

    There is no t, no alpha and no k1, and nothing changes for batches or for items sampled twice in a round.

    Example:
      >>> algorithm = jr.LUCBRank(num_items=3, boundaries=(1,), delta=0.1, confidence=jr.Mixture())
      >>> jr.run(jax.random.key(0), algorithm, jr.BernoulliArms(means=[0.1, 0.9, 0.2])).order[0].item()
      1
    """

    any_sampling_rule = True

    def threshold(
        self,
        *,
        means: Float[Array, "K *T"],
        pulls: Int[Array, "K *T"],
        rounds: Int[Array, "*T"],
        delta: Float[Array, "*#T"],
        design: Design,
    ) -> Float[Array, "#K *T"]:
        """Beta of every item, from its own answers alone."""
        del rounds
        alone = float(np.log(design.num_items)) + log_inverse(jnp.asarray(delta, means.dtype))
        return expand_items(alone) + mixture_regret(means, pulls)

    def check(self, design: Design, family: Family) -> None:
        """The mixture is one of Bernoulli likelihoods."""
        del design
        rule = "must be Bernoulli (any rewards in [0, 1]) for mixture confidence bounds"
        checks.require(isinstance(family, Bernoulli), "family", rule, type(family).__name__)


def mixture_regret(mean: Float[Array, "..."], pulls: Num[Array, "..."]) -> Float[Array, "..."]:
    r"""$\log \max_p p^S (1-p)^{N-S} - \log \int p^S (1-p)^{N-S} \mathrm{d}p / (\pi \sqrt{p(1-p)})$, with S = N mean.

    Both logarithms are of the order of N and their difference of the order of log N. With Stirling's formula for the
    gamma functions of the integral, the large terms cancel analytically and only small ones are computed.
    """
    count = jnp.asarray(pulls).astype(mean.dtype)
    wins, losses = product(count, mean), product(count, 1 - mean)
    # count log(1 + 1 / count) - wins log(1 + 1 / 2 wins) - losses log(1 + 1 / 2 losses), without cancellation.
    halves = scaled_excess(wins, jnp.full_like(wins, 0.5)) + scaled_excess(losses, jnp.full_like(losses, 0.5))
    rounding = halves - scaled_excess(count, jnp.ones_like(count))
    remainders = _stirling(count + 1) - _stirling(wins + 0.5) - _stirling(losses + 0.5)
    return rounding + log1p(count) / 2 + float(np.log(np.pi / 2) / 2) + remainders


_STIELTJES = (1 / 12, 1 / 30, 53 / 210, 195 / 371, 22999 / 22737, 29944523 / 19733142, 109535241009 / 48264275462)


def _stirling(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """log gamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2) for x >= 1/2: Stieltjes' continued fraction at x + 2."""
    terms, far = (3 if x.dtype.itemsize == 4 else 7), x + 2
    depth = far
    for term in _STIELTJES[terms - 1 : 0 : -1]:
        depth = far + term / depth
    steps = sum((x + k + 0.5) * log1p(1 / (x + k)) - 1 for k in range(2))
    return _STIELTJES[0] / depth + steps


def smallest_k1(alpha: Float[Array, "..."], design: Design) -> Float[Array, "..."]:
    r"""The smallest k1 for which Theorem 1's guarantee holds.

    One pull per critical item: $((c-1)/2)^\alpha + 2e/(\alpha-1) + 4e/(\alpha-1)^2$, as the main text has it (the
    appendix has 1 for the first term; the two agree at c = 3). Several pulls: an item may have up to $Bt$ pulls in
    round t, B per round, and the union bound then asks for $2e(-2\zeta'(\alpha) + (1 + 2\log B)\zeta(\alpha))$.
    """
    boundaries = design.num_boundaries
    k1 = (boundaries / 2) ** alpha + 2 * jnp.e / (alpha - 1) + 4 * jnp.e / (alpha - 1) ** 2
    if design.single_pulls:
        return k1
    zeta, slope = jax.jvp(_zeta, (alpha,), (jnp.ones_like(alpha),))
    batched = 2 * jnp.e * (-2 * slope + (1 + 2 * jnp.log(jnp.asarray(design.pulls_per_round, zeta.dtype))) * zeta)
    return jnp.maximum(k1, batched)


def _zeta(s: Float[Array, "..."]) -> Float[Array, "..."]:
    """Riemann's zeta for s > 1 by Euler-Maclaurin summation from 12 on; off by less than 1e-10 relative."""
    n = 12.0
    head = sum((k**-s for k in range(2, int(n))), start=jnp.ones_like(s))
    correction = 1 / (s - 1) + 1 / (2 * n) + s / (12 * n**2) - s * (s + 1) * (s + 2) / (720 * n**4)
    return head + n ** (1 - s) * correction
