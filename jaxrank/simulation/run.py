"""Turning the crank: one trial in `run`, thousands in `simulate`. The only loops over rounds.

Randomness: trial i of `simulate` uses the key `fold_in(key, i)` and equals `run` with that key. A trial key is split
once, into one key for `init`, one for the questions and one for the answers; round r uses `fold_in(_, r)` of these.
So neither the number of trials nor how they are batched changes a trial.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key

from jaxrank.core import checks
from jaxrank.core.protocol import Algorithm, Environment
from jaxrank.simulation.instances import true_means
from jaxrank.simulation.trial import Run, Trial, advance, begin, finished, result_of


def run(
    key: Key[Array, ""],
    algorithm: Algorithm[Any],
    environment: Environment,
    max_samples: int | Int[Array, ""] | None = None,
) -> Run:
    """One trial until the algorithm is done or `max_samples` are spent; pure, and yours to jit, vmap or scan.

    The last round is cut short rather than overspend the budget.
    """
    key = checked_key(key)
    check_setting(algorithm, environment, max_samples)
    limit = budget(max_samples)
    # Settings that are constants of the compiled program would be folded, with other rounding than the program itself.
    leaves, treedef = jax.tree.flatten((algorithm, environment))
    leaves = jax.lax.optimization_barrier([jnp.asarray(leaf, float) for leaf in leaves])
    algorithm, environment = jax.tree.unflatten(treedef, leaves)

    def going(trial: Trial) -> Bool[Array, ""]:
        return ~finished(trial, algorithm, limit)

    def turn(trial: Trial) -> Trial:
        return advance(trial, algorithm, environment, limit)

    return result_of(jax.lax.while_loop(going, turn, begin(key, algorithm)), algorithm)[1]


def budget(max_samples) -> Int[Array, ""]:
    """The budget as an array of the counts' type; without one, the most that can be counted."""
    return jnp.asarray(_most_samples() if max_samples is None else max_samples, int)


def _most_samples() -> int:
    """Half of what the counts' type holds, so that no sum on the way can overflow."""
    return jnp.iinfo(jnp.result_type(int)).max // 2


def checked_key(key: Any) -> Key[Array, ""]:
    """The key, typed: a raw key, as `jax.random.PRNGKey` makes it, is taken as well."""
    if not isinstance(key, jax.Array | np.ndarray):
        raise ValueError(f"key must be a random key such as jax.random.key(0), got {key!r}")
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        raw = key.dtype == jnp.uint32 and key.ndim == 1
        checks.require(raw, "key", "must be a random key such as jax.random.key(0)", f"an array of {key.dtype}")
        key = jax.random.wrap_key_data(jnp.asarray(key))
    checks.require(key.ndim == 0, "key", "must be a single key", f"keys of shape {key.shape}")
    return jnp.asarray(key)


def check_setting(algorithm, environment, max_samples) -> None:
    """Raise `ValueError` if the two do not fit together or a number is off; traced numbers pass."""
    algorithm.check()
    environment.check()
    if algorithm.num_items != environment.num_items:
        rule = f"must equal the environment's number of items, {environment.num_items}"
        checks.require(False, "num_items", rule, algorithm.num_items)
    if algorithm.asks_pairs and not environment.answers_pairs:
        name = f"{type(algorithm).__name__} asks which of two items is better, which {type(environment).__name__}"
        raise ValueError(f"environment must answer pair queries: {name} cannot answer; use Duels")
    kinds = [getattr(thing, "family", None) for thing in (algorithm, environment)]
    if None not in kinds and type(kinds[0]) is not type(kinds[1]):
        rule = f"must be the family of {type(environment).__name__}, {type(kinds[1]).__name__}"
        checks.require(False, "family", rule, type(kinds[0]).__name__)
    if max_samples is None:
        algorithm.check_stops(true_means(environment))
    elif checks.concrete(max_samples) is not None:
        number, most = checks.whole("max_samples", max_samples, low=1), _most_samples()
        rule = f"must be at most {most}, what {jnp.iinfo(jnp.result_type(int)).bits}-bit counts can hold"
        checks.require(number <= most, "max_samples", rule, number)
