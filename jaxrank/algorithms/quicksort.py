"""Quicksort by duels: few comparisons, and no protection against a wrong one."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key
from numpy.typing import ArrayLike

from jaxrank.core import checks, ranks
from jaxrank.core.batch_axis import argmax_rows, row_indices
from jaxrank.core.boundaries import as_given, complete, cut_points
from jaxrank.core.prng import bits, permutation
from jaxrank.core.protocol import Algorithm, Query
from jaxrank.core.pytrees import pytree_dataclass, set_fields, static
from jaxrank.core.tally import Tally


class QuicksortState(NamedTuple):
    """Where a run of `Quicksort` stands.

    Attributes:
      rounds: rounds so far, one pivot each.
      tally: all answers so far.
      priority: a random permutation that breaks ties, drawn once per trial, shape (K,).
      low: first rank, from 0, of the block an item stands in, shape (K,); items of one block are not yet told apart.
      high: one past the block's last rank, shape (K,).
      runs: runs completed.
      rank_sums: twice the sum over completed runs of an item's rank, the middle of its block; shape (K,).

    Example:
      >>> state = jr.Quicksort(num_items=3).init(jax.random.key(0))
      >>> int(state.rounds), state.tally.pulls.tolist()
      (0, [0, 0, 0])
    """

    rounds: Int[Array, "*T"]
    tally: Tally
    priority: Int[Array, "K *T"]
    low: Int[Array, "K *T"]
    high: Int[Array, "K *T"]
    runs: Int[Array, "*T"]
    rank_sums: Int[Array, "K *T"]


@pytree_dataclass
class Quicksort(Algorithm[QuicksortState]):
    """A random pivot meets every item of its block once; those that beat it go before it, the others after.

    A block needs no more work when no boundary lies inside it. Several runs are aggregated by the mean rank over the
    completed ones, which is our choice: the paper does not say how it aggregates them.

    Args:
      num_items: K.
      boundaries: where clusters end; a full order by default.
      repeats: runs after which it stops; None goes on until the budget is spent.

    Example:
      >>> duels = jr.Duels.btl([0.0, 20.0, 40.0, 60.0])
      >>> jr.run(jax.random.key(0), jr.Quicksort(num_items=4), duels).order.tolist()
      [3, 2, 1, 0]
    """

    num_items: int = static(converter=checks.whole_number("num_items", low=2))
    boundaries: tuple[int, ...] = static(default=None, converter=as_given)
    repeats: int | None = static(default=1)

    batched = True

    def __post_init__(self) -> None:
        """Resolve the boundaries."""
        given = complete() if self.boundaries is None else self.boundaries
        set_fields(self, boundaries=cut_points(self.num_items, given))
        if self.repeats is not None:
            set_fields(self, repeats=checks.whole("repeats", self.repeats, low=1))

    @property
    def asks_pairs(self) -> bool:
        """Yes: every item of a block meets its pivot."""
        return True

    def check_stops(self, means: Float[ArrayLike, "K"]) -> None:
        """It does, after its last run."""
        del means
        if self.repeats is None:
            raise ValueError("max_samples must be given where repeats is None: Quicksort then never stops by itself")

    def init(self, key: Key[Array, "*T"]) -> QuicksortState:
        """See `Algorithm`."""
        answers = Tally.empty((self.num_items, *key.shape))
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

    def ask(self, key: Key[Array, "*T"], state: QuicksortState) -> Query:
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

    def tell(self, state: QuicksortState, query: Query, reward: Float[Array, "B *T"]) -> QuicksortState:
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
            tally=state.tally.add_duels(query, reward),
            priority=state.priority,
            low=jnp.where(ended[None], 0, new_low),
            high=jnp.where(ended[None], self.num_items, new_high),
            runs=state.runs + ended.astype(state.runs.dtype),
            rank_sums=total,
        )

    def done(self, state: QuicksortState) -> Bool[Array, "*T"]:
        """All runs are completed."""
        if self.repeats is None:
            return jnp.zeros(state.runs.shape, bool)
        return state.runs >= self.repeats

    def order(self, state: QuicksortState) -> Int[Array, "K *T"]:
        """By the mean rank over completed runs; in the first run by the blocks as they stand."""
        now = state.low + state.high - 1
        standing = jnp.where((state.runs > 0)[None], state.rank_sums, now)
        return ranks.order_of(ranks.ranks(-standing.astype(jnp.result_type(float)), state.priority))
