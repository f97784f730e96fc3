"""The likelihood of pairwise answers that are kept as a matrix of wins."""

import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve
from jaxtyping import Array, Float

from jaxrank.core.pytrees import leaf, pytree_dataclass, static
from jaxrank.stats.links import Link

AnyArray = Array | np.ndarray
"""An array on a device, or still on the host, where it was read."""
Scores = Float[Array, "K"]
"""One score per item."""


@pytree_dataclass
class WinMatrix:
    """Answers as a K x K matrix of wins: cheapest where most pairs were compared.

    The log-likelihood of scores s is the sum over i, j of `wins[i, j]` log P(s_i - s_j), where P is the link.

    Args:
      wins: entry (i, j) is how often item i beat item j; the diagonal is 0.
      single_precision: compute each pair's share of the gradient in 32 bit; sums keep the precision of the scores.

    Example:
      >>> from jaxrank.fitting.win_matrix import WinMatrix
      >>> data = WinMatrix(wins=jnp.array([[0.0, 3.0], [1.0, 0.0]]))
      >>> [total.tolist() for total in data.totals]
      [[3.0, 1.0], [1.0, 3.0]]
    """

    wins: Float[AnyArray, "K K"] = leaf(2)
    single_precision: bool = static(default=False)

    @property
    def totals(self) -> tuple[Scores, Scores]:
        """Wins (K,) and losses (K,) of every item."""
        return jnp.sum(self.wins, axis=1), jnp.sum(self.wins, axis=0)

    def log_likelihood(self, link: Link, scores: Scores) -> Float[Array, ""]:
        """Sum the logarithms of the probabilities of all answers.

        Args:
          link: the pairwise model.
          scores: one score per item (K,).

        Returns:
          The log-likelihood, a scalar.

        Example:
          >>> from jaxrank.fitting.win_matrix import WinMatrix
          >>> from jaxrank.stats.links import BTL
          >>> data = WinMatrix(wins=jnp.array([[0.0, 3.0], [1.0, 0.0]]))
          >>> round(float(data.log_likelihood(BTL(), jnp.zeros(2))), 2)  # 4 log(1 / 2)
          -2.77
        """
        return jnp.sum(self.wins * link.log_probability(_gaps(scores)))

    def gradient(self, link: Link, scores: Scores) -> Scores:
        """Compute the gradient of the log-likelihood.

        Args:
          link: the pairwise model.
          scores: one score per item (K,).

        Returns:
          Derivative by every score (K,); it adds up to 0.

        Example:
          >>> from jaxrank.fitting.win_matrix import WinMatrix
          >>> from jaxrank.stats.links import BTL
          >>> data = WinMatrix(wins=jnp.array([[0.0, 3.0], [1.0, 0.0]]))
          >>> data.gradient(BTL(), jnp.zeros(2)).tolist()
          [1.0, -1.0]
        """
        kind = jnp.float32 if self.single_precision else scores.dtype
        pull = self.wins.astype(kind) * link.slope(_gaps(scores.astype(kind)))
        return jnp.sum(pull, axis=1, dtype=scores.dtype) - jnp.sum(pull, axis=0, dtype=scores.dtype)

    def solve(self, link: Link, scores: Scores, vector: Scores, prior: Float[Array, ""], accuracy: float = 0) -> Scores:
        """Solve (H + prior I) x = vector by Cholesky factors, where H is the Fisher information at these scores.

        Without a prior H is singular: constant scores have no curvature. The vector must then add up to 0, and so
        does the solution.

        Args:
          link: the pairwise model.
          scores: one score per item (K,).
          vector: right-hand side (K,).
          prior: precision of the Gaussian prior on the scores, at least 0.
          accuracy: not used, as the solution is exact but for rounding; `EdgeList.solve` iterates until it is reached.

        Returns:
          The solution x (K,).

        Example:
          >>> from jaxrank.fitting.win_matrix import WinMatrix
          >>> from jaxrank.stats.links import BTL
          >>> data = WinMatrix(wins=jnp.array([[0.0, 3.0], [1.0, 0.0]]))
          >>> data.solve(BTL(), jnp.zeros(2), jnp.array([1.0, -1.0]), jnp.zeros(())).round(3).tolist()
          [0.5, -0.5]
        """
        matrix = self.information(link, scores)
        level = jnp.trace(matrix) / matrix.shape[0]
        ridge = jnp.where(prior > 0, prior * jnp.eye(matrix.shape[0], dtype=matrix.dtype), level)
        solved = cho_solve((jnp.linalg.cholesky(matrix + ridge), True), vector)
        # Scores that do not exist grow until rounding destroys the curvature; the diagonal still gives a direction.
        rough = vector / jnp.maximum(jnp.diag(matrix) + prior, jnp.finfo(vector.dtype).tiny ** 0.5)
        return balanced(jnp.where(jnp.all(jnp.isfinite(solved)), solved, rough), prior)

    def information(self, link: Link, scores: Scores) -> Float[Array, "K K"]:
        """Compute the Fisher information: minus the second derivative of the log-likelihood.

        Args:
          link: the pairwise model.
          scores: one score per item (K,).

        Returns:
          The matrix (K, K); its rows add up to 0.

        Example:
          >>> from jaxrank.fitting.win_matrix import WinMatrix
          >>> from jaxrank.stats.links import BTL
          >>> data = WinMatrix(wins=jnp.array([[0.0, 3.0], [1.0, 0.0]]))
          >>> data.information(BTL(), jnp.zeros(2)).tolist()
          [[1.0, -1.0], [-1.0, 1.0]]
        """
        weight = self.wins * link.curvature(_gaps(scores))
        weight = weight + weight.T
        return jnp.diag(jnp.sum(weight, axis=1)) - weight


def _gaps(scores: Scores) -> Float[Array, "K K"]:
    """Score of the row's item minus score of the column's item."""
    return scores[:, None] - scores[None]


def balanced(vector: Scores, prior: Float[Array, ""]) -> Scores:
    """Subtract the mean if there is no prior.

    Without a prior a constant added to all scores changes no probability, so steps must not contain one.

    Args:
      vector: one number per item (K,).
      prior: precision of the prior; above 0, it determines the constant.

    Returns:
      The vector, with mean 0 if the prior is 0.

    Example:
      >>> from jaxrank.fitting.win_matrix import balanced
      >>> balanced(jnp.array([1.0, 3.0]), jnp.zeros(())).tolist()
      [-1.0, 1.0]
    """
    return vector - jnp.where(prior > 0, 0, jnp.mean(vector))
