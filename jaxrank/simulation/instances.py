"""Stacks of instances: which numbers of an algorithm or environment have an instance axis."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxrank.core import checks
from jaxrank.core.protocol import Environment
from jaxrank.core.pytrees import leaf_ranks


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
            checks.require(
                False, "a setting", f"must have {ndim} dimensions, or one more for instances", jnp.ndim(value)
            )
        flags.append(extra == 1)
    return flags
