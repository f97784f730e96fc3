"""The likelihood of pairwise answers: its gradient, and steps against its curvature, from a matrix or from a list."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve
from jax.scipy.sparse.linalg import cg
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int

from jaxrank.core.pytrees import leaf, pytree_dataclass, static
from jaxrank.data.comparisons import Comparisons
from jaxrank.stats.links import Link

AnyArray = Array | np.ndarray
"""On a device, or still on the host, where it was read."""
Scores = Float[Array, "K"]

CHUNK = 2**22
"""Rows of a list that are looked at together."""
SHORT = 2**17
"""Rows of a list that are not worth sending to several devices."""


@pytree_dataclass
class WinMatrix:
    """Answers as a K x K matrix of wins: cheapest where most pairs were compared."""

    wins: Float[AnyArray, "K K"] = leaf(2)
    single_precision: bool = static(default=False)
    """Whether the gradient is worked out in 32 bit, answer by answer; sums keep the precision of the scores."""

    @property
    def totals(self) -> tuple[Scores, Scores]:
        """Wins and losses of every item."""
        return jnp.sum(self.wins, axis=1), jnp.sum(self.wins, axis=0)

    def log_likelihood(self, link: Link, scores: Scores) -> Float[Array, ""]:
        """Sum of the logarithms of the probabilities of all answers."""
        return jnp.sum(self.wins * link.log_probability(_gaps(scores)))

    def gradient(self, link: Link, scores: Scores) -> Scores:
        """Of the log-likelihood."""
        kind = jnp.float32 if self.single_precision else scores.dtype
        pull = self.wins.astype(kind) * link.slope(_gaps(scores.astype(kind)))
        return jnp.sum(pull, axis=1, dtype=scores.dtype) - jnp.sum(pull, axis=0, dtype=scores.dtype)

    def solve(self, link: Link, scores: Scores, vector: Scores, prior: Float[Array, ""], _: float = 0) -> Scores:
        """The curvature (minus the second derivative, plus the prior) divided into a vector, by Cholesky factors.

        Without a prior the vector must add up to 0, and so does the answer: constant scores have no curvature.
        """
        matrix = self.information(link, scores)
        level = jnp.trace(matrix) / matrix.shape[0]
        ridge = jnp.where(prior > 0, prior * jnp.eye(matrix.shape[0], dtype=matrix.dtype), level)
        solved = cho_solve((jnp.linalg.cholesky(matrix + ridge), True), vector)
        # Scores that do not exist run away until their curvature is lost: then the diagonal alone says where to.
        rough = vector / jnp.maximum(jnp.diag(matrix) + prior, jnp.finfo(vector.dtype).tiny ** 0.5)
        return _balanced(jnp.where(jnp.all(jnp.isfinite(solved)), solved, rough), prior)

    def information(self, link: Link, scores: Scores) -> Float[Array, "K K"]:
        """Minus the second derivative, as a matrix."""
        weight = self.wins * link.curvature(_gaps(scores))
        weight = weight + weight.T
        return jnp.diag(jnp.sum(weight, axis=1)) - weight


def _gaps(scores):
    return scores[:, None] - scores[None]


@pytree_dataclass
class EdgeList:
    """Answers row by row, in chunks: memory is set by the chunk, not by the number of answers.

    Rows that fill up the last chunk compare item 0 with itself, which changes neither gradient nor curvature.
    """

    winners: Int[AnyArray, "c n"] = leaf(2)
    losers: Int[AnyArray, "c n"] = leaf(2)
    weights: Float[AnyArray, "c n"] | None = leaf(2)
    """None stands for ones."""
    totals: tuple[Float[AnyArray, "K"], Float[AnyArray, "K"]] = leaf(1)
    """Wins and losses of every item."""
    single_precision: bool = static(default=False)
    """See `Table`."""

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

    def log_likelihood(self, link: Link, scores: Scores) -> Float[Array, ""]:
        """See `Table`."""

        def term(total, winners, losers, weights):
            value = weights * link.log_probability(_take(scores, winners) - _take(scores, losers))
            return total + jnp.sum(jnp.where(winners != losers, value, 0))

        return self._sum(jnp.zeros((), scores.dtype), term, scores.dtype)

    def gradient(self, link: Link, scores: Scores) -> Scores:
        """See `Table`."""
        near = scores.astype(jnp.float32) if self.single_precision else scores

        def pull(winners, losers, weights):
            return weights * link.slope(_take(near, winners) - _take(near, losers)).astype(scores.dtype)

        return self._spread(pull, scores)

    def solve(self, link: Link, scores: Scores, vector: Scores, prior: Float[Array, ""], accuracy: float) -> Scores:
        """See `Table`; by conjugate gradients, to this relative accuracy."""

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

        diagonal = self._sum(jnp.zeros_like(scores), term, scores.dtype)
        scale = 1 / jnp.maximum(diagonal + prior, jnp.finfo(scores.dtype).tiny ** 0.5)
        solved, _ = cg(
            lambda vector: product(vector) + prior * vector,
            vector,
            tol=accuracy,
            maxiter=20 * scores.shape[0],
            M=lambda vector: scale * vector,
        )
        return _balanced(solved, prior)


def _balanced(vector, prior):
    return vector - jnp.where(prior > 0, 0, jnp.mean(vector))


def _take(table, index):
    return table.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _add(table, index, amount):
    return table.at[index].add(amount, mode="promise_in_bounds", wrap_negative_indices=False)


def data_of(comparisons: Comparisons, *, single_precision: bool = False) -> WinMatrix | EdgeList:
    """A matrix where it is not much larger than the list; a long list is spread over all devices."""
    if comparisons.num_items**2 <= max(3 * len(comparisons.winners), 64**2):
        return WinMatrix(wins=comparisons.matrix(), single_precision=single_precision)
    rows, devices = len(comparisons.winners), jax.local_devices()
    size = -(-min(CHUNK, _padded(rows)) // len(devices)) * len(devices)
    chunks = -(-rows // size)
    place = None
    if len(devices) > 1 and rows > SHORT:
        place = NamedSharding(Mesh(np.asarray(devices), ("rows",)), PartitionSpec(None, "rows"))

    def pad(values):
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
    """The next number of a coarse grid, steps of a quarter, so that another file seldom means another compilation."""
    power = 2 ** max(int(rows - 1).bit_length() - 3, 4)
    return -(-rows // power) * power
