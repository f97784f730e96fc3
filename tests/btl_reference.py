"""Maximum-likelihood BTL scores by dense Newton steps in float64, written from the definition."""

import numpy as np


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
