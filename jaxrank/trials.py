"""The trial axis. Items come first, trials last, and the same code serves one trial or many.

Every array of a single trial has the shapes its annotation names, such as "K". A batch of trials adds one trailing
axis: (K, T), scalars (T,), keys (T,). Trials on the minor axis are what a CPU's vector units and a GPU's threads
want: a batched loop over (K, T) runs several times faster than the same loop under `vmap`, which puts trials first.
Code keeps to this by reducing over axis 0 and lifting per-trial scalars with `[None]`.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, Shaped, UInt


def places(shape: tuple[int, ...], dtype) -> Int[Array, "K *T"]:
    """The index along the first axis, at every entry."""
    return jax.lax.broadcasted_iota(dtype, shape, 0)


def pick(table: Shaped[Array, "..."], *index: Int[Array, "B *T"]) -> Shaped[Array, "B *T"]:
    """table[index], where the table is either shared by all trials or has a trailing trial axis of its own."""
    if table.ndim > len(index):
        index = (*index, jax.lax.broadcasted_iota(index[0].dtype, index[0].shape, index[0].ndim - 1))
    return table[index]


def lift(number: Shaped[Array, "*T"]) -> Shaped[Array, "..."]:
    """One number per trial, made to face arrays with a leading axis; a number shared by all trials stays as it is."""
    return number if number.ndim == 0 else number[None]


def fold_in(key: Key[Array, "*T"], number: Int[Array, "*T"]) -> Key[Array, "*T"]:
    """`jax.random.fold_in` for every trial."""
    return jax.random.fold_in(key, number) if key.ndim == 0 else jax.vmap(jax.random.fold_in)(key, number)


def split(key: Key[Array, "*T"], count: int) -> Key[Array, "n *T"]:
    """`jax.random.split` for every trial."""
    return each_key(lambda one: jax.random.split(one, count), key)


def uniform(key: Key[Array, "*T"], count: int) -> Float[Array, "n *T"]:
    """Numbers in [0, 1)."""
    return each_key(lambda one: jax.random.uniform(one, (count,)), key)


def bits(key: Key[Array, "*T"], count: int) -> UInt[Array, "n *T"]:
    """Random 32-bit words."""
    return each_key(lambda one: jax.random.bits(one, (count,), jnp.uint32), key)


def each_key(draw, key: Key[Array, "*T"], *arguments: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
    """`draw(key, *arguments)` of one trial, done for every trial."""
    return draw(key, *arguments) if key.ndim == 0 else jax.vmap(draw, in_axes=-1, out_axes=-1)(key, *arguments)
