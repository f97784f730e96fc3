"""Where to cut a ranking so that the gaps at the cuts are widest, within limits on the clusters.

Gaps are indexed by rank: entry k - 1 is the gap between the k-th best item and the next. The value of a clustering is
the average gap at its boundaries; for a fixed number of boundaries, maximising the sum is the same. The best one is
found by dynamic programming over the last boundary.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxrank.core import checks
from jaxrank.core.batch_axis import gather, row_indices
from jaxrank.stats.numerics import TIE


class Limits(NamedTuple):
    """Which clusterings are allowed; static."""

    num_items: int
    counts: tuple[int, ...]
    """Numbers of boundaries, increasing."""
    sizes: tuple[tuple[int, int], ...]
    """Smallest and largest size of each cluster, best first."""

    @property
    def most(self) -> int:
        """The largest number of boundaries."""
        return self.counts[-1]


class Clusters(NamedTuple):
    """A clustering and what it is worth."""

    value: Float[Array, "*T"]
    """Average gap at its boundaries; -inf if there is no such clustering."""
    boundaries: Int[Array, "C *T"]
    """Ranks after which a cluster ends, increasing, filled up with the number of items."""


Sizes = int | Sequence[int]


def limits(num_items: int, num_clusters: int | None, smallest: Sizes, largest: Sizes | None) -> Limits:
    """The checked limits: sizes hold for all clusters, or one for each of a given number, best first."""
    num_items = checks.whole("num_items", num_items, low=2)
    high = num_items if largest is None else largest
    if num_clusters is not None:
        num_clusters = checks.whole("num_clusters", num_clusters, low=2, high=num_items)
        counts = range(num_clusters - 1, num_clusters)
    elif isinstance(smallest, Sequence) or isinstance(high, Sequence):
        raise ValueError(f"num_clusters must be given with a size for each cluster, got {smallest} and {largest}")
    elif largest is None:
        # More boundaries than one only lower the average.
        counts = range(1, 2)
    else:
        least, most = checks.whole("smallest", smallest, low=1), checks.whole("largest", high, low=1)
        counts = range(max(1, -(-num_items // most) - 1), num_items // least)
    number = max(counts, default=1) + 1
    lows, highs = _each("smallest", smallest, number), _each("largest", high, number)
    feasible = [
        count
        for count in counts
        if all(a <= b for a, b in zip(lows, highs, strict=True))
        and sum(lows[: count + 1]) <= num_items <= sum(highs[: count + 1])
    ]
    what = "clusters of these sizes" if num_clusters is None else f"{num_clusters} clusters of these sizes"
    rule = f"must allow {what} for {num_items} items"
    checks.require(bool(feasible), "smallest and largest", rule, f"{smallest} and {largest}")
    return Limits(num_items, tuple(feasible), tuple(zip(lows, highs, strict=True))[: feasible[-1] + 1])


def _each(name: str, sizes: Sizes, number: int) -> tuple[int, ...]:
    """One checked size for each cluster."""
    if not isinstance(sizes, Sequence):
        return (checks.whole(name, sizes, low=1),) * number
    checked = tuple(checks.whole(name, size, low=1) for size in sizes)
    checks.require(len(checked) == number, name, f"must have one size for each of {number} clusters", checked)
    return checked


def plain(sizes: Sizes | None) -> int | tuple[int, ...] | None:
    """Sizes that were checked, as they are kept."""
    if sizes is None:
        return None
    return tuple(int(size) for size in sizes) if isinstance(sizes, Sequence) else int(sizes)


def gap_bounds(
    lower: Float[Array, "K *T"], upper: Float[Array, "K *T"]
) -> tuple[Float[Array, "k *T"], Float[Array, "k *T"]]:
    """Bounds on all gaps, from all items' lower bounds and all upper bounds, each sorted, largest first.

    If every mean is within its bounds, the k-th largest mean is between the k-th largest lower and upper bound.
    """
    # Kept finite, so that adding -inf for what is not allowed never gives inf - inf = NaN.
    most = float(jnp.finfo(lower.dtype).max) / (4 * lower.shape[0])
    return jnp.clip(lower[:-1] - upper[1:], -most, most), jnp.clip(upper[:-1] - lower[1:], -most, most)


def best_rival(
    lowest: Float[Array, "k *T"], highest: Float[Array, "k *T"], allowed: Limits, boundaries: Int[Array, "C *T"]
) -> Clusters:
    """Of all allowed clusterings but the one given, the one whose gaps may be wider by most, from bounds on all gaps.

    Its value may be compared with the average of the given one's lower bounds.
    """
    found = [
        best_clustering(gaps, allowed, boundaries, fewer=fewer)
        for gaps, fewer in _comparable(lowest, highest, allowed, boundaries)
    ]
    best = found[0]
    for cuts in found[1:]:
        better = cuts.value > best.value + _rounding(highest)
        boundaries = jnp.where(better[None], cuts.boundaries, best.boundaries)
        best = Clusters(value=jnp.maximum(cuts.value, best.value), boundaries=boundaries)
    return best


def best_through_each(
    lowest: Float[Array, "k *T"], highest: Float[Array, "k *T"], allowed: Limits, boundaries: Int[Array, "C *T"]
) -> Float[Array, "k *T"]:
    """For every rank but the last, the value of the best rival with a boundary after it, or of the clustering given."""
    given = num_boundaries(boundaries, allowed.num_items)
    value = jnp.full_like(lowest, -jnp.inf)
    for gaps, fewer in _comparable(lowest, highest, allowed, boundaries):
        gap, place, best = _best_sums(gaps, allowed)
        for count in allowed.counts:
            rest = jnp.where(_within(allowed.num_items - place, allowed.sizes[count]), 0, -jnp.inf).astype(gap.dtype)
            for number in range(count, 0, -1):
                average_gap = jnp.where((count < given)[None] == fewer, best[number] + rest, -jnp.inf) / count
                value = jnp.maximum(value, average_gap[1:-1])
                rest = jnp.flip(_window_max(jnp.flip(gap + rest, axis=0), *allowed.sizes[number - 1]), axis=0)
    return value


def _comparable(lowest, highest, allowed: Limits, boundaries) -> list[tuple[Float[Array, "k *T"], bool]]:
    """Gaps by which other clusterings compare with the given one's lower bounds, and whether for those of fewer cuts.

    A gap G in [L, H] that both clusterings have cancels if both have as many boundaries, so it counts as L for both.
    A clustering of n < m boundaries gives it weight 1/n, the given one only 1/m; G/n - G/m is largest at G = H, so
    against L/m it counts as H - (H - L) n / m there, which the smallest n that is allowed only makes larger.
    """
    common = is_among(row_indices(lowest.shape, int) + 1, boundaries)
    as_many = [(jnp.where(common, lowest, highest), False)]
    if len(allowed.counts) == 1:
        return as_many
    share = allowed.counts[0] / jnp.maximum(num_boundaries(boundaries, allowed.num_items), 1).astype(lowest.dtype)
    return [*as_many, (jnp.where(common, highest - (highest - lowest) * share[None], highest), True)]


def gaps_at(gaps: Float[Array, "k *T"], boundaries: Int[Array, "C *T"]) -> Float[Array, "C *T"]:
    """The gaps at the boundaries; infinite where a boundary only fills up."""
    last = gaps.shape[0]
    return jnp.where(boundaries <= last, gather(gaps, jnp.minimum(boundaries, last) - 1), jnp.inf)


def num_boundaries(boundaries: Int[Array, "C *T"], num_items: int) -> Int[Array, "*T"]:
    """How many boundaries there are, without those that only fill up."""
    return jnp.sum(boundaries < num_items, axis=0)


def average_gap(gaps: Float[Array, "k *T"], boundaries: Int[Array, "C *T"]) -> Float[Array, "*T"]:
    """The average gap at the boundaries; -inf if there are none."""
    width = gaps_at(gaps, boundaries)
    number = num_boundaries(boundaries, gaps.shape[0] + 1)
    # In the same order for one trial and for many: XLA adds up a column by itself in another.
    total = functools.reduce(jnp.add, list(jnp.where(jnp.isfinite(width), width, 0)))
    return jnp.where(number > 0, total / jnp.maximum(number, 1).astype(gaps.dtype), -jnp.inf)


def is_among(boundaries: Int[Array, "C *T"], others: Int[Array, "D *T"]) -> Bool[Array, "C *T"]:
    """Which of the boundaries are among the others."""
    return jnp.any(boundaries[:, None] == others[None], axis=1)


def best_clustering(
    gaps: Float[Array, "k *T"],
    allowed: Limits,
    excluding: Int[Array, "C *T"] | None = None,
    fewer: bool | None = None,
) -> Clusters:
    """The allowed clustering with the largest average gap, or the best one other than the one given.

    Another clustering of as many clusters differs first at some boundary: beside the best of all, the best of those
    that have differed is kept. With `fewer`, only clusterings of fewer clusters than the one given are looked at, or
    only the others. Of clusterings that differ by no more than rounding, the one whose boundaries come first is taken;
    the value is the largest of all.
    """
    gap, place, best = _best_sums(gaps, allowed)
    given = differing = None
    if excluding is not None:
        given = num_boundaries(excluding, allowed.num_items)
        differing = [jnp.full_like(gap, -jnp.inf)]
        for number, size in enumerate(allowed.sizes[:-1]):
            same = place == excluding[number][None]
            before = jnp.where(same, _window_max(differing[-1], *size), _window_max(best[number], *size))
            differing.append(gap + before)

    def table(count, apart):
        return best[count] if differing is None else jnp.where(apart[None], differing[count], best[count])

    value, near = jnp.full(gaps.shape[1:], -jnp.inf, gaps.dtype), _rounding(gaps)
    chosen, last = jnp.zeros(value.shape, int), {}
    for count in allowed.counts:
        total = jnp.where(
            _within(allowed.num_items - place, allowed.sizes[count]), table(count, given == count), -jnp.inf
        )
        average_gap = jnp.max(total, axis=0) / count
        if fewer is not None and given is not None:
            average_gap = jnp.where((count < given) == fewer, average_gap, -jnp.inf)
        last[count] = _first_largest(total, near)
        chosen = jnp.where(average_gap > value + near, count, chosen)
        value = jnp.maximum(average_gap, value)

    found, position = [], jnp.full(value.shape, allowed.num_items)
    apart = jnp.zeros(value.shape, bool)
    for count in range(allowed.most, 0, -1):
        if count < allowed.most:
            reach = _within(position[None] - place, allowed.sizes[count])
            before = _first_largest(jnp.where(reach, table(count, apart), -jnp.inf), near)
            position = jnp.where(count < chosen, before, position)
        if count in last:
            position = jnp.where(count == chosen, last[count], position)
        found.append(position)
        if excluding is not None:
            # Whether what stands before this boundary must still differ.
            apart = jnp.where(count == chosen, given == count, apart) & (position == excluding[count - 1])
    return Clusters(value=value, boundaries=jnp.stack(found[::-1]))


def _rounding(gaps: Float[Array, "k *T"]) -> Float[Array, "*T"]:
    """Difference up to which sums of these gaps count as tied."""
    return TIE[gaps.dtype.itemsize] * jnp.max(jnp.abs(gaps), axis=0)


def _first_largest(table: Float[Array, "k *T"], near: Float[Array, "*T"]) -> Int[Array, "*T"]:
    """The first place whose entry is the largest of its trial, but for rounding."""
    return jnp.argmax(table >= (jnp.max(table, axis=0) - near)[None], axis=0).astype(int)


def _best_sums(gaps, allowed: Limits):
    """The gaps with both ends, their places, and for each number of boundaries the best sum by the last one's place.

    It is the gap there and the best sum of one boundary less, the last as far back as the cluster between may be large.
    """
    end = jnp.full((1, *gaps.shape[1:]), -jnp.inf, gaps.dtype)
    gap = jnp.concatenate([end, gaps, end])
    place = row_indices(gap.shape, int)
    best = [jnp.where(place == 0, 0, -jnp.inf).astype(gap.dtype)]
    for size in allowed.sizes[:-1]:
        best.append(gap + _window_max(best[-1], *size))
    return gap, place, best


def _within(size, limit: tuple[int, int]):
    return (size >= limit[0]) & (size <= limit[1])


def _window_max(table, low: int, high: int):
    """At every place the largest entry from `high` to `low` places before it; windows grow by doubling."""
    width, reach = min(high, table.shape[0] - 1) - low + 1, 1
    table = _moved(table, low)
    while 2 * reach <= width:
        table, reach = jnp.maximum(table, _moved(table, reach)), 2 * reach
    return jnp.maximum(table, _moved(table, width - reach))


def _moved(table, by: int):
    """The table, moved on by so many places."""
    if by == 0:
        return table
    front = jnp.full((min(by, table.shape[0]), *table.shape[1:]), -jnp.inf, table.dtype)
    return jnp.concatenate([front, table[: table.shape[0] - by]])
