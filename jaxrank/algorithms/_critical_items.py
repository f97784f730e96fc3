"""What LUCBRank, EvidenceRank and GapRank share: they sample the two critical items of every unsettled boundary."""

from typing import Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from jaxrank.core import checks, ranks
from jaxrank.core.batch_axis import row_indices
from jaxrank.core.protocol import ANYONE, Algorithm, Number, Query, State
from jaxrank.core.pytrees import leaf, pytree_dataclass, static
from jaxrank.core.tally import Tally
from jaxrank.stats.families import Bernoulli, Family
from jaxrank.stats.sequences import ConfidenceSequence, Design, ExplorationRate
from jaxrank.stats.tracked_bounds import Bounds, bisected_bounds, tracked_bounds

PAPERS_RATE = ExplorationRate()


@runtime_checkable
class CriticalState(State, Protocol):
    """What the state of such an algorithm has; `rounds` is 0 until every item was sampled once."""

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


Items = Int[Array, "n *T"]
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
        item = state.critical.reshape(-1, *state.rounds.shape)
        return self.questions(state, item, jnp.repeat(state.active, 2, axis=0))

    def questions(self, state: S, item: Items, mask: Bool[Array, "n *T"]) -> Query:
        """Questions about these items; before the first round, about items never sampled."""
        rounds, pulls = state.rounds, state.tally.pulls
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

    def check(self) -> None:
        """See `Algorithm`."""
        checks.risk("delta", self.delta)
        checks.nonnegative("epsilon", self.epsilon)
        rule = "must be a reward family such as jaxrank.Bernoulli(): a subclass of jaxrank.Family"
        checks.require(isinstance(self.family, Family), "family", rule, type(self.family).__name__)
        self.family.check()

    def done(self, state: S) -> Bool[Array, "*T"]:
        """All boundaries are settled."""
        return (state.rounds > 0) & ~jnp.any(state.active, axis=0)

    def order(self, state: S) -> Int[Array, "K *T"]:
        """By empirical means."""
        return ranks.order_of(ranks.ranks(state.tally.means, state.priority))


@pytree_dataclass
class ByConfidenceBounds(CriticalItems[S]):
    """What those have in common that decide by confidence bounds."""

    confidence: ConfidenceSequence = PAPERS_RATE

    @property
    def design(self) -> Design:
        """What the confidence sequence needs to know of the sampling rule."""
        raise NotImplementedError

    @property
    def takes_any_questions(self) -> bool:
        """If the confidence bounds hold under any sampling rule, as `Mixture` does and the paper's rate does not."""
        return self.confidence.any_sampling_rule

    def check(self) -> None:
        """See `Algorithm`."""
        super().check()
        self.confidence.check(self.design, self.family)

    def threshold(self, answers: Tally, rounds: Int[Array, "*T"]) -> Float[Array, "#K *T"]:
        """The threshold of all confidence bounds after these answers."""
        means, delta = answers.means, jnp.asarray(self.delta, answers.sums.dtype)
        return self.confidence.threshold(
            means=means, pulls=answers.pulls, rounds=rounds, delta=delta, design=self.design
        )

    def bounds_by_bisection(self, answers: Tally, rounds: Int[Array, "*T"]) -> Bounds:
        """The confidence bounds of all items, from their answers alone."""
        return bisected_bounds(answers.means, answers.pulls, self.threshold(answers, rounds), self.family)

    def next_bounds(
        self, before: Bounds, answers: Tally, rounds: Int[Array, "*T"], asked: Bool[Array, "*T"], changed: Items
    ) -> Bounds:
        """The same, started from the bounds before; only changed items have new answers, if anything was asked."""
        threshold = self.threshold(answers, rounds)
        large = self.takes_any_questions or not self.design.single_pulls
        # An item that is critical at several boundaries has an answer for each.
        num_parts = 1 if large or self.sample_once else self.design.num_boundaries
        bounds = tracked_bounds(before, answers.means, answers.pulls, threshold, self.family, changed, num_parts, large)
        return jax.tree.map(lambda new, old: jnp.where(asked[None], new, old), bounds, before)
