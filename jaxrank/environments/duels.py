"""Items that meet in duels. The Borda reduction lives here, and only here.

A question without a named opponent is a duel with a uniformly random other item, and its outcome is credited to
the item asked about, never to the opponent. So its mean is the item's Borda score, p_i = sum over j != i of
P(i beats j) / (K - 1), whatever was asked before. Crediting the opponent as well would not be: whom an item meets
as an opponent depends on what the algorithm chose to ask.
"""

from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from jaxrank.core import checks
from jaxrank.core.batch_axis import expand_items, gather
from jaxrank.core.prng import bits
from jaxrank.core.protocol import ANYONE
from jaxrank.core.pytrees import leaf, pytree_dataclass, static
from jaxrank.stats.links import LINKS

MOST = 1e6
"""Largest size of a score: gaps beyond a few hundred are certain wins already."""


class _Meetings:
    """Duels of any kind, given the probability that one item beats another."""

    batched: ClassVar[bool] = True
    answers_pairs = True

    @property
    def num_items(self) -> int:
        raise NotImplementedError

    @property
    def _row_length(self) -> int:
        """The number of items where a trailing axis, if any, is the trial axis."""
        return jnp.shape(jax.tree.leaves(self)[0])[0]

    def win_probability(self, item: Int[Array, "..."], opponent: Int[Array, "..."]) -> Float[Array, "..."]:
        raise NotImplementedError

    @property
    def means(self) -> Float[Array, "K"]:
        """Exact Borda scores, row by row so that no K x K matrix need exist."""
        everyone = jnp.arange(self.num_items)

        def score(item):
            wins = self.win_probability(jnp.broadcast_to(item, everyone.shape), everyone)
            return jnp.sum(jnp.where(everyone == item, 0, wins)) / (self.num_items - 1)

        return jax.lax.map(score, everyone, batch_size=64)

    def draw(self, key, query):
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


def _scaled(word, count: int):
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
    """Duels by a preference matrix: `probabilities[i, j]` is the probability that item i beats item j."""

    probabilities: Float[ArrayLike, "K K"] = leaf(2)

    @property
    def num_items(self) -> int:
        """How many items there are."""
        return jnp.shape(self.probabilities)[-1]

    def win_probability(self, item, opponent):
        """The matrix entry."""
        return gather(jnp.asarray(self.probabilities, float), item, opponent)

    def check(self) -> None:
        """A K x K matrix of probabilities with P_ij + P_ji = 1; the diagonal is not looked at."""
        shape = jnp.shape(self.probabilities)
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
    def btl(scores: Float[ArrayLike, "K"]) -> "ScoredDuels":
        """Bradley-Terry-Luce: P(i beats j) = 1 / (1 + exp(s_j - s_i))."""
        return ScoredDuels(scores=scores, model="btl")

    @staticmethod
    def thurstone(scores: Float[ArrayLike, "K"], sigma: Float[Array, ""] | float = 1.0) -> "ScoredDuels":
        """Thurstone (case V): P(i beats j) = Phi((s_i - s_j) / (sqrt(2) sigma))."""
        return ScoredDuels(scores=scores, noise=sigma, model="thurstone")

    @staticmethod
    def noisy_permutation(order: Int[ArrayLike, "K"], error: Float[Array, ""] | float) -> "ScoredDuels":
        """The better item of a pair, by `order` (best first), wins with probability 1 - error."""
        listed = checks.concrete(order)
        if listed is not None:
            good = listed.ndim == 1 and sorted(listed.tolist()) == list(range(listed.size))
            checks.require(good, "order", "must list every item from 0 to K-1 once, best first", listed.tolist())
        standing = -jnp.argsort(jnp.asarray(order)).astype(float)
        return ScoredDuels(scores=standing, noise=error, model="noisy_permutation")


@pytree_dataclass
class ScoredDuels(_Meetings):
    """Duels by one score per item: memory grows with K, not with K^2. Made by `Duels.btl` and its sisters."""

    scores: Float[ArrayLike, "K"] = leaf(1)
    noise: Float[Array, ""] | float = leaf(0, default=1.0)
    model: Literal["btl", "thurstone", "noisy_permutation"] = static(default="btl")

    @property
    def num_items(self) -> int:
        """How many items there are."""
        return jnp.shape(self.scores)[-1]

    def win_probability(self, item, opponent):
        """The model's link of the two scores."""
        scores = jnp.asarray(self.scores, float)
        gap, noise = gather(scores, item) - gather(scores, opponent), expand_items(jnp.asarray(self.noise, float))
        if self.model in LINKS:
            return LINKS[self.model].probability(gap / noise)
        return jnp.where(gap > 0, 1 - noise, jnp.where(gap < 0, noise, 0.5))

    def check(self) -> None:
        """Finite scores of at least two items; a noise that the model allows."""
        shape = jnp.shape(self.scores)
        checks.require(1 <= len(shape) <= 2, "scores", "must be one number per item (or a stack of such)", shape)
        checks.require(shape[-1] >= 2, "scores", "must name at least two items", shape[-1])
        checks.inside("scores", self.scores, -MOST, MOST)
        if self.model == "thurstone":
            checks.positive("sigma", self.noise)
        if self.model == "noisy_permutation":
            checks.inside("error", self.noise, 0, 1)


def borda_scores(probabilities: Float[ArrayLike, "K K"]) -> Float[Array, "K"]:
    """Exact Borda scores of a preference matrix."""
    duels = Duels(probabilities=probabilities)
    duels.check()
    return duels.means
