"""What `run` and `simulate` check before they begin, and which numbers have an instance axis."""

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Int, Key

from jaxrank.core import checks
from jaxrank.core.protocol import ANYONE, Algorithm, Environment, Query, require_pytree
from jaxrank.core.pytrees import leaf_ranks


def prepare(
    key: Any, algorithm: Algorithm[Any], environment: Environment, max_samples: int | Int[Array, ""] | None
) -> tuple[Key[Array, ""], Int[Array, ""]]:
    """The key, typed, and the budget, as an array of the counts' type.

    Raise `ValueError` if algorithm and environment do not fit together or a number is off; traced numbers pass.
    """
    key = _checked_key(key)
    _require_protocol("algorithm", algorithm, Algorithm)
    _require_protocol("environment", environment, Environment)
    # Half of what the counts' type holds, so that no sum on the way can overflow.
    most_samples = jnp.iinfo(jnp.result_type(int)).max // 2
    _check_setting(algorithm, environment, max_samples, most_samples)
    _probe(key, algorithm, environment)
    return key, jnp.asarray(most_samples if max_samples is None else max_samples, int)


def _checked_key(key: Any) -> Key[Array, ""]:
    """The key, typed: a raw key, as `jax.random.PRNGKey` makes it, is taken as well."""
    if not isinstance(key, jax.Array | np.ndarray):
        raise ValueError(f"key must be a random key such as jax.random.key(0), got {key!r}")
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        raw = key.dtype == jnp.uint32 and key.ndim == 1
        checks.require(raw, "key", "must be a random key such as jax.random.key(0)", f"an array of {key.dtype}")
        key = jax.random.wrap_key_data(jnp.asarray(key))
    checks.require(key.ndim == 0, "key", "must be a single key", f"keys of shape {key.shape}")
    return jnp.asarray(key)


def _require_protocol(name: str, thing: Any, protocol: Any) -> None:
    """Refuse what lacks a method or an attribute of the protocol, by name, and what is no pytree."""
    needed = [part for part in (*vars(protocol), *protocol.__annotations__) if not part.startswith("_")]
    if protocol is Environment:
        needed += ["num_items", "means"]
    missing = [part for part in dict.fromkeys(needed) if inspect.getattr_static(thing, part, None) is None]
    if isinstance(thing, type) or missing:
        rule = f"must be an object of a subclass of jaxrank.{protocol.__name__}"
        if isinstance(thing, type):
            checks.fail(name, rule, f"the class {thing.__name__} itself")
        checks.fail(name, f"{rule} that defines {', '.join(missing)}", type(thing).__name__)
    require_pytree(thing)


def _probe(key: Key[Array, ""], algorithm: Algorithm[Any], environment: Environment) -> None:
    """One answer about every item from an environment of the user's own: the algorithm must be able to take it."""
    leaves, treedef = jax.tree.flatten(environment)
    is_ours = type(environment).draw.__module__.startswith("jaxrank.")
    if is_ours or any(checks.concrete(leaf) is None for leaf in leaves):
        return
    with jax.ensure_compile_time_eval():
        first = [leaf[0] if flag else leaf for leaf, flag in zip(leaves, is_stacked(environment), strict=True)]
        item = jnp.arange(algorithm.num_items)
        opponent = (item + 1) % algorithm.num_items if algorithm.asks_pairs else jnp.full_like(item, ANYONE)
        query = Query(item=item, opponent=opponent, mask=jnp.ones(item.shape, bool))
        key = jax.random.key(0) if isinstance(key, Tracer) else key
        reward = np.asarray(_draw(jax.tree.unflatten(treedef, first), key, query))
    name = f"the reward of {type(environment).__name__}"
    checks.require(
        reward.shape == item.shape, name, f"must be one number per question, shape {item.shape}", reward.shape
    )
    checks.inside(name, reward, *algorithm.reward_range)


@jax.jit
def _draw(environment: Environment, key: Key[Array, ""], query: Query) -> Float[Array, "B"]:
    return environment.draw(key, query)


def _check_setting(algorithm: Algorithm[Any], environment: Environment, max_samples: Any, most: int) -> None:
    algorithm.check()
    environment.check()
    if algorithm.num_items != environment.num_items:
        rule = f"must equal the environment's number of items, {environment.num_items}"
        checks.fail("num_items", rule, algorithm.num_items)
    if algorithm.asks_pairs and not environment.answers_pairs:
        name = f"{type(algorithm).__name__} asks which of two items is better, which {type(environment).__name__}"
        raise ValueError(f"environment must answer pair queries: {name} cannot answer; use Duels")
    assumed, true = (getattr(thing, "family", None) for thing in (algorithm, environment))
    if assumed is not None and true is not None:
        name = type(environment).__name__
        if type(assumed) is not type(true):
            checks.fail("family", f"must be the family of {name}, {type(true).__name__}", type(assumed).__name__)
        checks.require(assumed.covers(true), "family", f"must assume at least the noise of {name}, {true}", assumed)
    if max_samples is None:
        algorithm.check_stops(true_means(environment))
    elif checks.concrete(max_samples) is not None:
        number = checks.whole("max_samples", max_samples, low=1)
        rule = f"must be at most {most}, what {jnp.iinfo(jnp.result_type(int)).bits}-bit counts can hold"
        checks.require(number <= most, "max_samples", rule, number)


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
            checks.fail("a setting", f"must have {ndim} dimensions, or one more for instances", jnp.ndim(value))
        flags.append(extra == 1)
    return flags
