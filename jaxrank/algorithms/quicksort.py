"""Quicksort by duels: few comparisons, and no protection against a wrong one."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from jaxrank.core import checks, ranks, tally
from jaxrank.core.batch_axis import argmax_rows, row_indices
from jaxrank.core.boundaries import Boundaries, complete, cut_points
from jaxrank.core.prng import bits, permutation
from jaxrank.core.protocol import Query
from jaxrank.core.pytrees import pytree_dataclass, static
from jaxrank.core.tally import Tally


class QuicksortState(NamedTuple):
    """Where a run stands."""

    rounds: Int[Array, "*T"]
    tally: Tally
    priority: Int[Array, "K *T"]
    """A random permutation that breaks ties, drawn once per trial."""
    low: Int[Array, "K *T"]
    """First rank, from 0, of the block an item stands in; items of one block are not yet told apart."""
    high: Int[Array, "K *T"]
    """One past the block's last rank."""
    runs: Int[Array, "*T"]
    """Runs completed."""
    rank_sums: Int[Array, "K *T"]
    """Twice the sum over completed runs of an item's rank, the middle of its block."""


@pytree_dataclass
class Quicksort:
    """A random pivot meets every item of its block once; those that beat it go before it, the others after.

    A block needs no more work when no boundary lies inside it. Several runs are added up by the mean rank over the
    completed ones, which is our choice: the paper does not say how it does.

    Args:
      num_items: K.
      boundaries: where clusters end; a full order by default.
      repeats: runs after which it stops; None goes on until the budget is spent.
    """

    num_items: int = static()
    boundaries: tuple[int, ...] = static()
    repeats: int | None = static()

    asks_pairs = True

    def __init__(self, *, num_items: int, boundaries: Boundaries | None = None, repeats: int | None = 1):
        fields = {
            "num_items": checks.whole("num_items", num_items, low=2),
            "boundaries": cut_points(num_items, complete() if boundaries is None else boundaries),
            "repeats": None if repeats is None else checks.whole("repeats", repeats, low=1),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def check(self) -> None:
        """See `Algorithm`: all was checked when it was made."""

    def check_stops(self, means) -> None:
        """It does, after its last run."""
        del means
        if self.repeats is None:
            raise ValueError("max_samples must be given where repeats is None: Quicksort then never stops by itself")

    def init(self, key) -> QuicksortState:
        """See `Algorithm`."""
        answers = tally.empty((self.num_items, *key.shape))
        priority = permutation(key, self.num_items)
        zero, none = jnp.zeros(key.shape, answers.pulls.dtype), jnp.zeros_like(priority)
        return QuicksortState(
            rounds=zero,
            tally=answers,
            priority=priority,
            low=none,
            high=jnp.full_like(none, self.num_items),
            runs=zero,
            rank_sums=none,
        )

    def ask(self, key, state) -> Query:
        """A random pivot of the first block that needs work against all others of it."""
        open_items = self._unsorted(state.low, state.high)
        first = jnp.min(jnp.where(open_items, state.low, self.num_items), axis=0)
        block = open_items & (state.low == first[None])
        word = jnp.where(block, bits(key, self.num_items) >> 1, 0).astype(jnp.int32)
        everyone = row_indices(state.low.shape, state.low.dtype)
        pivot = argmax_rows(word + block.astype(jnp.int32))
        more = True if self.repeats is None else (state.runs < self.repeats)[None]
        return Query(
            item=everyone, opponent=jnp.broadcast_to(pivot, everyone.shape), mask=block & (everyone != pivot) & more
        )

    def _unsorted(self, low, high) -> Bool[Array, "K *T"]:
        """Whether a boundary lies inside an item's block."""
        inside = [(low < point) & (point < high) for point in self.boundaries]
        return jnp.any(jnp.stack(inside), axis=0)

    def tell(self, state, query, reward) -> QuicksortState:
        """Split the block; a round cut short by the budget only counts."""
        asked = jnp.sum(query.mask, axis=0, dtype=state.low.dtype)
        pivot = query.item == query.opponent
        low = jnp.sum(jnp.where(pivot, state.low, 0), axis=0, dtype=asked.dtype)
        high = jnp.sum(jnp.where(pivot, state.high, 0), axis=0, dtype=asked.dtype)
        whole = ((asked > 0) & (asked == high - low - 1))[None]
        before = query.mask & (reward > 0.5)
        middle = low + jnp.sum(before, axis=0, dtype=asked.dtype)
        after = query.mask & ~before
        new_low = jnp.where(pivot, middle[None], jnp.where(after, middle[None] + 1, state.low))
        new_high = jnp.where(pivot, middle[None] + 1, jnp.where(before, middle[None], state.high))
        new_low, new_high = jnp.where(whole, new_low, state.low), jnp.where(whole, new_high, state.high)
        ended = (whole & ~jnp.any(self._unsorted(new_low, new_high), axis=0, keepdims=True))[0]
        total = state.rank_sums + jnp.where(ended[None], new_low + new_high - 1, 0)
        return QuicksortState(
            rounds=state.rounds + (asked > 0).astype(state.rounds.dtype),
            tally=tally.add_duels(state.tally, query, reward),
            priority=state.priority,
            low=jnp.where(ended[None], 0, new_low),
            high=jnp.where(ended[None], self.num_items, new_high),
            runs=state.runs + ended.astype(state.runs.dtype),
            rank_sums=total,
        )

    def done(self, state):
        """All runs are completed."""
        if self.repeats is None:
            return jnp.zeros(state.runs.shape, bool)
        return state.runs >= self.repeats

    def order(self, state):
        """By the mean rank over completed runs; in the first run by the blocks as they stand."""
        now = state.low + state.high - 1
        standing = jnp.where((state.runs > 0)[None], state.rank_sums, now)
        rank = ranks.ranks(-standing.astype(jnp.result_type(float)), state.priority)
        return jnp.argsort(rank, axis=0).astype(rank.dtype)
