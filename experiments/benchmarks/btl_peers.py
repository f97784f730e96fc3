"""The contestants of `btl.py`: each takes arrays of winners and losers and a tolerance, and gives centred log-scores.

A peer that is not installed is left out. Tolerances go from loose to tight; the benchmark uses the loosest one that is
accurate enough.
"""

import importlib.util

import numpy as np

import jaxrank as jr


def centred(scores: np.ndarray) -> np.ndarray:
    """Scores with mean 0."""
    return scores - scores.mean()


def jaxrank(winners, losers, count, tolerance):
    """`jaxrank.fit_btl`, checks of the data included."""
    return jr.fit_btl(jr.Comparisons.from_pairs(winners, losers, num_items=count), tolerance=tolerance).scores


def evalica(winners, losers, count, tolerance):
    """Rust, dense."""
    import evalica as peer

    result = peer.bradley_terry(
        winners.tolist(), losers.tolist(), [peer.Winner.X] * len(winners), tolerance=tolerance, limit=100_000
    )
    scores = np.full(count, np.nan)
    scores[result.scores.index.to_numpy()] = np.log(result.scores.to_numpy())
    return centred(scores)


def choix(winners, losers, count, tolerance):
    """Iterative Luce spectral ranking on a dense matrix."""
    import choix as peer

    wins = np.bincount(winners.astype(np.int64) * count + losers, minlength=count * count).reshape(count, count)
    return centred(peer.ilsr_pairwise_dense(wins.astype(float), tol=tolerance, max_iter=10_000))


def sklearn(winners, losers, count, tolerance):
    """Logistic regression without a penalty on a sparse design."""
    import warnings

    from scipy.sparse import csr_array
    from sklearn.linear_model import LogisticRegression

    rows = len(winners)
    # Every second row turned round, so that there are two classes.
    sign = np.where(np.arange(rows) % 2 == 0, 1.0, -1.0)
    place = np.stack([winners, losers], axis=1).ravel()
    design = csr_array((np.stack([sign, -sign], axis=1).ravel(), place, 2 * np.arange(rows + 1)), shape=(rows, count))
    model = LogisticRegression(C=np.inf, fit_intercept=False, tol=tolerance, max_iter=100_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(design, sign > 0)
    return centred(model.coef_[0])


def newman(winners, losers, count, tolerance):
    """Newman's iteration in numba, one item after the other, each with the newest scores of the rest."""
    return centred(np.log(_newman()(winners, losers, count, tolerance)))


def _newman():
    global _compiled
    if _compiled is not None:
        return _compiled
    import numba

    @numba.njit
    def iterate(winners, losers, count, tolerance):
        rows = winners.size
        start = np.zeros(count + 1, np.int64)
        for r in range(rows):
            start[winners[r] + 1] += 1
            start[losers[r] + 1] += 1
        for i in range(count):
            start[i + 1] += start[i]
        fill = start[:-1].copy()
        other, won = np.zeros(2 * rows, np.int32), np.zeros(2 * rows, np.bool_)
        for r in range(rows):
            w, v = winners[r], losers[r]
            other[fill[w]], won[fill[w]] = v, True
            fill[w] += 1
            other[fill[v]], won[fill[v]] = w, False
            fill[v] += 1
        strength = np.ones(count)
        for _ in range(100_000):
            change = 0.0
            for i in range(count):
                above, below = 0.0, 0.0
                for place in range(start[i], start[i + 1]):
                    rival = strength[other[place]]
                    share = 1.0 / (strength[i] + rival)
                    if won[place]:
                        above += rival * share
                    else:
                        below += share
                new = above / below
                change = max(change, abs(np.log(new / strength[i])))
                strength[i] = new
            if change < tolerance:
                break
        return strength

    _compiled = iterate
    return iterate


_compiled = None

PEERS = {
    "jaxrank": (jaxrank, "jaxrank", [1e-5, 1e-6, 1e-7]),
    "evalica": (evalica, "evalica", [1e-6, 1e-8, 1e-10, 1e-12]),
    "choix": (choix, "choix", [1e-5, 1e-7, 1e-9]),
    "scikit-learn": (sklearn, "sklearn", [1e-6, 1e-8, 1e-10, 1e-12]),
    "numba (Newman)": (newman, "numba", [1e-5, 1e-6, 1e-7, 1e-8]),
}


def installed() -> dict:
    """The contestants that can be run here."""
    return {name: peer for name, peer in PEERS.items() if importlib.util.find_spec(peer[1]) is not None}
