"""What `run` and `simulate` check before they begin, and which numbers have an instance axis."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from jaxrank.core import checks
from jaxrank.core.protocol import Algorithm, Environment
from jaxrank.core.pytrees import leaf_ranks


def prepare(
    key: Any, algorithm: Algorithm[Any], environment: Environment, max_samples: int | Int[Array, ""] | None
) -> tuple[Key[Array, ""], Int[Array, ""]]:
    """The key, typed, and the budget, as an array of the counts' type.

    Raise `ValueError` if algorithm and environment do not fit together or a number is off; traced numbers pass.
    """
    key = _checked_key(key)
    # Half of what the counts' type holds, so that no sum on the way can overflow.
    most_samples = jnp.iinfo(jnp.result_type(int)).max // 2
    _check_setting(algorithm, environment, max_samples, most_samples)
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


def _check_setting(algorithm: Algorithm[Any], environment: Environment, max_samples: Any, most: int) -> None:
    algorithm.check()
    environment.check()
    if algorithm.num_items != environment.num_items:
        rule = f"must equal the environment's number of items, {environment.num_items}"
        checks.fail("num_items", rule, algorithm.num_items)
    if algorithm.asks_pairs and not environment.answers_pairs:
        name = f"{type(algorithm).__name__} asks which of two items is better, which {type(environment).__name__}"
        raise ValueError(f"environment must answer pair queries: {name} cannot answer; use Duels")
    kinds = [getattr(thing, "family", None) for thing in (algorithm, environment)]
    if None not in kinds and type(kinds[0]) is not type(kinds[1]):
        rule = f"must be the family of {type(environment).__name__}, {type(kinds[1]).__name__}"
        checks.fail("family", rule, type(kinds[0]).__name__)
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
