"""The protocol every ranking algorithm and every environment speaks."""

import functools
import inspect
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key
from numpy.typing import ArrayLike

from jaxrank.core import checks
from jaxrank.core.compiled import compiled

ANYONE = -1
"""As an opponent: a plain pull, or a duel with a uniformly random other item."""


Number = Float[Array, "*I"] | Float[np.ndarray, "*I"] | float
"""A setting such as delta: one number, or one per instance with a leading axis."""


class Query(NamedTuple):
    """A padded batch of questions; masked entries are not asked.

    Attributes:
      item: the item that each question is about, shape (B,).
      opponent: the item it is compared with, shape (B,); `ANYONE` stands for a plain pull or, where the environment
        answers duels, for a uniformly random other item.
      mask: which of the B questions are asked, shape (B,).

    Example:
      >>> query = jr.Query(item=jnp.array([0, 2]), opponent=jnp.array([1, jr.ANYONE]), mask=jnp.array([True, False]))
      >>> int(query.mask.sum())
      1
    """

    item: Int[Array, "B *T"]
    opponent: Int[Array, "B *T"]
    mask: Bool[Array, "B *T"]


@runtime_checkable
class State(Protocol):
    """What `run` and `simulate` read from an algorithm's state."""

    @property
    def rounds(self) -> Int[Array, "*T"]:
        """Rounds so far, as the algorithm counts them."""
        ...

    @property
    def tally(self) -> Any:
        """The `Tally` of all answers so far."""
        ...


S = TypeVar("S", bound=State)

CALLED_BY_HAND = ("init", "ask", "tell", "with_tally", "done", "order", "prepare_order", "found_boundaries")
"""Methods of an algorithm that are compiled when they are called with numbers."""


