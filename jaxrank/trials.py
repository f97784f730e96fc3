"""The trial axis. Items come first, trials last, and the same code serves one trial or many.

Every array of a single trial has the shapes its annotation names, such as "K". A batch of trials adds one trailing
axis: (K, T), scalars (T,), keys (T,). Trials on the minor axis are what a CPU's vector units and a GPU's threads
want: a batched loop over (K, T) runs faster than the same loop under `vmap`, which puts trials first.
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
    here = _here(*index) if table.ndim > len(index) else index
    return table.at[here].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _here(*index: Int[Array, "B *T"]) -> tuple[Int[Array, "B *T"], ...]:
    """The index, with that of the trial at its end if there are many."""
    if index[0].ndim == 1:
        return index
    return (*index, jax.lax.broadcasted_iota(index[0].dtype, index[0].shape, 1))


def largest(table: Shaped[Array, "K *T"]) -> Int[Array, "1 *T"]:
    """Where the largest entry of each trial stands."""
    return jnp.argmax(table, axis=0).astype(int)[None]


FEW = 16
"""Up to this many places, comparing each with all rows beats a scatter on a CPU."""
LONG = 2**12
"""Rows from which it does not."""
FEW_PAIRS = 256
"""The same for pairs: rows of a table times places in it."""


def put(table: Shaped[Array, "K *T"], place: Int[Array, "B *T"], value: Shaped[Array, "B *T"]) -> Shaped[Array, "K *T"]:
    """The table with these rows replaced; a place may be named twice with the same value."""
    if place.shape[0] > FEW:
        return _each_column(lambda t, p, v: t.at[p].set(v), table, place, value)
    everyone = places(table.shape, place.dtype)
    for number in range(place.shape[0]):
        table = jnp.where(everyone == place[number][None], value[number][None], table)
    return table


def add_at(
    table: Shaped[Array, "K *T"], place: Int[Array, "B *T"], value: Shaped[Array, "B *T"]
) -> Shaped[Array, "K *T"]:
    """The table with these amounts added to these rows."""
    if place.shape[0] > FEW or table.shape[0] >= LONG:
        return _each_column(lambda t, p, v: t.at[p].add(v), table, place, value)
    everyone = places(table.shape, place.dtype)
    for number in range(place.shape[0]):
        table = table + jnp.where(everyone == place[number][None], value[number][None], 0)
    return table


def put_pairs(
    table: Shaped[Array, "K K *T"], place: Int[Array, "B *T"], value: Shaped[Array, "B K *T"]
) -> Shaped[Array, "K K *T"]:
    """A symmetric table of pairs with these items' rows and columns replaced; `put` in two dimensions.

    A place outside the table is left out.
    """
    if table.shape[0] * place.shape[0] > FEW_PAIRS:

        def each(table, place, value):
            return table.at[place].set(value, mode="drop").at[:, place].set(value.T, mode="drop")

        return _each_column(each, table, place, value)
    row, column = (jax.lax.broadcasted_iota(place.dtype, table.shape, axis) for axis in (0, 1))
    for number in range(place.shape[0]):
        here = place[number][None, None]
        table = jnp.where(row == here, value[number][None], jnp.where(column == here, value[number][:, None], table))
    return table


def put_one(
    table: Shaped[Array, "K K *T"], row: Int[Array, "1 *T"], column: Int[Array, "1 *T"], value: Shaped[Array, "1 *T"]
) -> Shaped[Array, "K K *T"]:
    """The table with one entry of each trial replaced."""
    if table.shape[0] * table.shape[1] <= FEW_PAIRS:
        rows, columns = (jax.lax.broadcasted_iota(row.dtype, table.shape, axis) for axis in (0, 1))
        return jnp.where((rows == row[None]) & (columns == column[None]), value[None], table)
    return table.at[_here(row, column)].set(value, mode="promise_in_bounds", wrap_negative_indices=False)


def _each_column(function, table, place, value):
    tables = (table, place, value)
    return function(*tables) if place.ndim == 1 else jax.vmap(function, in_axes=-1, out_axes=-1)(*tables)


def lift(number: Shaped[Array, "*T"]) -> Shaped[Array, "..."]:
    """One number per trial, made to face arrays with a leading axis; a number shared by all trials stays as it is."""
    return number if number.ndim == 0 else number[None]


def fold_in(key: Key[Array, "*T"], number: Int[Array, "*T"]) -> Key[Array, "*T"]:
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
    counter = places((count, *key.shape), jnp.uint32)
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
    counter = places(((count + 1) // 2, *key.shape), jnp.uint32)
    first, second = (jnp.broadcast_to(data[..., word][None], counter.shape) for word in (0, 1))
    return jnp.concatenate(_threefry(first, second, counter, jnp.zeros_like(counter)))[:count]


def permutation(key: Key[Array, "*T"], count: int) -> Int[Array, "n *T"]:
    """A random order of 0, 1, ..., count - 1, by sorting random words."""
    return jnp.argsort(bits(key, count), axis=0).astype(jnp.result_type(int))


def another(item: Int[Array, "B *T"], word: UInt[Array, "B *T"], num_items: int) -> Int[Array, "B *T"]:
    """A random item other than the one given, from a random word, whose remainder is uniform up to K / 2^32."""
    place = (word % jnp.uint32(num_items - 1)).astype(item.dtype)
    return jnp.where(place < item, place, place + 1)


def _is_threefry(key) -> bool:
    return str(jax.random.key_impl(key)) == "threefry2x32"


def _threefry(first, second, left, right):
    """Threefry-2x32 with 20 rounds (Salmon et al. 2011), the hash of JAX's default generator.

    On a CPU JAX compiles the hash as a loop whose every turn copies its state; written out it is one fused kernel, and
    an inner loop is faster for it. The tests hold it to JAX's own, bit by bit.
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
