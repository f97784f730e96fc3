"""The likelihood of pairwise answers kept as a list of rows, and the choice between list and matrix."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.sparse.linalg import cg
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int, Shaped

from jaxrank.core.pytrees import leaf, pytree_dataclass, static
from jaxrank.data.comparisons import Comparisons
from jaxrank.fitting.win_matrix import AnyArray, Scores, WinMatrix, balanced
from jaxrank.stats.links import Link

CHUNK = 2**22
"""Rows of a list that are processed together: this sets the memory that a gradient needs."""
MIN_SHARDED_ROWS = 2**17
"""Rows up to which a list is not worth sending to several devices."""

Rows = Int[Array, "n"]
"""Items of the rows of a chunk."""
Amounts = Float[Array, "n"]
"""One number per row of a chunk."""


@pytree_dataclass
class EdgeList:
    """Answers row by row, in c chunks of n rows: memory is set by the chunk, not by the number of answers.

    The log-likelihood of scores s is the sum over the rows of weight times log P(s_winner - s_loser), where P is the
    link. Rows that fill up the last chunk compare item 0 with itself, which changes neither gradient nor curvature.

    Args:
      winners: item that won each row (c, n).
      losers: item that lost each row (c, n).
      weights: how often each row's answer was given (c, n); None stands for once, without storing the ones.
      totals: wins (K,) and losses (K,) of every item, without the rows that fill up.
      single_precision: compute each row's share of the gradient in 32 bit; sums keep the precision of the scores.

    Example:
      >>> from jaxrank.fitting.likelihood import EdgeList
      >>> from jaxrank.stats.links import BTL
      >>> winners, losers = jnp.array([[0, 0, 0, 1]]), jnp.array([[1, 1, 1, 0]])
      >>> totals = jnp.array([3.0, 1.0]), jnp.array([1.0, 3.0])
      >>> data = EdgeList(winners=winners, losers=losers, weights=None, totals=totals)
      >>> data.gradient(BTL(), jnp.zeros(2)).tolist()
      [1.0, -1.0]
    """

    winners: Int[AnyArray, "c n"] = leaf(2)
    losers: Int[AnyArray, "c n"] = leaf(2)
    weights: Float[AnyArray, "c n"] | None = leaf(2)
    totals: tuple[Float[AnyArray, "K"], Float[AnyArray, "K"]] = leaf(1)
    single_precision: bool = static(default=False)

    def _sum(
        self, start: Float[Array, "..."], term: Callable[[Array, Rows, Rows, Amounts], Array], dtype: Any
    ) -> Float[Array, "..."]:
        """Pass a total through term(total, winners, losers, weights), chunk by chunk."""

        def add(total: Array, chunk: tuple[Any, Any, Any]) -> tuple[Array, None]:
            winners, losers, weights = chunk
            weights = jnp.ones((), dtype) if weights is None else weights.astype(dtype)
            return term(total, winners, losers, weights), None

        return jax.lax.scan(add, start, (self.winners, self.losers, self.weights))[0]

    def _spread(self, value: Callable[[Rows, Rows, Amounts], Amounts], vector: Scores) -> Scores:
        """Add value(winners, losers, weights) to every winner and subtract it from every loser."""

        def term(total: Scores, winners: Rows, losers: Rows, weights: Amounts) -> Scores:
            amount = value(winners, losers, weights)
            return _add(_add(total, winners, amount), losers, -amount)

        return self._sum(jnp.zeros_like(vector), term, vector.dtype)

    def log_likelihood(self, link: Link, scores: Scores) -> Float[Array, ""]:
        """Sum the logarithms of the probabilities of all answers.

        Args:
          link: the pairwise model.
          scores: one score per item (K,).

        Returns:
          The log-likelihood, a scalar.

        Example:
          >>> from jaxrank.fitting.likelihood import data_of
          >>> from jaxrank.stats.links import BTL
          >>> ladder = data_of(jr.Comparisons.from_pairs(np.arange(99), np.arange(1, 100)))
          >>> round(float(ladder.log_likelihood(BTL(), jnp.zeros(100))), 2)  # 99 log(1 / 2)
          -68.62
        """

        def term(total: Float[Array, ""], winners: Rows, losers: Rows, weights: Amounts) -> Float[Array, ""]:
            value = weights * link.log_probability(_take(scores, winners) - _take(scores, losers))
            return total + jnp.sum(jnp.where(winners != losers, value, 0))

        return self._sum(jnp.zeros((), scores.dtype), term, scores.dtype)

    def gradient(self, link: Link, scores: Scores) -> Scores:
        """Compute the gradient of the log-likelihood.

        Args:
          link: the pairwise model.
          scores: one score per item (K,).

        Returns:
          Derivative by every score (K,); it adds up to 0.

        Example:
          >>> from jaxrank.fitting.likelihood import data_of
          >>> from jaxrank.stats.links import BTL
          >>> ladder = data_of(jr.Comparisons.from_pairs(np.arange(99), np.arange(1, 100)))
          >>> ladder.gradient(BTL(), jnp.zeros(100))[:3].tolist()
          [0.5, 0.0, 0.0]
        """
        near = scores.astype(jnp.float32) if self.single_precision else scores

        def pull(winners: Rows, losers: Rows, weights: Amounts) -> Amounts:
            return weights * link.slope(_take(near, winners) - _take(near, losers)).astype(scores.dtype)

        return self._spread(pull, scores)

    def solve(self, link: Link, scores: Scores, vector: Scores, prior: Float[Array, ""], accuracy: float) -> Scores:
        """Solve (H + prior I) x = vector by conjugate gradients, where H is the Fisher information at these scores.

        Without a prior H is singular: constant scores have no curvature. The vector must then add up to 0, and so
        does the solution. H is never formed: each step passes over the rows.

        Args:
          link: the pairwise model.
          scores: one score per item (K,).
          vector: right-hand side (K,).
          prior: precision of the Gaussian prior on the scores, at least 0.
          accuracy: norm of the residual, relative to that of the vector, at which the iteration ends.

        Returns:
          The solution x (K,).

        Example:
          >>> from jaxrank.fitting.likelihood import data_of
          >>> from jaxrank.stats.links import BTL
          >>> ladder = data_of(jr.Comparisons.from_pairs(np.arange(99), np.arange(1, 100)))
          >>> ends = jnp.zeros(100).at[0].set(1.0).at[99].set(-1.0)
          >>> x = ladder.solve(BTL(), jnp.zeros(100), ends, jnp.zeros(()), 1e-4)
          >>> round(float(x[0] - x[1]), 1)  # each of the answers has information 1 / 4
          4.0
        """

        def weight(winners: Rows, losers: Rows, weights: Amounts) -> Amounts:
            value = weights * link.curvature(_take(scores, winners) - _take(scores, losers))
            return jnp.where(winners != losers, value, 0)

        def product(vector: Scores) -> Scores:
            return self._spread(
                lambda won, lost, n: weight(won, lost, n) * (_take(vector, won) - _take(vector, lost)), vector
            )

        def term(total: Scores, winners: Rows, losers: Rows, weights: Amounts) -> Scores:
            amount = weight(winners, losers, weights)
            return _add(_add(total, winners, amount), losers, amount)

        diagonal = self._sum(jnp.zeros_like(scores), term, scores.dtype)
        scale = 1 / jnp.maximum(diagonal + prior, jnp.finfo(scores.dtype).tiny ** 0.5)
        solved, _ = cg(
            lambda vector: product(vector) + prior * vector,
            vector,
            tol=accuracy,
            maxiter=20 * scores.shape[0],
            M=lambda vector: scale * vector,
        )
        return balanced(solved, prior)


def _take(table: Scores, index: Rows) -> Amounts:
    """`table[index]` without a bounds check: `Comparisons` has checked the item numbers."""
    return table.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _add(table: Scores, index: Rows, amount: Amounts) -> Scores:
    """The table with `amount` added at `index`, without a bounds check."""
    return table.at[index].add(amount, mode="promise_in_bounds", wrap_negative_indices=False)


def data_of(comparisons: Comparisons, *, single_precision: bool = False) -> WinMatrix | EdgeList:
    """Put the answers into the form in which their likelihood is cheapest.

    This is a matrix if its K^2 entries are at most three times the number of rows, or K is at most 64; otherwise a
    list, padded to one of few lengths so that another file seldom needs another compilation. If there are several
    local devices, they share the rows of a long list.

    Args:
      comparisons: the answers.
      single_precision: compute each answer's share of the gradient in 32 bit.

    Returns:
      A `WinMatrix` or an `EdgeList`; both have `log_likelihood`, `gradient`, `solve` and `totals`.

    Example:
      >>> from jaxrank.fitting.likelihood import data_of
      >>> ladder = np.arange(99)
      >>> type(data_of(jr.Comparisons.from_pairs(ladder, ladder + 1))).__name__
      'EdgeList'
    """
    if comparisons.num_items**2 <= max(3 * len(comparisons.winners), 64**2):
        return WinMatrix(wins=comparisons.matrix(), single_precision=single_precision)
    rows, devices = len(comparisons.winners), jax.local_devices()
    size = -(-min(CHUNK, _padded(rows)) // len(devices)) * len(devices)
    chunks = -(-rows // size)
    place = None
    if len(devices) > 1 and rows > MIN_SHARDED_ROWS:
        place = NamedSharding(Mesh(np.asarray(devices), ("rows",)), PartitionSpec(None, "rows"))

    def pad(values: Shaped[np.ndarray, "R"]) -> Shaped[AnyArray, "c n"]:
        padded = np.concatenate([values, np.zeros(chunks * size - rows, values.dtype)]).reshape(chunks, size)
        return padded if place is None else jax.device_put(padded, place)

    weights = None if comparisons.weights is None else pad(comparisons.weights)
    return EdgeList(
        winners=pad(comparisons.winners),
        losers=pad(comparisons.losers),
        weights=weights,
        totals=(comparisons.wins, comparisons.losses),
        single_precision=single_precision,
    )


def _padded(rows: int) -> int:
    """The number rounded up to one of four between successive powers of two: few shapes, hence few compilations."""
    power = 2 ** max(int(rows - 1).bit_length() - 3, 4)
    return -(-rows // power) * power