@runtime_checkable
class Algorithm(Protocol[S]):
    """A ranking algorithm as a pure state machine: `init`, then `ask` and `tell` until `done`; `order` at any time.

    Subclass it, as a frozen dataclass made by `pytree_dataclass`, and define `init`, `ask`, `tell`, `done` and `order`;
    everything else has a default. `tell` computes what `ask` and `done` read, so that both are cheap. A query
    without any unmasked entry must leave the state unchanged: that is how a finished trial of a batch waits for the
    others. Shapes in this class are those of a single trial.

    Attributes:
      num_items: how many items there are, K.
      batched: whether the methods also take many trials at once, with one trailing axis on all arrays and keys of
        shape (T,). If not, `simulate` runs them under `jax.vmap`. The batched form is faster.

    Example:
      >>> @jr.pytree_dataclass
      ... class TenRounds(jr.Uniform):
      ...     def done(self, state):
      ...         return state.rounds >= 10
      >>> arms = jr.BernoulliArms(means=[0.9, 0.5, 0.1])
      >>> int(jr.run(jax.random.key(0), TenRounds(num_items=3), arms, max_samples=100).samples)
      30
    """

    num_items: int
    batched: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Called by hand, methods check what they are given and then run compiled code."""
        super().__init_subclass__(**kwargs)
        for name in CALLED_BY_HAND:
            if inspect.isfunction(method := vars(cls).get(name)):
                setattr(cls, name, _check_first(name, compiled(method)))

    @property
    def asks_pairs(self) -> bool:
        """Whether its questions name an opponent; the environment must then answer pairs."""
        return False

    @property
    def takes_any_questions(self) -> bool:
        """Whether `tell` takes answers to any questions, in any order and number, not only to those that `ask` gave.

        Where it does, the guarantee does not depend on who chose the questions, and `with_tally` is defined.
        """
        return False

    @abstractmethod
    def init(self, key: Key[Array, ""]) -> S:
        """The state before any answer; the key breaks ties at random, once per trial."""
        ...

    @abstractmethod
    def ask(self, key: Key[Array, ""], state: S) -> Query:
        """The questions of the next round, in a batch of static width."""
        ...

    @abstractmethod
    def tell(self, state: S, query: Query, reward: Float[Array, "B"]) -> S:
        """The state after the answers to `query`: what `ask` gave, perhaps with more of it masked.

        An algorithm with `takes_any_questions` takes queries of any width about any items.
        """
        ...

    @property
    def update_every(self) -> int:
        """Rounds between two updates that cost more than a round; 1 if every round costs the same.

        With n > 1, `tell` does its costly part only where `state.rounds` is a multiple of n before it is called, and
        equals `tell_between_updates` elsewhere. `simulate` then makes all trials of a batch update at the same time.
        """
        return 1

    def tell_between_updates(self, state: S, query: Query, reward: Float[Array, "B"]) -> S:
        """`tell` without its costly part; see `update_every`."""
        return self.tell(state, query, reward)

    @abstractmethod
    def done(self, state: S) -> Bool[Array, ""]:
        """Whether the guarantee is reached."""
        ...

    @abstractmethod
    def order(self, state: S) -> Int[Array, "K"]:
        """All items, best first, as far as is known."""
        ...

    def prepare_order(self, state: S) -> S:
        """The state with whatever makes the next `order` cheaper; called wherever an order is about to be taken.

        For algorithms whose `order` is costly, such as `ByLikelihood`, which keeps its last fit. It must change neither
        questions nor answers.
        """
        return state

    def found_boundaries(self, state: S) -> Int[Array, "C"]:
        """The boundaries, if the algorithm chooses them itself, as `GapRank` does; empty if they were given."""
        return jnp.zeros((0, *state.rounds.shape), int)

    def with_tally(self, state: S, tally: Any) -> S:
        """The state computed anew as if `tally` held all answers so far; what `state` has proven stays proven.

        For answers that were merged, loaded or collected elsewhere. Start from `init` where there is no state yet.
        """
        del state, tally
        raise TypeError(f"{type(self).__name__} takes only answers to its own questions")

    def check(self) -> None:
        """Raise `ValueError` on a bad setting; traced values are not looked at."""

    @property
    def reward_range(self) -> tuple[float, float]:
        """The smallest and the largest reward that it takes."""
        family = getattr(self, "family", None)
        if family is not None:
            return float(family.low), float(family.high)
        return (0.0, 1.0) if self.asks_pairs else (-np.inf, np.inf)

    def check_answers(self, query: Query, reward: Float[ArrayLike, "B *T"]) -> None:
        """Raise `ValueError` on an item that does not exist or an impossible reward; traced values pass."""
        asked = checks.concrete(query.mask)
        if asked is None:
            return
        for name, low in (("item", 0), ("opponent", ANYONE)):
            number = checks.concrete(getattr(query, name))
            if number is not None:
                checks.inside(name, number[asked], low, self.num_items - 1)
        answers = checks.concrete(reward)
        if answers is not None:
            rule = f"must have one number per question, shape {asked.shape}"
            checks.require(answers.shape == asked.shape, "reward", rule, f"shape {answers.shape}")
            checks.inside("reward", answers[asked], *self.reward_range)

    def check_stops(self, means: Float[ArrayLike, "K"]) -> None:
        """Raise `ValueError` if the algorithm could never stop on items with these true means."""
        del means


@runtime_checkable
class Environment(Protocol):
    """Whatever answers the questions: simulated arms, simulated duels, or one of your own.

    Subclass it, as a frozen dataclass made by `pytree_dataclass`, and define `num_items`, `means` and `draw`.

    Attributes:
      num_items: how many items there are, K.
      means: true mean reward of every item, shape (K,): the quantity that a ranking ranks by.
      batched: whether `draw` also takes many trials at once, with one trailing axis on the query's arrays and keys of
        shape (T,). If not, `simulate` runs it under `jax.vmap`.

    Example:
      >>> arms = jr.BernoulliArms(means=[0.9, 0.5, 0.1])
      >>> query = jr.Query(item=jnp.array([0, 2]), opponent=jnp.full(2, jr.ANYONE), mask=jnp.ones(2, bool))
      >>> arms.draw(jax.random.key(0), query).shape
      (2,)
    """

    batched: ClassVar[bool] = False

    @property
    def answers_pairs(self) -> bool:
        """Whether a question may name an opponent."""
        return False

    if TYPE_CHECKING:  # read-only attributes: a field in one class, a property in another

        @property
        def num_items(self) -> int: ...  # noqa: D102

        @property
        def means(self) -> Float[ArrayLike, "K"]: ...  # noqa: D102

    @abstractmethod
    def draw(self, key: Key[Array, ""], query: Query) -> Float[Array, "B"]:
        """One reward per question, credited to its item.

        Args:
          key: a key of this round; with `batched`, keys of shape (T,).
          query: the questions: `item`, `opponent` and `mask` of shape (B,), or (B, T).

        Returns:
          Rewards of the query's shape. What a masked question gets is not looked at.
        """
        ...

    def check(self) -> None:
        """Raise `ValueError` on a bad setting; traced values are not looked at."""


def _check_first(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, with a look at the settings before `init` and at the answers before `tell`."""

    @functools.wraps(method)
    def init(self: Any, key: Any) -> Any:
        require_pytree(self)
        self.check()
        return method(self, key)

    @functools.wraps(method)
    def tell(self: Any, state: Any, query: Any, reward: Any) -> Any:
        self.check_answers(query, reward)
        return method(self, state, query, reward)

    return {"init": init, "tell": tell}.get(name, method)


def require_pytree(thing: Any) -> None:
    """Refuse an object of a class that JAX takes for a single number."""
    if jax.tree_util.all_leaves([thing]):
        name = type(thing).__name__
        raise ValueError(f"{name} must be a pytree: write @jaxrank.pytree_dataclass above the class")
