"""The likelihood of pairwise answers: its gradient, and products with its curvature, from a matrix or from a list."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxrank.comparisons import Comparisons
from jaxrank.links import Link
from jaxrank.types import leaf, pytree_dataclass, static

Scores = Float[Array, "K"]

CHUNK = 2**22
"""Rows of a list that are looked at together."""


@pytree_dataclass
class Table:
    """Answers as a K x K matrix of wins: cheapest where most pairs were compared."""

    wins: Float[Array, "K K"] = leaf(2)

    @property
    def totals(self) -> tuple[Scores, Scores]:
        """Wins and losses of every item."""
        return jnp.sum(self.wins, axis=1), jnp.sum(self.wins, axis=0)

    def log_likelihood(self, link: Link, scores: Scores) -> Float[Array, ""]:
        """Sum of the logarithms of the probabilities of all answers."""
        return jnp.sum(self.wins * link.log_probability(_gaps(scores)))

    def gradient(self, link: Link, scores: Scores) -> Scores:
        """Of the log-likelihood."""
        pull = self.wins * link.slope(_gaps(scores))
        return jnp.sum(pull, axis=1) - jnp.sum(pull, axis=0)

    def curvature(self, link: Link, scores: Scores) -> tuple[Callable[[Scores], Scores], Scores]:
        """Minus the second derivative, as a function that multiplies by it, and its diagonal.

        It is the Laplacian of a weighted graph: constant scores have no curvature.
        """
        laplacian = self.information(link, scores)
        return lambda vector: laplacian @ vector, jnp.diag(laplacian)

    def information(self, link: Link, scores: Scores) -> Float[Array, "K K"]:
        """Minus the second derivative, as a matrix."""
        weight = self.wins * link.curvature(_gaps(scores))
        weight = weight + weight.T
        return jnp.diag(jnp.sum(weight, axis=1)) - weight


def _gaps(scores):
    return scores[:, None] - scores[None]


@pytree_dataclass
class List:
    """Answers row by row, in chunks: memory is set by the chunk, not by the number of answers.

    Rows that fill up the last chunk compare item 0 with itself, which changes neither gradient nor curvature.
    """

    winners: Int[Array, "c n"] = leaf(2)
    losers: Int[Array, "c n"] = leaf(2)
    weights: Float[Array, "c n"] | None = leaf(2)
    """None stands for ones."""
    num_items: int = static()

    def _sum(self, start, term, dtype):
        """Add up term(winners, losers, weights, total) over the chunks."""

        def add(total, chunk):
            winners, losers, weights = chunk
            weights = jnp.ones((), dtype) if weights is None else weights.astype(dtype)
            return term(total, winners, losers, weights), None

        return jax.lax.scan(add, start, (self.winners, self.losers, self.weights))[0]

    def _spread(self, value, vector: Scores) -> Scores:
        """Add value(winners, losers, weights) to every winner and take it from every loser."""

        def term(total, winners, losers, weights):
            amount = value(winners, losers, weights)
            return _add(_add(total, winners, amount), losers, -amount)

        return self._sum(jnp.zeros_like(vector), term, vector.dtype)

    @property
    def totals(self) -> tuple[Scores, Scores]:
        """Wins and losses of every item."""
        kind = jnp.result_type(float)
        zero = jnp.zeros(self.num_items, kind)

        def term(total, winners, losers, weights):
            amount = jnp.where(winners != losers, weights, 0)
            return _add(total[0], winners, amount), _add(total[1], losers, amount)

        return self._sum((zero, zero), term, kind)

    def log_likelihood(self, link: Link, scores: Scores) -> Float[Array, ""]:
        """See `Table`."""

        def term(total, winners, losers, weights):
            value = weights * link.log_probability(_take(scores, winners) - _take(scores, losers))
            return total + jnp.sum(jnp.where(winners != losers, value, 0))

        return self._sum(jnp.zeros((), scores.dtype), term, scores.dtype)

    def gradient(self, link: Link, scores: Scores) -> Scores:
        """See `Table`."""

        def pull(winners, losers, weights):
            return weights * link.slope(_take(scores, winners) - _take(scores, losers))

        return self._spread(pull, scores)

    def curvature(self, link: Link, scores: Scores) -> tuple[Callable[[Scores], Scores], Scores]:
        """See `Table`."""

        def weight(winners, losers, weights):
            value = weights * link.curvature(_take(scores, winners) - _take(scores, losers))
            return jnp.where(winners != losers, value, 0)

        def product(vector):
            return self._spread(
                lambda won, lost, n: weight(won, lost, n) * (_take(vector, won) - _take(vector, lost)), vector
            )

        def term(total, winners, losers, weights):
            amount = weight(winners, losers, weights)
            return _add(_add(total, winners, amount), losers, amount)

        return product, self._sum(jnp.zeros_like(scores), term, scores.dtype)


def _take(table, index):
    return table.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _add(table, index, amount):
    return table.at[index].add(amount, mode="promise_in_bounds", wrap_negative_indices=False)


def data_of(comparisons: Comparisons) -> Table | List:
    """A matrix where it is not much larger than the list."""
    count, rows = comparisons.num_items, len(comparisons.winners)
    if count * count <= 3 * rows or count <= 64:
        return Table(wins=jnp.asarray(comparisons.matrix()))
    size = min(CHUNK, _padded(rows))
    chunks = -(-rows // size)

    def pad(values):
        return jnp.asarray(np.concatenate([values, np.zeros(chunks * size - rows, values.dtype)]).reshape(chunks, size))

    weights = None if comparisons.weights is None else pad(comparisons.weights)
    return List(winners=pad(comparisons.winners), losers=pad(comparisons.losers), weights=weights, num_items=count)


def _padded(rows: int) -> int:
    """The next number of a coarse grid, steps of a quarter, so that another file seldom means another compilation."""
    power = 2 ** max(int(rows - 1).bit_length() - 3, 4)
    return -(-rows // power) * power
