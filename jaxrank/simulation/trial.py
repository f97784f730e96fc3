"""One trial under way, and the one step that all loops share."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from jaxrank.core import prng
from jaxrank.core.protocol import Algorithm

TRIALS_VERSION = 2
"""To be raised with every change of the package by which a trial asks other questions or gets other answers: results
files of the version before are then refused, in place of mixing two kinds of trials."""


class Run(NamedTuple):
    """Result of one trial.

    Attributes:
      samples: answers that were asked for.
      rounds: rounds, as the algorithm counts them.
      done: True if the guarantee was reached, False if the budget ended first.
      order: items, best first, shape (K,).
      pulls: answers about every item, shape (K,).
      means: empirical mean of every item, shape (K,).
      found_boundaries: boundaries that the algorithm found by itself, as ranks after which a cluster ends, shape (C,);
        empty if they were given.

    Example:
      >>> arms = jr.BernoulliArms(means=[0.1, 0.9, 0.5])
      >>> result = jr.run(jax.random.key(0), jr.Uniform(num_items=3), arms, max_samples=300)
      >>> int(result.samples), bool(result.done), result.pulls.tolist()
      (300, False, [100, 100, 100])
    """

    samples: Int[Array, "*T"]
    rounds: Int[Array, "*T"]
    done: Bool[Array, "*T"]
    order: Int[Array, "K *T"]
    pulls: Int[Array, "K *T"]
    means: Float[Array, "K *T"]
    found_boundaries: Int[Array, "C *T"]


class Trial(NamedTuple):
    """One trial under way."""

    state: Any
    ask_key: Key[Array, ""]
    answer_key: Key[Array, ""]
    turn: Int[Array, ""]
    samples: Int[Array, ""]


def begin(key: Key[Array, ""], algorithm: Algorithm[Any]) -> Trial:
    """A trial before its first question."""
    init_key, ask_key, answer_key = prng.split(key, 3)
    zero = jnp.zeros(key.shape, int)
    return Trial(state=algorithm.init(init_key), ask_key=ask_key, answer_key=answer_key, turn=zero, samples=zero)


def advance(
    trial: Trial, algorithm, environment, limit, pause: Bool[Array, ""] | bool = False, tell: Any = None
) -> Trial:
    """One round: ask, let the environment answer, tell. A paused trial asks nothing."""
    query = algorithm.ask(prng.fold_in(trial.ask_key, trial.turn), trial.state)
    awake = ~jnp.broadcast_to(jnp.asarray(pause), trial.turn.shape)
    mask = query.mask & awake[None]
    mask &= jnp.cumsum(mask, axis=0, dtype=trial.samples.dtype) <= (limit - trial.samples)[None]
    query = query._replace(mask=mask)
    reward = environment.draw(prng.fold_in(trial.answer_key, trial.turn), query)
    return trial._replace(
        state=(tell or algorithm.tell)(trial.state, query, reward),
        turn=trial.turn + awake.astype(trial.turn.dtype),
        samples=trial.samples + jnp.sum(mask, axis=0, dtype=trial.samples.dtype),
    )


def finished(trial: Trial, algorithm, limit) -> Bool[Array, ""]:
    """Done, or out of budget."""
    return algorithm.done(trial.state) | (trial.samples >= limit)


def result_of(trial: Trial, algorithm) -> tuple[Trial, Run]:
    """The result as it stands now, and the trial with what makes the next one cheaper."""
    trial = trial._replace(state=algorithm.prepare_order(trial.state))
    return trial, Run(
        samples=trial.samples,
        rounds=trial.state.rounds,
        done=algorithm.done(trial.state),
        order=algorithm.order(trial.state),
        pulls=trial.state.tally.pulls,
        means=trial.state.tally.means,
        found_boundaries=algorithm.found_boundaries(trial.state),
    )
