"""Evidence for pairs, slowly, in float64 NumPy, from its definition; and the lemma of two levels, by exhaustion.

Evidence for "a is above b", for rewards in [0, 1]: log E = min over m of

    log sum_ij W_ij exp(lam_i S_a - N_a log1p(m expm1(lam_i)) - lam_j S_b - N_b log1p((m + eps) expm1(-lam_j))).
"""

import functools
import itertools
import math

import numpy as np
from scipy.special import rel_entr


def lattice(epsilon, level):
    """The values of lambda (the last is 0) and the weights W[i, j]: row i for item a, column j for item b."""
    if epsilon == 0:
        lams = 1.5 * 0.5 ** np.arange(11)  # from large to small: one index is one octave lower
        s = np.array([0.4, 0.7, 1, 1.2, 1.3, 1.3, 1.2, 1, 0.7, 0.4, 0.2])
        t = {1: (0.75, 0.05, 0.05, 0.1, 0.05), 2: (0.25, 0.1, 0.2, 0.25, 0.2)}[level]  # d = 0, 1, 2, 3; lam = 0
    else:
        lams = [1.8 * epsilon, 1.8 * epsilon * 1.6]
        while lams[-1] < 1.6:
            lams.append(lams[-1] * 1.6)
        s = 0.8 ** np.arange(len(lams))[::-1]  # .8^k, k = 0 at the smallest lambda
        lams = np.array(lams[::-1])
        t = (0.3, 0.25, 0.2, 0.15, 0.1)
    return weighted(lams, s, t)


def weighted(lams, s, t):
    """The lattice with 0 at its end, and its weights."""
    s = s / s.sum()
    zero = len(lams)  # the index of lambda = 0
    weights = np.zeros((zero + 1, zero + 1))
    for i in range(zero):  # i is the larger of the two lambdas
        weights[i, i] += s[i] * t[0]
        for j, t_d in ((i + 1, t[1]), (i + 2, t[2]), (i + 3, t[3]), (zero, t[4])):
            j = min(j, zero)  # past the end of the lattice: lambda = 0
            weights[i, j] += s[i] * t_d / 2
            weights[j, i] += s[i] * t_d / 2
    return np.append(lams, 0.0), weights


def long_lattice(level):
    """The one for families whose unit is not known: sixteen octaves, whatever the tolerance."""
    lams, s = 1.5 * 0.5 ** np.arange(16), np.array([0.4, 0.7, 1, 1.2, 1.3, 1.3, 1.2, 1, 0.7, 0.4, *[0.2] * 6])
    return weighted(lams, s, {1: (0.75, 0.05, 0.05, 0.1, 0.05), 2: (0.25, 0.1, 0.2, 0.25, 0.2)}[level])


@functools.cache
def log_lattice(epsilon, level):
    lams, weights = long_lattice(level) if epsilon is None else lattice(epsilon, level)
    return lams, np.log(weights, where=weights > 0, out=np.full(weights.shape, -np.inf))


def cumulants(family, lams, mean):
    """How much each lambda takes, and the logarithm of the mean of exp(that times a reward of this mean)."""
    if family == "Bernoulli":
        return lams, np.log1p(mean * np.expm1(lams))
    if family == "Gaussian":  # standard deviation 1/2
        return lams, lams * mean + lams**2 / 8
    if family == "Poisson":
        return lams, mean * np.expm1(lams)
    return -np.expm1(-lams) / mean, lams  # exponential rewards: -log(1 - mean lambda) with lambda = (1 - e^-z) / mean


def log_mixture(m, sum_a, pulls_a, sum_b, pulls_b, epsilon=0.0, level=1, family="Bernoulli"):
    """The log of the mixture at every m of a vector; convex in m, or in 1/m for exponential rewards."""
    lams, log_weights = log_lattice(None if family in ("Poisson", "Exponential") else epsilon, level)
    m = np.atleast_1d(m)[:, None]
    (factor_a, cost_a), (factor_b, cost_b) = cumulants(family, lams, m), cumulants(family, -lams, m + epsilon)
    log_a, log_b = factor_a * sum_a - pulls_a * cost_a, factor_b * sum_b - pulls_b * cost_b
    exponents = log_weights + log_a[:, :, None] + log_b[:, None, :]
    top = exponents.max(axis=(1, 2))
    return top + np.log(np.exp(exponents - top[:, None, None]).sum(axis=(1, 2)))


