"""Items that meet in duels. The Borda reduction lives here, and only here.

A question without a named opponent is a duel with a uniformly random other item, and its outcome is credited to
the item asked about, never to the opponent. So its mean is the item's Borda score, p_i = sum over j != i of
P(i beats j) / (K - 1), whatever was asked before. Crediting the opponent as well would bias its mean: whom an item
meets as an opponent depends on what the algorithm chose to ask.
"""

from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt
from numpy.typing import ArrayLike

from jaxrank.core import checks
from jaxrank.core.batch_axis import expand_items, gather
from jaxrank.core.prng import bits
from jaxrank.core.protocol import ANYONE, Number, Query
from jaxrank.core.pytrees import leaf, pytree_dataclass, static
from jaxrank.stats.links import LINKS

MAX_SCORE = 1e6
"""Largest size of a score: gaps beyond a few hundred are certain wins already."""


class _Meetings:
    """Duels of any kind, given the probability that one item beats another."""

    batched: ClassVar[bool] = True
    answers_pairs = True

    @property
    def num_items(self) -> int:
        """How many items there are, K."""
        raise NotImplementedError

    @property
    def _row_length(self) -> int:
        """The number of items where a trailing axis, if any, is the trial axis."""
        return jnp.shape(jax.tree.leaves(self)[0])[0]

    def win_probability(self, item: Int[Array, "B *T"], opponent: Int[Array, "B *T"]) -> Float[Array, "B *T"]:
        """Probability that each item beats its opponent."""
        raise NotImplementedError

    @property
    def means(self) -> Float[Array, "K"]:
        """Exact Borda scores, row by row so that no K x K matrix need exist."""
        everyone = jnp.arange(self.num_items)

        def score(item):
            wins = self.win_probability(jnp.broadcast_to(item, everyone.shape), everyone)
            return jnp.sum(jnp.where(everyone == item, 0, wins)) / (self.num_items - 1)

        return jax.lax.map(score, everyone, batch_size=64)

    def draw(self, key: Key[Array, "*T"], query: Query) -> Float[Array, "B *T"]:
        """See `Environment`: 1 if the item wins, else 0.

        One random word decides both who the opponent is and who wins: scaled to [0, K-1), its whole part picks
        one of the others and its fraction, uniform given the whole part, is compared with the win probability.
        """
        place, chance = _scaled(bits(key, query.item.shape[0]), self._row_length - 1)
        place = place.astype(query.item.dtype)
        someone = jnp.where(place < query.item, place, place + 1)
        opponent = jnp.where(query.opponent == ANYONE, someone, query.opponent)
        probability = self.win_probability(query.item, opponent)
        return (chance.astype(probability.dtype) < probability).astype(probability.dtype)


def _scaled(word: UInt[Array, "B *T"], count: int) -> tuple[UInt[Array, "B *T"], Float[Array, "B *T"]]:
    """Whole part and fraction of word * count / 2^32, by 16-bit halves: a 64-bit product need not exist.

    The fraction keeps 32 bits, of which about log2(count) are fixed by the whole part, so a probability is off by
    at most count / 2^32.
    """
    low, high = word & 0xFFFF, word >> 16
    count_low, count_high = jnp.uint32(count & 0xFFFF), jnp.uint32(count >> 16)
    middle = high * count_low + ((low * count_low) >> 16)
    middle_low = (middle & 0xFFFF) + low * count_high
    whole = high * count_high + (middle >> 16) + (middle_low >> 16)
    fraction = word * jnp.uint32(count)
    return whole, (fraction >> 8).astype(jnp.float32) * jnp.float32(2**-24)


