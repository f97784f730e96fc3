"""Turning the crank: one trial in `run`, thousands in `simulate`. The only loops over rounds.

Randomness: trial i of `simulate` uses the key `fold_in(key, i)` and equals `run` with that key. A trial key is split
once, into one key for `init`, one for the questions and one for the answers; round r uses `fold_in(_, r)` of these.
So neither the number of trials nor how they are batched changes a trial.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from jaxrank import _checks, trials
from jaxrank.types import Algorithm, Environment, leaf_ranks


class Run(NamedTuple):
    """What came of one trial."""

    samples: Int[Array, ""]
    rounds: Int[Array, ""]
    done: Bool[Array, ""]
    """True if the guarantee was reached, False if the budget ended first."""
    order: Int[Array, "K"]
    """Items, best first."""
    pulls: Int[Array, "K"]
    means: Float[Array, "K"]
    found: Int[Array, "C"]
    """Boundaries that the algorithm found by itself, as ranks after which a cluster ends; empty if they were given."""


class Trial(NamedTuple):
    """One trial under way."""

    state: Any
    ask_key: Key[Array, ""]
    answer_key: Key[Array, ""]
    turn: Int[Array, ""]
    samples: Int[Array, ""]


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

    return read(jax.lax.while_loop(going, turn, begin(key, algorithm)), algorithm)[1]


def begin(key: Key[Array, ""], algorithm: Algorithm[Any]) -> Trial:
    """A trial before its first question."""
    init_key, ask_key, answer_key = trials.split(key, 3)
    zero = jnp.zeros(key.shape, int)
    return Trial(state=algorithm.init(init_key), ask_key=ask_key, answer_key=answer_key, turn=zero, samples=zero)


def advance(trial: Trial, algorithm, environment, limit, pause: Bool[Array, ""] | bool = False) -> Trial:
    """One round: ask, let the world answer, tell. A trial on pause asks nothing."""
    query = algorithm.ask(trials.fold_in(trial.ask_key, trial.turn), trial.state)
    awake = ~jnp.broadcast_to(jnp.asarray(pause), trial.turn.shape)
    mask = query.mask & awake[None]
    mask &= jnp.cumsum(mask, axis=0, dtype=trial.samples.dtype) <= (limit - trial.samples)[None]
    query = query._replace(mask=mask)
    reward = environment.draw(trials.fold_in(trial.answer_key, trial.turn), query)
    return trial._replace(
        state=algorithm.tell(trial.state, query, reward),
        turn=trial.turn + awake.astype(trial.turn.dtype),
        samples=trial.samples + jnp.sum(mask, axis=0, dtype=trial.samples.dtype),
    )


def finished(trial: Trial, algorithm, limit) -> Bool[Array, ""]:
    """Done, or out of budget."""
    return algorithm.done(trial.state) | (trial.samples >= limit)


def read(trial: Trial, algorithm) -> tuple[Trial, Run]:
    """The result as it stands now, and the trial with what the algorithm remembers of working it out."""
    if hasattr(algorithm, "remember"):
        trial = trial._replace(state=algorithm.remember(trial.state))
    return trial, Run(
        samples=trial.samples,
        rounds=trial.state.rounds,
        done=algorithm.done(trial.state),
        order=algorithm.order(trial.state),
        pulls=trial.state.tally.pulls,
        means=trial.state.tally.means,
        found=algorithm.found(trial.state) if hasattr(algorithm, "found") else jnp.zeros((0, *trial.turn.shape), int),
    )


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
        _checks.require(raw, "key", "must be a random key such as jax.random.key(0)", f"an array of {key.dtype}")
        key = jax.random.wrap_key_data(jnp.asarray(key))
    _checks.require(key.ndim == 0, "key", "must be a single key", f"keys of shape {key.shape}")
    return jnp.asarray(key)


def check_setting(algorithm, environment, max_samples) -> None:
    """Raise `ValueError` if the two do not fit together or a number is off; traced numbers pass."""
    algorithm.check()
    environment.check()
    if algorithm.num_items != environment.num_items:
        rule = f"must equal the environment's number of items, {environment.num_items}"
        _checks.require(False, "num_items", rule, algorithm.num_items)
    if algorithm.asks_pairs and not environment.answers_pairs:
        name = f"{type(algorithm).__name__} asks which of two items is better, which {type(environment).__name__}"
        raise ValueError(f"environment must answer pair queries: {name} cannot answer; use Duels")
    kinds = [getattr(thing, "family", None) for thing in (algorithm, environment)]
    if None not in kinds and type(kinds[0]) is not type(kinds[1]):
        rule = f"must be the family of {type(environment).__name__}, {type(kinds[1]).__name__}"
        _checks.require(False, "family", rule, type(kinds[0]).__name__)
    if max_samples is None:
        algorithm.check_stops(true_means(environment))
    elif _checks.concrete(max_samples) is not None:
        number, most = _checks.whole("max_samples", max_samples, low=1), _most_samples()
        rule = f"must be at most {most}, what {jnp.iinfo(jnp.result_type(int)).bits}-bit counts can hold"
        _checks.require(number <= most, "max_samples", rule, number)


def true_means(environment: Environment) -> Float[Array, "*I K"]:
    """The environment's means; one row per instance if it is a stack."""
    leaves, treedef = jax.tree.flatten(environment)
    stacked = is_stacked(environment)
    if not any(stacked):
        return jnp.asarray(environment.means)
    axes = [0 if flag else None for flag in stacked]
    return jax.vmap(lambda *values: jax.tree.unflatten(treedef, values).means, in_axes=axes)(*leaves)


def is_stacked(tree: Any) -> list[bool]:
    """For every leaf, whether it carries an instance axis in front of its declared dimensions."""
    flags = []
    for value, ndim in zip(jax.tree.leaves(tree), leaf_ranks(tree), strict=True):
        extra = 0 if ndim is None else jnp.ndim(value) - ndim
        if extra not in (0, 1):
            _checks.require(
                False, "a setting", f"must have {ndim} dimensions, or one more for instances", jnp.ndim(value)
            )
        flags.append(extra == 1)
    return flags