def log_evidence(sum_a, pulls_a, sum_b, pulls_b, epsilon=0.0, level=1, family="Bernoulli"):
    """Minimum over all m, by a grid refined around its best point (exact, as the function is convex)."""
    counts, means = (sum_a, pulls_a, sum_b, pulls_b), (sum_a / pulls_a, sum_b / pulls_b)
    place = (lambda x: 1 / x) if family == "Exponential" else (lambda x: x)
    low, high = {
        "Bernoulli": (0.0, 1.0 - epsilon),
        "Gaussian": (min(means) - 20, max(means) + 20),
        "Poisson": (0.0, max(means) + 20),
        "Exponential": (1e-12, 20 / max(min(means), 1e-6)),
    }[family]
    while True:
        points = np.linspace(low, high, 41)
        values = log_mixture(place(points), *counts, epsilon, level, family)
        best = int(values.argmin())
        if high - low < 1e-12 * max(1, high):
            return float(values[best])
        low, high = points[max(best - 1, 0)], points[min(best + 1, 40)]


def likelihood_ratio(sum_a, pulls_a, sum_b, pulls_b, epsilon=0.0):
    """G = min over m of N_a d(mean_a, m) + N_b d(mean_b, m + epsilon), 0 if mean_b >= mean_a + epsilon; and its m."""
    x, y = sum_a / pulls_a, sum_b / pulls_b
    low, high = np.maximum(y - epsilon, 0.0), np.minimum(x, 1.0 - epsilon)
    high = np.maximum(low, high)
    if epsilon == 0:
        m = np.clip((sum_a + sum_b) / (pulls_a + pulls_b), low, high)
    else:
        for _ in range(60):  # bisection on the sign of the derivative
            m = (low + high) / 2
            up = pulls_a * (m - x) * (m + epsilon) * (1 - m - epsilon) + pulls_b * (m + epsilon - y) * m * (1 - m) > 0
            low, high = np.where(up, low, m), np.where(up, m, high)
        m = (low + high) / 2
    q = np.minimum(m + epsilon, 1.0)
    cost_a = rel_entr(x, m) + rel_entr(1 - x, 1 - m)
    cost_b = rel_entr(y, q) + rel_entr(1 - y, 1 - q)
    return np.where(y >= x + epsilon, 0.0, pulls_a * cost_a + pulls_b * cost_b), m


def thresholds(sizes, delta, mu=0.6):
    items, cuts = sum(sizes), len(sizes) - 1
    return math.log(cuts / (mu * delta)), math.log((2 * items - 3 - cuts) / ((1 - mu) * delta))


def threshold_one_level(num_items, delta):
    return math.log((num_items - 1) / delta)


def threshold_tolerance(sizes, delta):
    return math.log(sum(g * h for g, h in itertools.combinations(sizes, 2)) / delta)


def weak_pairs(order, boundaries):
    """One pair (last item above, first item below) per boundary, in order, unless one of the two is taken already."""
    pairs, taken = [], set()
    for cut in boundaries:
        pair = (int(order[cut - 1]), int(order[cut]))
        if not taken & set(pair):
            pairs.append(pair)
            taken |= set(pair)
    return pairs


def lemma_holds(sizes, distance=2, share_items=False, weak_per_boundary=1, guard_boundary=True):
    """No wrong clustering g (the true order is 0, 1, ...) is compatible with two rules.

    No inverted pair stands at a boundary position, and every other inverted pair at distance <= 2 is weak. The options
    weaken the rules, to see that the check can fail.
    """
    items, cuts = sum(sizes), np.cumsum(sizes)[:-1]
    truth = tuple(np.repeat(np.arange(len(sizes)), sizes))
    boundary = {(c - 1, c) for c in cuts} if guard_boundary else set()
    for g in sorted(set(itertools.permutations(truth)) - {truth}):
        near = {(p, q) for p in range(items) for q in range(p + 1, min(p + distance, items - 1) + 1)}
        inverted = {(p, q) for p, q in near if g[p] > g[q]}
        if inverted & boundary:
            continue  # a statement that is never proven at T1 would have been proven
        choices = []  # per boundary, all sets of at most weak_per_boundary pairs (position of b_i or a_i, the other)
        for i in range(len(cuts)):
            pairs = [tuple(sorted((a, b))) for a in range(items) for b in range(items) if g[a] == i and g[b] == i + 1]
            choices.append([c for n in range(weak_per_boundary + 1) for c in itertools.combinations(pairs, n)])
        for weak in itertools.product(*choices):
            weak = [pair for pairs in weak for pair in pairs]
            involved = [item for pair in weak for item in pair]
            if (share_items or len(set(involved)) == len(involved)) and inverted <= set(weak):
                return False  # this wrong g could be returned though no false statement was proven
    return True
