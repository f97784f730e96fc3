"""Questions about the critical items of boundaries, for every algorithm that asks so."""

from typing import Protocol

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from jaxrank.core.batch_axis import row_indices
from jaxrank.core.protocol import ANYONE, Query
from jaxrank.core.tally import Tally


class CriticalState(Protocol):
    """What a state must tell."""

    @property
    def rounds(self) -> Int[Array, "*T"]:
        """0 until every item was sampled once."""
        ...

    @property
    def tally(self) -> Tally:
        """All answers so far."""
        ...

    @property
    def active(self) -> Bool[Array, "C *T"]:
        """Boundaries that are asked about."""
        ...

    @property
    def critical(self) -> Int[Array, "C 2 *T"]:
        """Two items for each boundary."""
        ...


def about_critical(state: CriticalState, pulls_per_item: int, sample_once: bool) -> Query:
    """Both critical items of every active boundary; before the first round, items never sampled."""
    rounds, answers, active, critical = state.rounds, state.tally, state.active, state.critical
    item, mask = critical.reshape(-1, *rounds.shape), jnp.repeat(active, 2, axis=0)
    if sample_once:
        slot = row_indices(item.shape, item.dtype)
        taken = (item[:, None] == item[None]) & mask[:, None] & (slot[:, None] < slot[None])
        mask &= ~jnp.any(taken, axis=0)
    item, mask = jnp.repeat(item, pulls_per_item, axis=0), jnp.repeat(mask, pulls_per_item, axis=0)
    num_items = answers.pulls.shape[0]
    everyone = row_indices(answers.pulls.shape, item.dtype)
    first = jnp.min(jnp.where(answers.pulls == 0, everyone, num_items), axis=0)
    waiting = first[None] + row_indices(item.shape, item.dtype)
    opening = (rounds == 0)[None]
    return Query(
        item=jnp.where(opening, jnp.minimum(waiting, num_items - 1), item),
        opponent=jnp.full_like(item, ANYONE),
        mask=jnp.where(opening, waiting < num_items, mask),
    )
