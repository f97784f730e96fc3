"""`run`: one trial as a pure function, a loop over rounds.

Randomness: trial i of `simulate` uses the key `fold_in(key, i)` and equals `run` with that key. A trial key is split
once, into one key for `init`, one for the questions and one for the answers; round r uses `fold_in(_, r)` of these.
So neither the number of trials nor how they are batched changes a trial.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from jaxrank.core.compiled import compiled
from jaxrank.core.protocol import Algorithm, Environment
from jaxrank.simulation.setting import prepare
from jaxrank.simulation.trial import Run, Trial, advance, begin, finished, result_of


def run(
    key: Key[Array, ""],
    algorithm: Algorithm[Any],
    environment: Environment,
    max_samples: int | Int[Array, ""] | None = None,
) -> Run:
    """One trial until the algorithm is done or the budget is spent; a pure function, to jit, vmap or scan.

    Args:
      key: such as `jax.random.key(0)`; the same key gives the same trial.
      algorithm: asks the questions.
      environment: answers them.
      max_samples: budget; the last round is cut short rather than overspend it. None goes on until the algorithm is
        done, and is refused where it never would be.

    Returns:
      What came of the trial.

    Example:
      >>> algorithm = jr.EvidenceRank(num_items=3, boundaries=(1,), delta=0.1)
      >>> arms = jr.BernoulliArms(means=[0.1, 0.9, 0.2])
      >>> result = jax.jit(jr.run)(jax.random.key(0), algorithm, arms)
      >>> bool(result.done), int(result.order[0])
      (True, 1)
    """
    key, limit = prepare(key, algorithm, environment, max_samples)
    return _run(key, algorithm, environment, limit)


@compiled
def _run(key: Key[Array, ""], algorithm: Algorithm[Any], environment: Environment, limit: Int[Array, ""]) -> Run:
    # Settings that are known at compile time would be constant-folded, which rounds differently from the program.
    leaves, treedef = jax.tree.flatten((algorithm, environment))
    leaves = jax.lax.optimization_barrier([jnp.asarray(leaf, float) for leaf in leaves])
    algorithm, environment = jax.tree.unflatten(treedef, leaves)

    def going(trial: Trial) -> Bool[Array, ""]:
        return ~finished(trial, algorithm, limit)

    def turn(trial: Trial) -> Trial:
        return advance(trial, algorithm, environment, limit)

    return result_of(jax.lax.while_loop(going, turn, begin(key, algorithm)), algorithm)[1]
