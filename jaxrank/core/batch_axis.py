"""The trial axis. Items come first, trials last, and the same code serves one trial or many.

Every array of a single trial has the shapes its annotation names, such as "K". A batch of trials adds one trailing
axis: (K, T), scalars (T,), keys (T,). Trials on the minor axis are what a CPU's vector units and a GPU's threads
want: a batched loop over (K, T) runs faster than the same loop under `vmap`, which puts trials first.
Code keeps to this by reducing over axis 0 and lifting per-trial scalars with `[None]`.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Integer, Shaped


def row_indices(shape: tuple[int, ...], dtype) -> Integer[Array, "K *T"]:
    """The index along the first axis, at every entry."""
    return jax.lax.broadcasted_iota(dtype, shape, 0)


def gather(table: Shaped[Array, "..."], *index: Int[Array, "B *T"]) -> Shaped[Array, "B *T"]:
    """table[index], where the table is either shared by all trials or has a trailing trial axis of its own."""
    here = _with_trial_index(*index) if table.ndim > len(index) else index
    return table.at[here].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _with_trial_index(*index: Int[Array, "*B T"]) -> tuple[Int[Array, "*B T"], ...]:
    """The index, with that of the trial at its end."""
    return (*index, jax.lax.broadcasted_iota(index[0].dtype, index[0].shape, index[0].ndim - 1))


def gather_rows(table: Shaped[Array, "K K *T"], row: Int[Array, "n *T"]) -> Shaped[Array, "n K *T"]:
    """table[row]."""
    if table.shape[0] <= MAX_ROWS_COMPARED:
        here = row[:, None] == row_indices(table.shape[1:], row.dtype)[None]
        return jnp.sum(jnp.where(here[:, :, None], table[None], 0), axis=1, dtype=table.dtype)
    shape = (row.shape[0], *table.shape[1:])
    return gather(table, jnp.broadcast_to(row[:, None], shape), jax.lax.broadcasted_iota(row.dtype, shape, 1))


MAX_ROWS_COMPARED = 32
"""Up to this many rows, adding up a masked table is faster on a CPU than fetching a row of it."""


def argmax_rows(table: Shaped[Array, "K *T"]) -> Int[Array, "1 *T"]:
    """Where the largest entry of each trial stands."""
    return jnp.argmax(table, axis=0).astype(int)[None]


MAX_UNROLLED_ROWS = 16
"""Up to this many updates, comparing each with all rows beats a scatter on a CPU."""
MIN_SCATTER_ROWS = 2**12
"""From this many rows on, a scatter is faster."""


def set_rows(
    table: Shaped[Array, "K *T"], place: Int[Array, "B *T"], value: Shaped[Array, "B *T"]
) -> Shaped[Array, "K *T"]:
    """The table with these rows replaced; a place may be named twice with the same value."""
    if place.shape[0] > MAX_UNROLLED_ROWS:
        return _each_column(lambda t, p, v: t.at[p].set(v), table, place, value)
    everyone = row_indices(table.shape, place.dtype)
    for number in range(place.shape[0]):
        table = jnp.where(everyone == place[number][None], value[number][None], table)
    return table


def add_rows(
    table: Shaped[Array, "K *T"], place: Int[Array, "B *T"], value: Shaped[Array, "B *T"]
) -> Shaped[Array, "K *T"]:
    """The table with these amounts added to these rows."""
    if place.shape[0] > MAX_UNROLLED_ROWS or table.shape[0] >= MIN_SCATTER_ROWS:
        return _each_column(lambda t, p, v: t.at[p].add(v), table, place, value)
    everyone = row_indices(table.shape, place.dtype)
    for number in range(place.shape[0]):
        table = table + jnp.where(everyone == place[number][None], value[number][None], 0)
    return table


def set_pairs(
    table: Shaped[Array, "K K *T"], place: Int[Array, "B *T"], value: Shaped[Array, "B K *T"]
) -> Shaped[Array, "K K *T"]:
    """A symmetric table of pairs with these items' rows and columns replaced; `set_rows` in two dimensions.

    A place outside the table is left out.
    """
    row, column = (jax.lax.broadcasted_iota(place.dtype, table.shape, axis) for axis in (0, 1))
    for number in range(place.shape[0]):
        here = place[number][None, None]
        table = jnp.where(row == here, value[number][None], jnp.where(column == here, value[number][:, None], table))
    return table


def set_one_per_row(
    table: Shaped[Array, "K K *T"],
    row: Int[Array, "n *T"],
    column: Int[Array, "n *T"],
    value: Shaped[Array, "n *T"],
    now: Bool[Array, "n *T"],
) -> Shaped[Array, "K K *T"]:
    """The table with entries replaced, at most one in every row: one pass, whatever their number."""
    everyone = row_indices(table.shape[1:], row.dtype)
    here = (row[:, None] == everyone[None]) & now[:, None]
    place = jnp.sum(jnp.where(here, column[:, None] + 1, 0), axis=0, dtype=row.dtype) - 1
    new = jnp.sum(jnp.where(here, value[:, None], 0), axis=0, dtype=value.dtype)
    return jnp.where(place[:, None] == everyone[None], new[:, None], table)


def _each_column(function, table, place, value):
    tables = (table, place, value)
    return function(*tables) if place.ndim == 1 else jax.vmap(function, in_axes=-1, out_axes=-1)(*tables)


def expand_items(number: Shaped[Array, "*T"]) -> Shaped[Array, "..."]:
    """One number per trial, with an axis added to broadcast over items; one shared by all trials stays as it is."""
    return number if number.ndim == 0 else number[None]
