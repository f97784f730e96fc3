"""LUCBRank as a good engineer would write it in numba, and the same with every trick of jaxrank's loop.

Both run trials in parallel on all cores, leave a trial as soon as it is done, refresh every bound in every round by
warm-started Newton steps and keep the order up by insertion.

- plain: two Newton steps per bound, each with two logarithms, in double precision.
- tricks: one step for items that were not sampled, from a width grown with the threshold's square root; the divergence
  by one polynomial in single precision, without a logarithm; one random number for opponent and outcome of a duel.
"""

import numba
import numpy as np
from contest import ALPHA, DELTA, Case


@numba.njit(fastmath=False)
def newton_width(p, level, width, steps):
    """Steps on d(p, p + width) = level in the coordinate -log(1 - width / (1 - p)), from outside."""
    rest = 1.0 - p
    if rest <= 0.0:
        return 0.0
    width = min(max(width, 1e-9), rest * (1 - 1e-9))
    for _ in range(steps):
        q = p + width
        d = rest * np.log(rest / (rest - width))
        if p > 0.0:
            d += p * np.log(p / q)
        width -= (rest - width) * np.expm1((d - level) * q / width)
        width = min(max(width, 1e-9), rest * (1 - 1e-12))
    return width


F = np.float32


@numba.njit(error_model="numpy")
def excess(r):
    """The excess r - log(1 + r): 1 + r = 2^k (1 + f), and a series in f / (2 + f)."""
    bits = np.float32(max(F(1) + r, F(1e-30))).view(np.int32)
    power = np.int32((bits - np.int32(0x3F3504F3)) >> 23)
    k, shrink = F(power), np.int32((np.int32(127) - power) << 23).view(np.float32)
    f = r * shrink + (shrink - F(1))
    s = f / (F(2) + f)
    z = s * s
    series = z * (F(1 / 3) + z * (F(1 / 5) + z * (F(1 / 7) + z * F(1 / 9))))
    return (r - k * F(0.6931472) - f) + s * (f - F(2) * series)


@numba.njit(error_model="numpy")
def newton_width_by_polynomial(p, level, width, steps):
    """`newton_width` in single precision and without logarithms."""
    rest = F(1) - p
    if rest <= F(0):
        return F(0)
    width = min(max(width, F(1e-7)), rest * F(1 - 1e-6))
    for _ in range(steps):
        d = rest * excess(-width / rest)
        d += p * excess(width / p) if p > F(0) else width
        y = (d - level) * (p + width) / width
        if abs(y) < F(0.25):
            growth = y * (F(1) + y * (F(1 / 2) + y * (F(1 / 6) + y * (F(1 / 24) + y * F(1 / 120)))))
        else:
            growth = np.exp(y) - F(1)
        width = min(max(width - (rest - width) * growth, F(1e-7)), rest)
    return width


@numba.njit
def answer(means, scores, a, one_number):
    """A reward of item a, or the outcome of its duel with a random other item."""
    if scores.size == 0:
        return 1.0 if np.random.random() < means[a] else 0.0
    if one_number:
        scaled = np.random.random() * (scores.size - 1)
        other = int(scaled)
        chance = scaled - other
    else:
        other, chance = np.random.randint(0, scores.size - 1), np.random.random()
    if other >= a:
        other += 1
    return 1.0 if chance < 1.0 / (1.0 + np.exp(scores[other] - scores[a])) else 0.0


@numba.njit
def move(order, place, p, a):
    """Put item a where its mean belongs, one place at a time."""
    r = place[a]
    while r > 0 and p[order[r - 1]] < p[a]:
        order[r] = order[r - 1]
        place[order[r]] = r
        r -= 1
    while r < order.size - 1 and p[order[r + 1]] > p[a]:
        order[r] = order[r + 1]
        place[order[r]] = r
        r += 1
    order[r] = a
    place[a] = r


@numba.njit
def refresh(a, p, pulls, lower, upper, beta, growth, steps, tricks):
    """Both bounds of item a, from those of the round before."""
    if tricks:
        mean, level = F(p[a]), F(beta / pulls[a])
        most = np.sqrt(level / F(2))
        up, down = F(upper[a] - p[a]) * F(growth), F(p[a] - lower[a]) * F(growth)
        upper[a] = p[a] + newton_width_by_polynomial(mean, level, min(up, most), steps)
        lower[a] = p[a] - newton_width_by_polynomial(F(1) - mean, level, min(down, most), steps)
    else:
        level = beta / pulls[a]
        most = np.sqrt(level / 2)
        upper[a] = p[a] + newton_width(p[a], level, min(upper[a] - p[a], most), steps)
        lower[a] = p[a] - newton_width(1.0 - p[a], level, min(p[a] - lower[a], most), steps)


@numba.njit(parallel=True)
def all_trials(means, scores, points, epsilon, k1, trials, max_samples, seed, tricks):
    """Rounds and samples of every trial."""
    count, half = means.size, points.size
    rounds, spent = np.zeros(trials), np.zeros(trials)
    for trial in numba.prange(trials):
        np.random.seed(seed * 1_000_003 + trial)
        pulls, sums, p = np.ones(count), np.zeros(count), np.zeros(count)
        lower, upper = np.zeros(count), np.ones(count)
        order, place = np.argsort(np.random.random(count)), np.zeros(count, np.int64)
        active, critical = np.ones(half, np.bool_), np.zeros((half, 2), np.int64)
        fresh = np.zeros(count, np.bool_)
        for a in range(count):
            sums[a] = answer(means, scores, a, tricks)
            p[a] = sums[a]
        order = order[np.argsort(-p[order], kind="mergesort")]
        for r in range(count):
            place[order[r]] = r
        t, samples, left, last_beta = 1, float(count), half, 0.0
        while left > 0 and samples < max_samples:
            if last_beta > 0.0:
                for i in range(half):
                    if not active[i]:
                        continue
                    for side in range(2):
                        a = critical[i, side]
                        sums[a] += answer(means, scores, a, tricks)
                        pulls[a] += 1
                        p[a] = sums[a] / pulls[a]
                        fresh[a] = True
                        samples += 1
                        move(order, place, p, a)
                t += 1
            x = np.log(k1 * count / DELTA) + ALPHA * np.log(t)
            beta = x + np.log(x)
            growth = np.sqrt(beta / last_beta) if last_beta > 0.0 else 1.0
            for a in range(count):
                steps = 8 if last_beta == 0.0 else (2 if fresh[a] or t < 20 or not tricks else 1)
                refresh(a, p, pulls, lower, upper, beta, growth, steps, tricks)
                fresh[a] = False
            for i in range(half):
                best, least = -1, np.inf
                for r in range(points[i]):
                    if lower[order[r]] < least:
                        best, least = order[r], lower[order[r]]
                worst, most = -1, -np.inf
                for r in range(points[i], count):
                    if upper[order[r]] > most:
                        worst, most = order[r], upper[order[r]]
                critical[i, 0], critical[i, 1] = best, worst
                if last_beta > 0.0 and active[i] and most - least < epsilon:
                    active[i] = False
                    left -= 1
            last_beta = beta
        rounds[trial], spent[trial] = t, samples
    return rounds, spent


def numba_program(case: Case, tricks: bool):
    """A function of the seed: rounds in all and mean samples."""
    scores = case.scores if case.duels else np.zeros(0)
    means, points = case.means, np.asarray(case.boundaries)

    def run(seed: int) -> tuple[float, float]:
        rounds, samples = all_trials(
            means, scores, points, case.epsilon, case.k1, case.trials, float(case.max_samples), seed, tricks
        )
        return float(rounds.sum()), float(samples.mean())

    return run
