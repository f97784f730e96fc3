"""Whether comparisons determine scores: who never met, never won, never lost."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components


class Connectivity(NamedTuple):
    """How the items hang together; scores exist if and only if there is one strong group (Ford 1957).

    Two items are in one strong group if each beat the other, directly or through a chain of wins.
    """

    never_compared: list[int]
    never_won: list[int]
    """Compared, but without a win; likewise `never_lost`."""
    never_lost: list[int]
    groups: list[list[int]]
    """Items that are linked by comparisons at all, largest group first; items never compared are left out."""
    strong_groups: list[list[int]]
    """Items linked by wins in both directions, largest first."""

    @property
    def scores_exist(self) -> bool:
        """Whether the maximum-likelihood scores are finite and unique."""
        return not self.never_compared and len(self.strong_groups) == 1

    def explain(self, labels: Sequence[str]) -> str:
        """What is missing, with the items' names; empty if nothing is."""
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
    names = ", ".join(repr(labels[item]) for item in items[:most])
    return names if len(items) <= most else f"{names} and {len(items) - most} more"


def connectivity(winners: np.ndarray, losers: np.ndarray, num_items: int) -> Connectivity:
    """The report for these wins."""
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


def is_strong(winners: np.ndarray, losers: np.ndarray, num_items: int) -> bool:
    """Whether wins lead from every item to every other: the same as `connectivity(...).scores_exist`."""
    graph = _graph(winners, losers, num_items)
    return connected_components(graph, directed=True, connection="strong", return_labels=False) == 1


def is_strong_table(wins: np.ndarray) -> bool:
    """`is_strong`, from a K x K matrix of wins."""
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


def is_close(winners: np.ndarray, losers: np.ndarray, num_items: int) -> bool:
    """Whether a few wins lead from every item to every other, by way of item 0: faster than `is_strong`, and more."""
    return _reaches_all(winners, losers, num_items) and _reaches_all(losers, winners, num_items)


def _reaches_all(source: np.ndarray, target: np.ndarray, num_items: int, passes: int = 8) -> bool:
    """Whether a few passes over the rows lead from item 0 to all others."""
    reached = np.zeros(num_items, bool)
    reached[0] = True
    # A part of the rows reaches nearly all items; of the rest, only rows that lead to the others are looked at.
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


def degrees(winners: np.ndarray, losers: np.ndarray, num_items: int) -> np.ndarray:
    """How many different items every item has met."""
    graph = _graph(winners, losers, num_items)
    return np.diff((graph + graph.T).tocsr().indptr)


def _graph(winners: np.ndarray, losers: np.ndarray, num_items: int) -> csr_array:
    """Every pair once: SciPy's search for strong components never ends on a graph with repeated entries."""
    return csr_array((np.ones(len(winners)), (winners, losers)), shape=(num_items, num_items))
