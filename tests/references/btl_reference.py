"""Maximum-likelihood BTL scores by Newton steps in float64, written from the definition, and data to try them on."""

import numpy as np
from scipy.sparse import csc_array, diags_array
from scipy.sparse.linalg import cg, spsolve

import jaxrank as jr


def newton_btl(wins: np.ndarray, prior: float = 0.0) -> np.ndarray:
    """Centred scores that maximise sum of wins_ij log(1 / (1 + exp(s_j - s_i))) - prior / 2 sum of s_i^2."""
    wins = np.asarray(wins, np.float64)
    count = len(wins)
    total = wins + wins.T
    scores = np.zeros(count)

    def value(s):
        gap = s[:, None] - s[None]
        return -(wins * np.logaddexp(0, -gap)).sum() - prior / 2 * (s**2).sum()

    for _ in range(200):
        chance = 1 / (1 + np.exp(-(scores[:, None] - scores[None])))
        gradient = (wins - total * chance).sum(1) - prior * scores
        weight = total * chance * (1 - chance)
        hessian = np.diag(weight.sum(1)) - weight + prior * np.eye(count) + np.ones((count, count)) / count
        step = np.linalg.solve(hessian, gradient)
        length = 1.0
        while value(scores + length * step) < value(scores) - 1e-9 * abs(value(scores)) and length > 1e-6:
            length /= 2
        scores = scores + length * step
        scores -= scores.mean()
        if abs(step).max() < 1e-13:
            break
    return scores


def sparse_newton_btl(wins, direct: bool) -> np.ndarray:
    """The same for a sparse matrix of wins, each step solved by sparse elimination or by conjugate gradients."""
    wins = csc_array(wins)
    rows, columns = (wins + wins.T).tocoo().coords
    won, met = np.asarray(wins.sum(axis=1)), np.asarray((wins + wins.T)[rows, columns])
    count = wins.shape[0]
    scores = np.zeros(count)
    for _ in range(100):
        chance = 1 / (1 + np.exp(scores[columns] - scores[rows]))
        gradient = won - np.bincount(rows, met * chance, count)
        weight = csc_array((met * chance * (1 - chance), (rows, columns)), shape=(count, count))
        hessian = (diags_array(weight.sum(axis=1)) - weight).tocsc()
        if direct:
            # Hold the last score still; its equation follows from the others.
            step = np.append(spsolve(hessian[:-1, :-1].tocsc(), gradient[:-1]), 0.0)
        else:
            step, _ = cg(hessian, gradient - gradient.mean(), rtol=1e-11, M=diags_array(1 / hessian.diagonal()))
        scores = scores + step * min(1, 2 / max(abs(step).max(), 1e-30))
        scores -= scores.mean()
        if abs(step - step.mean()).max() < 1e-10:
            return scores
    raise RuntimeError("the reference did not converge")


def answers(rng, scores, left, right):
    """One BTL answer for every pair (left, right)."""
    wins = rng.random(len(left)) < 1 / (1 + np.exp(scores[right] - scores[left]))
    return np.where(wins, left, right), np.where(wins, right, left)


def ring(count):
    """A pair of answers, one each way, between neighbours on a ring: links everybody with everybody."""
    items = np.arange(count)
    return np.concatenate([items, (items + 1) % count]), np.concatenate([(items + 1) % count, items])


def random_graph(rng, count, rows):
    left, gap = rng.integers(0, count, rows), rng.integers(1, count, rows)
    return left, (left + gap) % count


def zipf_graph(rng, count, rows):
    share = 1 / np.arange(1, count + 1)
    left = rng.choice(count, rows, p=share / share.sum())
    return left, (left + rng.integers(1, count, rows)) % count


def banded_graph(rng, count, rows):
    left = rng.integers(0, count - 1, rows)
    return left, np.minimum(left + rng.integers(1, 4, rows), count - 1)


GRAPHS = {"random": random_graph, "Zipf": zipf_graph, "banded": banded_graph}


def comparisons(graph, count, rows, seed=0):
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 1, count)
    left, right = GRAPHS[graph](rng, count, rows)
    keep = left != right
    winners, losers = answers(rng, scores, left[keep], right[keep])
    both = [np.concatenate(parts) for parts in zip((winners, losers), ring(count), strict=True)]
    return jr.Comparisons.from_pairs(*both, num_items=count)
