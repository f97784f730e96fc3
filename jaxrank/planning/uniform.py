"""What uniform sampling needs and achieves: the baseline of a plan."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxrank import metrics
from jaxrank.algorithms import EvidenceRank, LUCBRank
from jaxrank.core.precision import enable_x64
from jaxrank.environments import BernoulliArms, Duels, ScoredDuels
from jaxrank.stats.evidence import log_evidence
from jaxrank.stats.kl_bounds import kl_lower, kl_upper

TRIALS = 400
"""Trials of uniform sampling, at most."""


def uniform_samples(means: Float[np.ndarray, "K"], algorithm: EvidenceRank | LUCBRank) -> float:
    """Samples that uniform sampling takes until the algorithm's stopping test holds, if every empirical mean is exact.

    The items next to a boundary are settled last: evidence for a pair rises with the one mean and falls with the other.

    Args:
      means: true mean of every item, in any order.
      algorithm: whose proofs are asked for.

    Returns:
      An estimate; infinite where it would never stop.
    """
    ranked = -np.sort(-means)

    def settled(rounds: int) -> bool:
        if isinstance(algorithm, EvidenceRank):
            above, below, level = np.asarray(algorithm.last_pairs()).T
            needed = np.asarray(algorithm.thresholds(), float)[level]
            return bool(_proven(rounds, ranked[above], ranked[below], algorithm.epsilon, 1 + level, needed))
        points = np.asarray(algorithm.boundaries)
        return bool(_settled(rounds, ranked[points], ranked[points - 1], algorithm))

    with enable_x64(True):
        low, high = 0, 1
        while not settled(high):
            low, high = high, 2 * high
            if high > 2**52:
                return float("inf")
        while high - low > 1 + low // 1_000:
            middle = (low + high) // 2
            low, high = (low, middle) if settled(middle) else (middle, high)
    return float(len(ranked) * high)


@jax.jit
def _proven(
    rounds: Int[Array, ""],
    above: Float[Array, "n"],
    below: Float[Array, "n"],
    epsilon: Float[Array, ""],
    mixture: Int[Array, "n"],
    needed: Float[Array, "n"],
) -> Bool[Array, ""]:
    pulls = jnp.full(above.shape, rounds)
    return jnp.all(log_evidence(above, pulls, below, pulls, epsilon, mixture) >= needed)


@jax.jit
def _settled(
    rounds: Int[Array, ""], first: Float[Array, "C"], last: Float[Array, "C"], algorithm: LUCBRank
) -> Bool[Array, ""]:
    pulls = jnp.full(first.shape, rounds)
    threshold = algorithm.confidence.threshold(
        means=last, pulls=pulls, rounds=rounds, delta=jnp.asarray(algorithm.delta), design=algorithm.design
    )
    return jnp.all(kl_upper(first, pulls, threshold) - kl_lower(last, pulls, threshold) < algorithm.epsilon)


def uniform_share(
    rng: np.random.Generator,
    environment: BernoulliArms | Duels | ScoredDuels,
    means: Float[np.ndarray, "K"],
    points: tuple[int, ...],
    samples: int | None,
) -> float:
    """Expected share of items in the right cluster after uniform sampling, by simulation.

    Args:
      rng: random numbers.
      environment: what answers.
      means: its true means.
      points: where clusters end.
      samples: so many samples in all; None asks every pair once.

    Returns:
      A number between 0 and 1.
    """
    count = len(means)
    if isinstance(environment, BernoulliArms):
        pulls = np.full(count, (samples or 0) // count) + (np.arange(count) < (samples or 0) % count)
        scores = rng.binomial(pulls, means, (TRIALS, count)) / np.maximum(pulls, 1)
    else:
        everyone = jnp.arange(count)
        left, right = np.triu_indices(count, 1)
        chance = np.asarray(jax.vmap(lambda i: environment.win_probability(jnp.full(count, i), everyone))(everyone))
        trials = max(20, min(TRIALS, 20_000_000 // len(left)))
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