@pytree_dataclass
class Duels(_Meetings):
    """Duels by a preference matrix.

    A question without a named opponent is a duel with a uniformly random other item, so an item's mean reward is its
    Borda score: the chance that it beats a random other item.

    Args:
      probabilities: entry (i, j) is the probability that item i beats item j, shape (K, K); entries (i, j) and (j, i)
        add up to 1, and the diagonal is not looked at. A leading axis is an instance axis.

    Example:
      >>> duels = jr.Duels(probabilities=[[0.5, 0.8, 0.9], [0.2, 0.5, 0.7], [0.1, 0.3, 0.5]])
      >>> [round(float(mean), 2) for mean in duels.means]
      [0.85, 0.45, 0.2]
    """

    probabilities: Float[ArrayLike, "*I K K"] = leaf(2)

    @property
    def num_items(self) -> int:
        """How many items there are."""
        return np.shape(self.probabilities)[-1]

    def win_probability(self, item: Int[Array, "B *T"], opponent: Int[Array, "B *T"]) -> Float[Array, "B *T"]:
        """The matrix entry."""
        return gather(jnp.asarray(self.probabilities, float), item, opponent)

    def check(self) -> None:
        """A K x K matrix of probabilities with P_ij + P_ji = 1; the diagonal is not looked at."""
        shape = np.shape(self.probabilities)
        square = 2 <= len(shape) <= 3 and shape[-1] == shape[-2]
        checks.require(square, "probabilities", "must be a K x K matrix (or a stack of such)", f"shape {shape}")
        checks.require(shape[-1] >= 2, "probabilities", "must name at least two items", shape[-1])
        checks.inside("probabilities", self.probabilities, 0, 1)
        matrix = checks.concrete(self.probabilities)
        if matrix is None:
            return
        excess = abs(matrix + matrix.swapaxes(-1, -2) - 1)
        excess[..., range(shape[-1]), range(shape[-1])] = 0
        if excess.max() > 1e-4:
            *_, i, j = (int(index) for index in jnp.unravel_index(excess.argmax(), excess.shape))
            pair = f"P[{i}, {j}] + P[{j}, {i}] = {1 + excess.max():g} or {1 - excess.max():g}"
            checks.fail("probabilities", "must have P[i, j] + P[j, i] = 1", pair)

    @staticmethod
    def btl(scores: Float[ArrayLike, "*I K"]) -> "ScoredDuels":
        """Duels by the Bradley-Terry-Luce model: P(i beats j) = 1 / (1 + exp(s_j - s_i)).

        Args:
          scores: one number per item, shape (K,); a leading axis is an instance axis.

        Returns:
          The environment.

        Example:
          >>> [round(float(mean), 3) for mean in jr.Duels.btl([1.0, 0.0]).means]
          [0.731, 0.269]
        """
        return ScoredDuels(scores=scores, model="btl")

    @staticmethod
    def thurstone(scores: Float[ArrayLike, "*I K"], sigma: Number = 1.0) -> "ScoredDuels":
        """Duels by Thurstone's model, case V: P(i beats j) = Phi((s_i - s_j) / (sqrt(2) sigma)).

        Args:
          scores: one number per item, shape (K,); a leading axis is an instance axis.
          sigma: standard deviation of every item's noise.

        Returns:
          The environment.

        Example:
          >>> [round(float(mean), 3) for mean in jr.Duels.thurstone([1.0, 0.0], sigma=2.0).means]
          [0.638, 0.362]
        """
        return ScoredDuels(scores=scores, noise=sigma, model="thurstone")

    @staticmethod
    def noisy_permutation(order: Int[ArrayLike, "K"], error: Number) -> "ScoredDuels":
        """Duels in which the better item of a pair wins with the same probability, whatever the pair.

        Args:
          order: all items, best first, shape (K,).
          error: probability that the worse item wins.

        Returns:
          The environment.

        Example:
          >>> [round(float(mean), 2) for mean in jr.Duels.noisy_permutation([1, 0], error=0.2).means]
          [0.2, 0.8]
        """
        listed = checks.concrete(order)
        if listed is not None:
            good = listed.ndim == 1 and sorted(listed.tolist()) == list(range(listed.size))
            checks.require(good, "order", "must list every item from 0 to K-1 once, best first", listed.tolist())
        standing = -jnp.argsort(jnp.asarray(order)).astype(float)
        return ScoredDuels(scores=standing, noise=error, model="noisy_permutation")


@pytree_dataclass
class ScoredDuels(_Meetings):
    """Duels by one score per item: memory grows with K, not with K^2.

    Made by `Duels.btl`, `Duels.thurstone` and `Duels.noisy_permutation`.

    Args:
      scores: one number per item, shape (K,); a leading axis is an instance axis.
      noise: what the scores' differences are divided by; for "noisy_permutation", the probability of an error.
      model: how a difference of scores turns into a probability: "btl", "thurstone" or "noisy_permutation".

    Example:
      >>> duels = jr.Duels.btl([1.0, 0.0])
      >>> duels.model, duels.num_items
      ('btl', 2)
    """

    scores: Float[ArrayLike, "*I K"] = leaf(1)
    noise: Number = leaf(0, default=1.0)
    model: Literal["btl", "thurstone", "noisy_permutation"] = static(default="btl")

    @property
    def num_items(self) -> int:
        """How many items there are."""
        return np.shape(self.scores)[-1]

    def win_probability(self, item: Int[Array, "B *T"], opponent: Int[Array, "B *T"]) -> Float[Array, "B *T"]:
        """The model's link of the two scores."""
        scores = jnp.asarray(self.scores, float)
        gap, noise = gather(scores, item) - gather(scores, opponent), expand_items(jnp.asarray(self.noise, float))
        if self.model in LINKS:
            return LINKS[self.model].probability(gap / noise)
        return jnp.where(gap > 0, 1 - noise, jnp.where(gap < 0, noise, 0.5))

    def check(self) -> None:
        """Finite scores of at least two items; a noise that the model allows."""
        shape = np.shape(self.scores)
        checks.require(1 <= len(shape) <= 2, "scores", "must be one number per item (or a stack of such)", shape)
        checks.require(shape[-1] >= 2, "scores", "must name at least two items", shape[-1])
        checks.inside("scores", self.scores, -MAX_SCORE, MAX_SCORE)
        if self.model == "thurstone":
            checks.positive("sigma", self.noise)
        if self.model == "noisy_permutation":
            checks.inside("error", self.noise, 0, 1)


def borda_scores(probabilities: Float[ArrayLike, "K K"]) -> Float[Array, "K"]:
    """Exact Borda scores of a preference matrix: each item's chance to beat a random other item.

    Args:
      probabilities: entry (i, j) is the probability that item i beats item j, shape (K, K).

    Returns:
      One number per item, shape (K,).

    Example:
      >>> scores = jr.borda_scores([[0.5, 0.8, 0.9], [0.2, 0.5, 0.7], [0.1, 0.3, 0.5]])
      >>> [round(float(score), 2) for score in scores]
      [0.85, 0.45, 0.2]
    """
    duels = Duels(probabilities=probabilities)
    duels.check()
    return duels.means
