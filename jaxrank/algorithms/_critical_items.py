"""What LUCBRank, EvidenceRank and GapRank share: they sample the two critical items of every unsettled boundary."""

from typing import Any, Protocol, TypeVar, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from jaxrank.core import checks, ranks
from jaxrank.core.batch_axis import row_indices
from jaxrank.core.protocol import ANYONE, Algorithm, Number, Query
from jaxrank.core.pytrees import leaf, pytree_dataclass, static
from jaxrank.core.tally import Tally
from jaxrank.stats.families import Bernoulli, Family
from jaxrank.stats.sequences import ConfidenceSequence, Design


@runtime_checkable
class CriticalState(Protocol):
    """What the state of such an algorithm has."""

    @property
    def rounds(self) -> Int[Array, "*T"]:
        """0 until every item was sampled once."""
        ...

    @property
    def tally(self) -> Tally:
        """All answers so far."""
        ...

    @property
    def priority(self) -> Int[Array, "K *T"]:
        """A random permutation that breaks ties."""
        ...

    @property
    def active(self) -> Bool[Array, "C *T"]:
        """Boundaries that are not settled."""
        ...

    @property
    def critical(self) -> Int[Array, "C 2 *T"]:
        """Two items for each boundary."""
        ...


S = TypeVar("S", bound=CriticalState)


@pytree_dataclass
class CriticalItems(Algorithm[S]):
    """Settings and methods that the algorithms of this kind have in common."""

    num_items: int = static(converter=checks.whole_number("num_items", low=2))
    delta: Number = leaf(0)
    epsilon: Number = leaf(0, default=0.0)
    family: Family = Bernoulli()
    sample_once: bool = static(default=False, converter=bool)
    pulls_per_item: int = static(default=1, converter=checks.whole_number("pulls_per_item", low=1))

    batched = True

    def ask(self, key: Key[Array, "*T"], state: S) -> Query:
        """Both critical items of every active boundary; before the first round, items never sampled."""
        del key
        rounds, pulls = state.rounds, state.tally.pulls
        item, mask = state.critical.reshape(-1, *rounds.shape), jnp.repeat(state.active, 2, axis=0)
        if self.sample_once:
            slot = row_indices(item.shape, item.dtype)
            taken = (item[:, None] == item[None]) & mask[:, None] & (slot[:, None] < slot[None])
            mask &= ~jnp.any(taken, axis=0)
        item, mask = (jnp.repeat(table, self.pulls_per_item, axis=0) for table in (item, mask))
        everyone = row_indices(pulls.shape, item.dtype)
        first = jnp.min(jnp.where(pulls == 0, everyone, self.num_items), axis=0)
        unsampled = first[None] + row_indices(item.shape, item.dtype)
        opening = (rounds == 0)[None]
        return Query(
            item=jnp.where(opening, jnp.minimum(unsampled, self.num_items - 1), item),
            opponent=jnp.full_like(item, ANYONE),
            mask=jnp.where(opening, unsampled < self.num_items, mask),
        )

    def count(
        self, state: S, query: Query, reward: Float[Array, "B *T"]
    ) -> tuple[Tally, Int[Array, "*T"], Bool[Array, "*T"]]:
        """The first part of every `tell`: all answers, the number of rounds, and whether anything was asked."""
        answers = state.tally.add(query, reward, self.family.low, self.family.high)
        asked = jnp.any(query.mask, axis=0)
        opening = jnp.any(answers.pulls == 0, axis=0)
        return answers, jnp.where(opening, 0, state.rounds + asked.astype(state.rounds.dtype)), asked

    def rounds_with(self, state: S, answers: Tally) -> Int[Array, "*T"]:
        """Rounds after the answers were replaced; boundaries are settled from the second round on."""
        opening = jnp.any(answers.pulls == 0, axis=0)
        return jnp.where(opening, 0, jnp.maximum(state.rounds, 2))

    def done(self, state: S) -> Bool[Array, "*T"]:
        """All boundaries are settled."""
        return (state.rounds > 0) & ~jnp.any(state.active, axis=0)

    def order(self, state: S) -> Int[Array, "K *T"]:
        """By empirical means."""
        return ranks.order_of(ranks.ranks(state.tally.means, state.priority))


def confidence_threshold(
    confidence: ConfidenceSequence, design: Design, delta: Number, answers: Tally, rounds: Int[Array, "*T"]
) -> Float[Array, "#K *T"]:
    """The threshold of all confidence bounds after these answers."""
    means: Any = answers.means
    return confidence.threshold(
        means=means, pulls=answers.pulls, rounds=rounds, delta=jnp.asarray(delta, means.dtype), design=design
    )
