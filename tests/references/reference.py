"""Slow float64 references, written from the paper and not from the package."""

import numpy as np


def bernoulli_kl(p, q):
    p, q = np.float64(p), np.asarray(q, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where(p > 0, p * (np.log(p) - np.log(q)), 0.0)
        second = np.where(p < 1, (1 - p) * (np.log1p(-p) - np.log1p(-q)), 0.0)
    return first + second


def poisson_kl(p, q):
    return q - p + (p * np.log(p / q) if p > 0 else 0.0)


def exponential_kl(p, q):
    return p / q - 1 - np.log(p / q)


def gaussian_kl(p, q, sigma=1.0):
    return (p - q) ** 2 / (2 * sigma**2)


def invert(kl, mean, pulls, beta, edge, steps=200):
    """The q between `mean` and `edge` with pulls * kl(mean, q) = beta, as nearly as float64 has it."""
    inside, outside = mean, edge
    for _ in range(steps):
        middle = (inside + outside) / 2
        if pulls * kl(mean, middle) <= beta:
            inside = middle
        else:
            outside = middle
    return outside


def bernoulli_bounds(means, pulls, beta):
    """Both bounds of all items at once, by bisection between the mean and the end of [0, 1]."""
    bounds = []
    for edge in (np.zeros_like(means), np.ones_like(means)):
        inside, outside = means.copy(), edge.copy()
        for _ in range(60):
            middle = (inside + outside) / 2
            with np.errstate(divide="ignore", invalid="ignore"):
                head = np.where(means > 0, means * np.log(means / middle), 0)
                tail = np.where(means < 1, (1 - means) * np.log((1 - means) / (1 - middle)), 0)
            good = pulls * (head + tail) <= beta
            inside, outside = np.where(good, middle, inside), np.where(good, outside, middle)
        bounds.append(outside)
    return bounds


def lucbrank(
    answer,
    num_items,
    kappa,
    delta,
    epsilon,
    priority,
    alpha=1.1,
    provable=False,
    once=False,
    repeat=1,
    max_turns=10**6,
):
    """Algorithm 1, line by line. `answer(turn, items)` gives the rewards of one turn's questions.

    Turns are numbered from 0. Before the first round every item is sampled once, in index order, as many in a turn as
    later fit in a round. Returns the list of asked items per turn, the order, the rounds and whether it stopped.
    """
    c_minus_1 = len(kappa)
    e = np.e
    k1 = (c_minus_1 / 2) ** alpha + 2 * e / (alpha - 1) + 4 * e / (alpha - 1) ** 2
    pulls, sums = np.zeros(num_items), np.zeros(num_items)
    width = 2 * c_minus_1 * repeat
    asked = []

    def sample(items):
        for item, reward in zip(items, answer(len(asked), items), strict=True):
            pulls[item] += 1
            sums[item] += reward
        asked.append(list(items))

    def critical(i):
        ranked = sorted(range(num_items), key=lambda a: (-sums[a] / pulls[a], priority[a]))
        above, below = ranked[: kappa[i]], ranked[kappa[i] :]
        lower_item = min(above, key=lambda a: (round(lower[a], 11), priority[a]))
        upper_item = min(below, key=lambda a: (-round(upper[a], 11), priority[a]))
        return lower_item, upper_item

    for start in range(0, num_items, width):
        sample(list(range(start, min(start + width, num_items))))
    t = 1
    active = list(range(c_minus_1))

    def refresh():
        x = np.log(k1 * num_items * t**alpha / delta)
        return bernoulli_bounds(sums / pulls, pulls, x + np.log(x))

    lower, upper = refresh()
    while active and len(asked) < max_turns:
        items = []
        for i in active:
            for item in critical(i):
                if not (once and item in items):
                    items += [item]
        sample([item for item in items for _ in range(repeat)])
        t += 1
        lower, upper = refresh()
        remaining = []
        for i in range(c_minus_1) if provable else active:
            lower_item, upper_item = critical(i)
            if not upper[upper_item] - lower[lower_item] < epsilon:
                remaining.append(i)
        active = remaining
    order = sorted(range(num_items), key=lambda a: (-sums[a] / pulls[a], priority[a]))
    return asked, order, t, not active
