"""Scores from pairwise answers: `fit_btl`, `fit_thurstone`, and the pure function beneath them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxrank.core import checks
from jaxrank.data.comparisons import Comparisons
from jaxrank.data.connectivity import is_close, is_strong, is_strong_table
from jaxrank.fitting.banded import band_of, newton_on_band
from jaxrank.fitting.likelihood import EdgeList, WinMatrix, data_of
from jaxrank.fitting.result import ELO, Fit, Scale
from jaxrank.fitting.solver import Solution, lbfgs, maximise, newton, rough_scores
from jaxrank.stats.links import BTL, LINKS, Link

COARSE = 1e-5
"""Tolerance from which L-BFGS works out each answer in 32 bit."""
MOST_FOR_A_MATRIX = 1_500
"""Items up to which Newton's method solves with a whole matrix."""


def fit_btl(
    comparisons: Comparisons,
    *,
    prior: float = 0.0,
    scale: Scale = "centred",
    start: ArrayLike | None = None,
    tolerance: float = 1e-9,
) -> Fit:
    """Bradley-Terry-Luce scores of largest likelihood: P(i beats j) = 1 / (1 + exp(s_j - s_i)).

    They exist if and only if every item is linked to every other by wins in both directions; otherwise this raises
    `ValueError` and says who never lost, never won or never met. A prior keeps scores finite all the same.

    Args:
      comparisons: the answers.
      prior: precision of a Gaussian prior on the scores (a ridge penalty of prior / 2 times their squares); 0 for none.
      scale: "centred" (mean 0), "lowest" (the lowest is 0, as in the paper) or "elo" (mean 1500, 400 points for odds
        of ten to one).
      start: centred scores to start from, such as those of a fit with a few answers less.
      tolerance: largest error of a score, as estimated by the solver.
    """
    return _fit(comparisons, "btl", prior, scale, start, tolerance)


def fit_thurstone(
    comparisons: Comparisons,
    *,
    prior: float = 0.0,
    scale: Scale = "centred",
    start: ArrayLike | None = None,
    tolerance: float = 1e-9,
) -> Fit:
    """Thurstone scores (case V, unit noise): P(i beats j) = Phi((s_i - s_j) / sqrt(2)); else like `fit_btl`."""
    checks.require(scale != "elo", "scale", "must be 'centred' or 'lowest': Elo points are for BTL scores", scale)
    return _fit(comparisons, "thurstone", prior, scale, start, tolerance)


def _fit(comparisons: Comparisons, model, prior, scale, start, tolerance) -> Fit:
    checks.inside("prior", prior, 0, float("inf"), closed=(True, False))
    checks.inside("tolerance", tolerance, 0, 1, closed=(False, False))
    checks.require(scale in ("centred", "lowest", "elo"), "scale", "must be 'centred', 'lowest' or 'elo'", scale)
    checks.require(len(comparisons.winners) > 0, "comparisons", "must not be empty", "none")
    checks.require(comparisons.num_items >= 2, "comparisons", "must name at least two items", comparisons.num_items)
    if start is not None:
        start = np.asarray(start, float)
        rule = f"must be one number for each of the {comparisons.num_items} items"
        checks.require(start.shape == (comparisons.num_items,), "start", rule, f"shape {start.shape}")
        checks.inside("start", start, -float("inf"), float("inf"), closed=(False, False))
    solution = _solve(comparisons, LINKS[model], float(prior), start, float(tolerance))
    scores = np.asarray(solution.scores)
    if scale == "lowest":
        scores = scores - scores.min()
    elif scale == "elo":
        scores = ELO * scores + 1500
    return Fit(
        scores=scores,
        labels=comparisons.labels,
        model=model,
        scale=scale,
        prior=float(prior),
        converged=bool(solution.converged),
        error=float(solution.error),
        passes=int(solution.passes),
        newton_steps=int(solution.newton_steps),
        comparisons=comparisons,
    )


