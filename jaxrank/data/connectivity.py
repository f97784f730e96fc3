"""Whether comparisons determine scores: which items never met, never won or never lost."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components


class Connectivity(NamedTuple):
    """How comparisons link the items.

    Two items are in one group (a connected component) if a chain of comparisons links them, and in one strong group (a
    strongly connected component) if chains of wins lead both ways, from each to the other. Maximum-likelihood scores
    exist, and are unique up to a constant, if and only if all items are in one strong group (Ford 1957).

    Attributes:
      never_compared: items without any answer.
      never_won: items that were compared and won nothing.
      never_lost: items that were compared and lost nothing.
      groups: items of every group, largest group first; items never compared are in none.
      strong_groups: the same for strong groups.

    Example:
      >>> report = jr.Comparisons.from_pairs([0, 1, 1], [1, 0, 2]).connectivity()
      >>> report.groups, report.strong_groups, report.never_won
      ([[0, 1, 2]], [[0, 1], [2]], [2])
    """

    never_compared: list[int]
    never_won: list[int]
    never_lost: list[int]
    groups: list[list[int]]
    strong_groups: list[list[int]]

    @property
    def scores_exist(self) -> bool:
        """Whether the maximum-likelihood scores are finite, and unique up to a constant."""
        return not self.never_compared and len(self.strong_groups) == 1

    def explain(self, labels: Sequence[str]) -> str:
        """Say in words why scores do not exist.

        Args:
          labels: one label per item.

        Returns:
          A sentence that names the items; an empty string if scores exist.

        Example:
          >>> jr.Comparisons.from_pairs([0, 1, 1], [1, 0, 2]).connectivity().explain(["a", "b", "c"])
          "'c' never won"
        """
        parts = []
        if self.never_compared:
            verb = "was" if len(self.never_compared) == 1 else "were"
            parts.append(f"{_named(self.never_compared, labels)} {verb} never compared")
        for items, what in ((self.never_lost, "never lost"), (self.never_won, "never won")):
            if items:
                parts.append(f"{_named(items, labels)} {what}")
        if len(self.groups) > 1:
            names = " and ".join(_named(group, labels) for group in self.groups[:3])
            parts.append(f"{len(self.groups)} groups never met: {names}")
        if not parts and len(self.strong_groups) > 1:
            names = " and ".join(_named(group, labels) for group in self.strong_groups[:3])
            parts.append(f"{len(self.strong_groups)} groups met, but one won every time: {names}")
        return "; ".join(parts)


def _named(items: Sequence[int], labels: Sequence[str], most: int = 5) -> str:
    """A few of the items by name, so that a message about thousands stays readable."""
    names = ", ".join(repr(labels[item]) for item in items[:most])
    return names if len(items) <= most else f"{names} and {len(items) - most} more"


def connectivity(winners: Int[np.ndarray, "R"], losers: Int[np.ndarray, "R"], num_items: int) -> Connectivity:
    """Report which items were never compared, never won, never lost, and which groups never met.

    Args:
      winners: item that won each of the R answers.
      losers: item that lost each answer.
      num_items: number of items K.

    Returns:
      The report, with items as numbers from 0.

    Example:
      >>> from jaxrank.data.connectivity import connectivity
      >>> report = connectivity(np.array([0, 1]), np.array([1, 0]), num_items=3)
      >>> report.never_compared, report.scores_exist
      ([2], False)
    """
    won, lost = (np.bincount(items, minlength=num_items) > 0 for items in (winners, losers))
    graph = _graph(winners, losers, num_items)

    def components(kind: str) -> list[list[int]]:
        count, label = connected_components(graph, directed=True, connection=kind)
        parts = np.split(np.argsort(label, kind="stable"), np.cumsum(np.bincount(label, minlength=count))[:-1])
        met = [part.tolist() for part in parts if (won | lost)[part].any()]
        return sorted(met, key=lambda part: (-len(part), part[0]))

    return Connectivity(
        never_compared=np.flatnonzero(~won & ~lost).tolist(),
        never_won=np.flatnonzero(lost & ~won).tolist(),
        never_lost=np.flatnonzero(won & ~lost).tolist(),
        groups=components("weak"),
        strong_groups=components("strong"),
    )


def is_strong(winners: Int[np.ndarray, "R"], losers: Int[np.ndarray, "R"], num_items: int) -> bool:
    """Decide whether chains of wins lead from every item to every other.

    For two or more items, the same as `connectivity(winners, losers, num_items).scores_exist`, without the report.

    Args:
      winners: item that won each of the R answers.
      losers: item that lost each answer.
      num_items: number of items K.

    Returns:
      True if all items are in one strong group.

    Example:
      >>> from jaxrank.data.connectivity import is_strong
      >>> is_strong(np.array([0, 1, 2]), np.array([1, 2, 0]), num_items=3)
      True
    """
    graph = _graph(winners, losers, num_items)
    return connected_components(graph, directed=True, connection="strong", return_labels=False) == 1


def is_strong_table(wins: Float[np.ndarray, "K K"]) -> bool:
    """Decide the same as `is_strong`, from a matrix of wins.

    Args:
      wins: entry (i, j) is how often item i beat item j.

    Returns:
      True if chains of wins lead from every item to every other.

    Example:
      >>> from jaxrank.data.connectivity import is_strong_table
      >>> is_strong_table(np.array([[0.0, 3.0], [1.0, 0.0]])), is_strong_table(np.array([[0.0, 3.0], [0.0, 0.0]]))
      (True, False)
    """
    won = wins > 0
    for edges in (won, won.T):
        reached = edges[0] | (np.arange(len(wins)) == 0)
        before = 0
        while before < (count := np.count_nonzero(reached)) < len(wins):
            before = count
            reached = reached | edges[reached].any(axis=0)
        if count < len(wins):
            return False
    return True


def has_short_chains(winners: Int[np.ndarray, "R"], losers: Int[np.ndarray, "R"], num_items: int) -> bool:
    """Decide whether short chains of wins lead from item 0 to all items and back.

    Faster than `is_strong`, and a stronger property: True implies `is_strong`, False implies nothing. First-order
    methods are slow where only long chains link the items, so `fit_btl` starts with Newton's method there.

    Args:
      winners: item that won each of the R answers.
      losers: item that lost each answer.
      num_items: number of items K, at least 1.

    Returns:
      True if a few passes over the answers reach every item in both directions.

    Example:
      >>> from jaxrank.data.connectivity import has_short_chains
      >>> ladder = np.arange(99)
      >>> ends = np.r_[ladder, ladder + 1], np.r_[ladder + 1, ladder]
      >>> has_short_chains(*ends, 100), has_short_chains(np.array([0, 1]), np.array([1, 0]), 2)
      (False, True)
    """
    return _reaches_all(winners, losers, num_items) and _reaches_all(losers, winners, num_items)


def _reaches_all(source: Int[np.ndarray, "R"], target: Int[np.ndarray, "R"], num_items: int, passes: int = 8) -> bool:
    """Whether a few passes over the rows lead from item 0 to all others."""
    reached = np.zeros(num_items, bool)
    reached[0] = True
    # A sample of the rows reaches nearly all items. After it, only rows that lead to the remaining ones matter.
    stride = max(len(source) // (5 * num_items), 1)
    for whole in (False, True):
        some = np.flatnonzero(~reached.take(target)) if whole else slice(None, None, stride)
        start, end = source[some], target[some]
        for _ in range(passes):
            before = np.count_nonzero(reached)
            reached[end[reached.take(start)]] = True
            if np.count_nonzero(reached) in (before, num_items):
                break
        if not whole and np.count_nonzero(reached) < num_items / 2:
            return False
    return bool(reached.all())


def degrees(winners: Int[np.ndarray, "R"], losers: Int[np.ndarray, "R"], num_items: int) -> Int[np.ndarray, "K"]:
    """Count how many different items every item has met.

    Args:
      winners: item that won each of the R answers.
      losers: item that lost each answer.
      num_items: number of items K.

    Returns:
      Degree of every item in the comparison graph, (K,).

    Example:
      >>> from jaxrank.data.connectivity import degrees
      >>> degrees(np.array([0, 0, 1]), np.array([1, 2, 0]), num_items=4).tolist()
      [2, 1, 1, 0]
    """
    graph = _graph(winners, losers, num_items)
    return np.diff((graph + graph.T).tocsr().indptr)


def _graph(winners: Int[np.ndarray, "R"], losers: Int[np.ndarray, "R"], num_items: int) -> csr_array:
    """Every pair once: SciPy's search for strong components never ends on a graph with repeated entries."""
    return csr_array((np.ones(len(winners)), (winners, losers)), shape=(num_items, num_items))
