"""Random numbers for one trial or many: trials on the last axis, each with a key of its own."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Integer, Key, Shaped, UInt

from jaxrank.core.batch_axis import row_indices


def fold_in(key: Key[Array, "*T"], number: Integer[Array, "*T"]) -> Key[Array, "*T"]:
    """`jax.random.fold_in` for every trial."""
    if not _is_threefry(key):
        return each_key(jax.random.fold_in, key, number)
    number = number.astype(jnp.uint32)
    data = jax.random.key_data(key)
    words = _threefry(data[..., 0], data[..., 1], jnp.zeros_like(number), number)
    return jax.random.wrap_key_data(jnp.stack(words, axis=-1), impl="threefry2x32")


def split(key: Key[Array, "*T"], count: int) -> Key[Array, "n *T"]:
    """`jax.random.split` for every trial."""
    if not _is_threefry(key):
        return each_key(lambda one: jax.random.split(one, count), key)
    counter = row_indices((count, *key.shape), jnp.uint32)
    return fold_in(jnp.broadcast_to(key[None], counter.shape), counter)


def uniform(key: Key[Array, "*T"], count: int) -> Float[Array, "n *T"]:
    """Numbers in [0, 1), of 24 random bits in 32-bit floats and of 32 in 64-bit ones."""
    word, kind = bits(key, count), jnp.result_type(float)
    if jnp.finfo(kind).bits == 32:
        return (word >> 8).astype(kind) * 2.0**-24
    return word.astype(kind) * 2.0**-32


def bits(key: Key[Array, "*T"], count: int) -> UInt[Array, "n *T"]:
    """Random 32-bit words.

    JAX's default generator hashes a counter into two words; `jax.random.bits` uses one of them for each word it
    returns, this function both, at half the cost. Other generators go through `jax.random.bits`.
    """
    if not _is_threefry(key):
        return each_key(lambda one: jax.random.bits(one, (count,), jnp.uint32), key)
    data = jax.random.key_data(key)
    counter = row_indices(((count + 1) // 2, *key.shape), jnp.uint32)
    first, second = (jnp.broadcast_to(data[..., word][None], counter.shape) for word in (0, 1))
    return jnp.concatenate(_threefry(first, second, counter, jnp.zeros_like(counter)))[:count]


def permutation(key: Key[Array, "*T"], count: int) -> Int[Array, "n *T"]:
    """A random order of 0, 1, ..., count - 1, by sorting random words."""
    return jnp.argsort(bits(key, count), axis=0).astype(jnp.result_type(int))


def other_item(item: Int[Array, "B *T"], word: UInt[Array, "B *T"], num_items: int) -> Int[Array, "B *T"]:
    """A random item other than the one given, from a random word, whose remainder is uniform up to K / 2^32."""
    place = (word % jnp.uint32(num_items - 1)).astype(item.dtype)
    return jnp.where(place < item, place, place + 1)


def _is_threefry(key) -> bool:
    return str(jax.random.key_impl(key)) == "threefry2x32"


def _threefry(first, second, left, right):
    """Threefry-2x32 with 20 rounds (Salmon et al. 2011), the hash of JAX's default generator.

    On a CPU JAX compiles the hash as a loop that copies its state in every iteration; unrolled, it is one fused kernel,
    which makes inner loops faster. The tests compare it with JAX's own, bit for bit.
    """
    keys = (first, second, first ^ second ^ jnp.uint32(0x1BD11BDA))
    left, right = left + keys[0], right + keys[1]
    for group in range(5):
        for distance in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            left = left + right
            right = ((right << distance) | (right >> (32 - distance))) ^ left
        left = left + keys[(group + 1) % 3]
        right = right + keys[(group + 2) % 3] + jnp.uint32(group + 1)
    return left, right


def each_key(draw, key: Key[Array, "*T"], *arguments: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
    """`draw(key, *arguments)` of one trial, done for every trial.

    Under `vmap` the other generators of JAX draw one stream for the whole batch, so they go trial by trial.
    """
    if key.ndim == 0:
        return draw(key, *arguments)
    if _is_threefry(key):
        return jax.vmap(draw, in_axes=-1, out_axes=-1)(key, *arguments)
    first = [jnp.moveaxis(argument, -1, 0) for argument in (key, *arguments)]
    return jnp.moveaxis(jax.lax.map(lambda one: draw(*one), tuple(first)), 0, -1)
