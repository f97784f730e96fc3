"""The protocol every ranking algorithm and every environment speaks."""

from typing import Any, NamedTuple, Protocol, TypeVar

from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, Key

ANYONE = -1
"""As an opponent: a plain pull, or a duel with a uniformly random other item."""


Number = Float[Array, ""] | float
"""A setting such as delta: one number, or one per instance with a leading axis."""


class Query(NamedTuple):
    """A padded batch of questions; masked entries are not asked."""

    item: Int[Array, "B"]
    opponent: Int[Array, "B"]
    mask: Bool[Array, "B"]


class State(Protocol):
    """What `run` and `simulate` read from an algorithm's state besides `done` and `order`."""

    @property
    def rounds(self) -> Int[Array, ""]:
        """Rounds so far, as the algorithm counts them."""
        ...

    @property
    def tally(self) -> Any:
        """The `jaxrank.core.tally.Tally` of all answers so far."""
        ...


S = TypeVar("S", bound=State)


class Algorithm(Protocol[S]):
    """A ranking algorithm as a pure machine: init, then ask and tell until done; order at any time.

    `tell` computes whatever `ask` and `done` read, so that both are cheap. A query without any unmasked
    entry must leave the state as it is: that is how a finished lane of a batch stands still. Shapes here are those of
    a single trial; every method takes a batch as well, with one trailing axis on all arrays and keys of shape (T,).

    An algorithm whose `order` is costly may also have `remember(state) -> state`, which keeps what the next `order` can
    start from. It is called between rounds where an order is taken, and changes neither questions nor answers. One that
    chooses the boundaries itself has `found(state)`, which gives them.
    """

    asks_pairs: bool

    @property
    def num_items(self) -> int:
        """How many items there are."""
        ...

    def init(self, key: Key[Array, ""]) -> S:
        """The state before any answer; the key breaks ties at random, once per trial."""
        ...

    def ask(self, key: Key[Array, ""], state: S) -> Query:
        """The questions of the next round, in a batch of static width."""
        ...

    def tell(self, state: S, query: Query, reward: Float[Array, "B"]) -> S:
        """The state after the answers to `query`, which is what `ask` gave, perhaps with more of it masked."""
        ...

    def done(self, state: S) -> Bool[Array, ""]:
        """Whether the guarantee is reached."""
        ...

    def order(self, state: S) -> Int[Array, "K"]:
        """All items, best first, as far as is known."""
        ...

    def check(self) -> None:
        """Raise `ValueError` on a bad setting; traced values are not looked at."""
        ...

    def check_stops(self, means: Float[ArrayLike, "K"]) -> None:
        """Raise `ValueError` if the algorithm could never stop on items with these true means."""
        ...


class Environment(Protocol):
    """Whoever answers the questions."""

    answers_pairs: bool

    @property
    def num_items(self) -> int:
        """How many items there are."""
        ...

    @property
    def means(self) -> Float[ArrayLike, "K"]:
        """True mean reward of every item: the quantity that a ranking ranks by."""
        ...

    def draw(self, key: Key[Array, ""], query: Query) -> Float[Array, "B"]:
        """One reward per question, credited to its item."""
        ...

    def check(self) -> None:
        """Raise `ValueError` on a bad setting; traced values are not looked at."""
        ...
