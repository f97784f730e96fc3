"""Clusterings within limits, by trying all."""

import contextlib
import itertools

import numpy as np

from jaxrank.stats import gaps


def allowed_cuts(limits):
    """Every clustering within the limits, by trying all."""
    for count in limits.counts:
        for cuts in itertools.combinations(range(1, limits.num_items), count):
            sizes = np.diff((0, *cuts, limits.num_items))
            if all(low <= size <= high for size, (low, high) in zip(sizes, limits.sizes, strict=False)):
                yield cuts


def value(widths, cuts):
    return float(np.mean([widths[cut - 1] for cut in cuts]))


def plain(boundaries, num_items):
    return tuple(int(cut) for cut in boundaries if cut < num_items)


def random_limits(rng):
    """Limits that allow something."""
    for _ in range(1000):
        items = int(rng.integers(2, 9))
        clusters = None if rng.random() < 0.4 else int(rng.integers(2, items + 1))
        smallest = int(rng.integers(1, 4))
        largest = None if rng.random() < 0.3 else int(rng.integers(1, items + 1))
        if clusters is not None and rng.random() < 0.3:
            smallest = [int(size) for size in rng.integers(1, 3, size=clusters)]
        with contextlib.suppress(ValueError):
            return gaps.limits(items, clusters, smallest, largest)
    raise AssertionError("no limits allow anything")