def _solve(comparisons: Comparisons, link: Link, prior: float, start, tolerance: float) -> Solution:
    """L-BFGS where the items are close to each other; what it leaves open, and the rest, by Newton's method."""
    with jax.enable_x64(True):
        data = data_of(comparisons, single_precision=tolerance >= COARSE)
        if prior > 0 or _require_scores(comparisons, data):
            solution = _on_host(_climb(data, link, prior, start, tolerance))
            if solution.converged:
                return solution
        else:
            scores = np.asarray(rough_scores(comparisons.wins, comparisons.losses)) if start is None else start
            solution = Solution(scores, *map(np.asarray, (np.inf, 0, 0, False)))
        rows = comparisons.added_up()
        if (band := band_of(rows)) is not None:
            return newton_on_band(band, link, prior, solution, tolerance)
        data = WinMatrix(wins=rows.matrix()) if rows.num_items <= MOST_FOR_A_MATRIX else data_of(rows)
        return _on_host(_newton(data, link, prior, solution, tolerance))


def _on_host(solution: Solution) -> Solution:
    scores, error, *rest = map(np.asarray, solution)
    return Solution(scores.astype(float), error.astype(float), *rest)


@jax.jit
def _climb(data, link, prior, start, tolerance) -> Solution:
    return lbfgs(data, link, jnp.asarray(prior, float), start, jnp.asarray(tolerance, float))


@jax.jit
def _newton(data, link, prior, begun, tolerance) -> Solution:
    return newton(data, link, jnp.asarray(prior, float), begun, jnp.asarray(tolerance, float))


def _require_scores(comparisons: Comparisons, data: WinMatrix | EdgeList) -> bool:
    """Raise, naming the items, unless wins link every item with every other in both directions; say if by few steps."""
    if isinstance(data, WinMatrix):
        close, exist = True, is_strong_table(np.asarray(data.wins))
    else:
        edges = comparisons._edges()
        close = is_close(*edges, comparisons.num_items)
        exist = close or is_strong(*edges, comparisons.num_items)
    if not exist:
        raise ValueError(
            f"scores of largest likelihood do not exist: {comparisons.connectivity().explain(comparisons.labels)}. "
            "More answers help; a prior such as 0.1 keeps all scores finite (prior), or the largest group can be "
            "fitted by itself (largest_group)"
        )
    return close


def btl_scores(
    wins: Float[ArrayLike, "K K"],
    *,
    prior: Float[ArrayLike, ""] = 0.0,
    start: Float[ArrayLike, "K"] | None = None,
    tolerance: float | None = None,
    link: Link | None = None,
) -> Float[Array, "K"]:
    """Centred scores from a matrix of wins: pure, yours to jit, vmap and differentiate.

    Derivatives in the wins and the prior are those of the optimum (implicit function theorem), not of the iterations.
    Nothing is checked: without a prior, scores that do not exist come back as large numbers.
    """
    link = BTL() if link is None else link
    wins = jnp.asarray(wins, float)
    prior = jnp.asarray(prior, wins.dtype)
    table = WinMatrix(wins=wins)
    first = None if start is None else jax.lax.stop_gradient(jnp.asarray(start, wins.dtype))
    if tolerance is None:
        tolerance = 3e-6 if wins.dtype.itemsize == 4 else 1e-9

    def balance(scores):
        return table.gradient(link, scores) - prior * scores - jnp.mean(scores)

    def solve(_, __):
        fixed = jax.tree.map(jax.lax.stop_gradient, (table, prior))
        return maximise(fixed[0], link, fixed[1], first, jnp.asarray(tolerance, wins.dtype)).scores

    def solve_linear(function, vector):
        return jnp.linalg.solve(jax.jacfwd(function)(vector), vector)

    return jax.lax.custom_root(balance, jnp.zeros(wins.shape[0], wins.dtype), solve, solve_linear)


@functools.partial(jax.jit, static_argnames="link")
def btl_scores_of_many(
    wins: Float[Array, "N K K"],
    start: Float[Array, "N K"] | None = None,
    *,
    prior: Float[ArrayLike, ""] = 0.0,
    tolerance: float = 1e-5,
    link: Link | None = None,
) -> Solution:
    """Hundreds of fits at once, each from its own start if given; every field of `Solution` has a leading axis."""
    link = BTL() if link is None else link
    wins = jnp.asarray(wins, float)

    number = functools.partial(jnp.asarray, dtype=wins.dtype)

    def one(job):
        return maximise(WinMatrix(wins=job[0]), link, number(prior), job[1], number(tolerance))

    return jax.lax.map(one, (wins, start), batch_size=20)
