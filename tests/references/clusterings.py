"""Clusterings within limits, by trying all."""

import itertools

import numpy as np


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
