"""Scores from pairwise answers: `fit_btl` and `fit_thurstone` for data sets, `btl_scores` as a pure function."""

import functools
import warnings
from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from jaxrank.core import checks
from jaxrank.core.precision import enable_x64
from jaxrank.data.comparisons import Comparisons
from jaxrank.data.connectivity import has_short_chains, is_strong, is_strong_table
from jaxrank.fitting.banded import band_of, newton_on_band
from jaxrank.fitting.likelihood import EdgeList, data_of
from jaxrank.fitting.result import ELO, Fit, Scale
from jaxrank.fitting.solver import Solution, better_start, lbfgs, maximise, newton, rough_scores
from jaxrank.fitting.win_matrix import AnyArray, Scores, WinMatrix
from jaxrank.stats.links import BTL, LINKS, Link

SINGLE_PRECISION_TOLERANCE = 1e-5
"""Tolerance from which L-BFGS computes each answer's share of the gradient in 32 bit."""
MAX_DENSE_ITEMS = 1_500
"""Largest number of items for which Newton's method solves with a dense matrix."""


def fit_btl(
    comparisons: Comparisons,
    *,
    prior: float = 0.0,
    scale: Scale = "centred",
    start: Float[ArrayLike, "K"] | None = None,
    tolerance: float = 1e-9,
) -> Fit:
    """Fit Bradley-Terry-Luce scores by maximum likelihood: P(i beats j) = 1 / (1 + exp(s_j - s_i)).

    Without a prior, the scores exist if and only if wins lead from every item to every other (Ford 1957). A prior
    keeps them finite in any case.

    Args:
      comparisons: the answers.
      prior: precision of a Gaussian prior on the scores (a ridge penalty of prior / 2 times the sum of their squares);
        0 means none.
      scale: "centred" (mean 0), "lowest" (the lowest score is 0, as in the paper) or "elo" (mean 1500, and odds of ten
        to one for 400 points).
      start: scores to start from (K,), in the units of scale "centred", such as those of a fit to fewer answers. None,
        or a start that is less likely, takes a guess from the wins and losses.
      tolerance: largest error of a score, as the solver estimates it.

    Returns:
      The fit: K scores, with standard errors and a report of the solver.

    Raises:
      ValueError: if the scores do not exist, naming items that never lost, never won or never met.

    Example:
      >>> fit = jr.fit_btl(jr.Comparisons.from_matrix([[0, 30], [10, 0]]))
      >>> fit.scores.round(3).tolist(), fit.converged  # log(3) apart
      ([0.549, -0.549], True)
      >>> fit.standard_errors.round(3).tolist()
      [0.183, 0.183]
    """
    return _fit(comparisons, "btl", prior, scale, start, tolerance)


def fit_thurstone(
    comparisons: Comparisons,
    *,
    prior: float = 0.0,
    scale: Scale = "centred",
    start: Float[ArrayLike, "K"] | None = None,
    tolerance: float = 1e-9,
) -> Fit:
    """Fit Thurstone scores by maximum likelihood: P(i beats j) = Phi((s_i - s_j) / sqrt(2)).

    This is case V: every item's quality varies from answer to answer with independent Gaussian noise of variance 1,
    and the better one wins. Scores exist under the same condition as those of `fit_btl`.

    Args:
      comparisons: the answers.
      prior: precision of a Gaussian prior on the scores; 0 means none.
      scale: "centred" (mean 0) or "lowest" (the lowest score is 0).
      start: centred scores to start from (K,), as for `fit_btl`.
      tolerance: largest error of a score, as the solver estimates it.

    Returns:
      The fit: K scores, with standard errors and a report of the solver.

    Raises:
      ValueError: if the scores do not exist, naming items that never lost, never won or never met.

    Example:
      >>> fit = jr.fit_thurstone(jr.Comparisons.from_matrix([[0, 3], [1, 0]]))
      >>> round(fit.win_probability(0, 1), 4)
      0.75
    """
    checks.require(scale != "elo", "scale", "must be 'centred' or 'lowest': Elo points are for BTL scores", scale)
    return _fit(comparisons, "thurstone", prior, scale, start, tolerance)


def _fit(
    comparisons: Comparisons,
    model: Literal["btl", "thurstone"],
    prior: float,
    scale: Scale,
    start: Float[ArrayLike, "K"] | None,
    tolerance: float,
) -> Fit:
    """Check the arguments, solve, and put the scores on their scale."""
    checks.nonnegative("prior", prior)
    checks.probability("tolerance", tolerance)
    checks.require(scale in ("centred", "lowest", "elo"), "scale", "must be 'centred', 'lowest' or 'elo'", scale)
    checks.require(len(comparisons.winners) > 0, "comparisons", "must not be empty", "none")
    checks.require(comparisons.num_items >= 2, "comparisons", "must name at least two items", comparisons.num_items)
    if start is not None:
        start = np.asarray(start, float)
        rule = f"must be one number for each of the {comparisons.num_items} items"
        checks.require(start.shape == (comparisons.num_items,), "start", rule, f"shape {start.shape}")
        checks.finite("start", start)
    solution = _solve(comparisons, LINKS[model], float(prior), start, float(tolerance))
    scores = np.asarray(solution.scores)
    if scale == "lowest":
        scores = scores - scores.min()
    elif scale == "elo":
        scores = ELO * scores + 1500
    if not solution.converged:
        steps = f"{int(solution.passes)} gradients of L-BFGS and {int(solution.newton_steps)} Newton steps"
        warnings.warn(
            f"the fit did not converge after {steps}: scores may be off by {float(solution.error):.2g} or more",
            RuntimeWarning,
            stacklevel=3,
        )
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


def _solve(
    comparisons: Comparisons, link: Link, prior: float, start: Float[np.ndarray, "K"] | None, tolerance: float
) -> Solution:
    """L-BFGS unless items are linked by long chains only, where it is slow; Newton's method for what is left."""
    with enable_x64(True):
        data = data_of(comparisons, single_precision=tolerance >= SINGLE_PRECISION_TOLERANCE)
        if start is not None:
            start = np.asarray(_better_start(data, link, prior, start))
        if prior > 0 or _require_scores(comparisons, data):
            solution = _on_host(_lbfgs(data, link, prior, start, tolerance))
            if solution.converged:
                return solution
        else:
            scores = np.asarray(rough_scores(comparisons.wins, comparisons.losses)) if start is None else start
            solution = Solution(scores, *map(np.asarray, (np.inf, 0, 0, False)))
        rows = comparisons.added_up()
        if (band := band_of(rows)) is not None:
            return newton_on_band(band, link, prior, solution, tolerance)
        data = WinMatrix(wins=rows.matrix()) if rows.num_items <= MAX_DENSE_ITEMS else data_of(rows)
        return _on_host(_newton(data, link, prior, solution, tolerance))


def _on_host(solution: Solution) -> Solution:
    """The solution as 64-bit NumPy arrays, which stay so where the caller's JAX is in 32 bit."""
    scores, error, *rest = map(np.asarray, solution)
    return Solution(scores.astype(float), error.astype(float), *rest)


@jax.jit
def _better_start(data: WinMatrix | EdgeList, link: Link, prior: float, start: Scores) -> Scores:
    """`better_start`, compiled."""
    return better_start(data, link, jnp.asarray(prior, float), start)


@jax.jit
def _lbfgs(data: WinMatrix | EdgeList, link: Link, prior: float, start: Scores | None, tolerance: float) -> Solution:
    """`lbfgs`, compiled."""
    return lbfgs(data, link, jnp.asarray(prior, float), start, jnp.asarray(tolerance, float))


@jax.jit
def _newton(data: WinMatrix | EdgeList, link: Link, prior: float, begun: Solution, tolerance: float) -> Solution:
    """`newton`, compiled."""
    return newton(data, link, jnp.asarray(prior, float), begun, jnp.asarray(tolerance, float))


def _require_scores(comparisons: Comparisons, data: WinMatrix | EdgeList) -> bool:
    """Raise, naming the items, unless scores exist; return whether short chains of wins link the items."""
    if isinstance(data, WinMatrix):
        close, exist = True, is_strong_table(np.asarray(data.wins))
    else:
        edges = comparisons.edges()
        close = has_short_chains(*edges, comparisons.num_items)
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
    """Compute centred maximum-likelihood scores from a matrix of wins: a pure function, to jit, vmap and differentiate.

    Derivatives by the wins and the prior are those of the maximum (implicit function theorem), not of the iterations.
    Nothing is checked: without a prior, scores that do not exist come back as large numbers.

    Args:
      wins: entry (i, j) is how often item i beat item j (K, K); the diagonal must be 0.
      prior: precision of a Gaussian prior on the scores; 0 means none.
      start: scores to start from (K,), as for `fit_btl`.
      tolerance: largest error of a score, as the solver estimates it; None means 3e-6 in 32 bit and 1e-9 in 64 bit.
      link: the pairwise model; None means BTL.

    Returns:
      The scores (K,), with mean 0.

    Example:
      >>> wins = jnp.array([[0.0, 3.0], [1.0, 0.0]])
      >>> score, slope = jax.value_and_grad(lambda wins: jr.btl_scores(wins)[0])(wins)
      >>> round(float(score), 3), round(float(slope[0, 1]), 3)  # log(3 / 1) / 2, and 1 / (2 * 3)
      (0.549, 0.167)
    """
    link = BTL() if link is None else link
    wins = jnp.asarray(wins, float)
    prior = jnp.asarray(prior, wins.dtype)
    table = WinMatrix(wins=wins)
    first = None if start is None else jax.lax.stop_gradient(jnp.asarray(start, wins.dtype))
    if tolerance is None:
        tolerance = 3e-6 if wins.dtype.itemsize == 4 else 1e-9

    def balance(scores: Scores) -> Scores:
        return table.gradient(link, scores) - prior * scores - jnp.mean(scores)

    def solve(_: Callable[[Scores], Scores], __: Scores) -> Float[AnyArray, "K"]:
        fixed = jax.tree.map(jax.lax.stop_gradient, (table, prior))
        usual = better_start(fixed[0], link, fixed[1], first)
        return maximise(fixed[0], link, fixed[1], usual, jnp.asarray(tolerance, wins.dtype)).scores

    def solve_linear(function: Callable[[Scores], Scores], vector: Scores) -> Scores:
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
    """Fit N data sets at once, as a bootstrap needs it.

    They are solved twenty at a time, which bounds the memory. Nothing is checked, as in `btl_scores`.

    Args:
      wins: one matrix of wins per data set (N, K, K).
      start: scores to start from, per data set (N, K), as for `fit_btl`.
      prior: precision of a Gaussian prior on the scores; 0 means none.
      tolerance: largest error of a score, as the solver estimates it.
      link: the pairwise model; None means BTL.

    Returns:
      The solutions: every field of `Solution` has a leading axis N.

    Example:
      >>> wins = jnp.array([[[0.0, 3.0], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]])
      >>> jr.btl_scores_of_many(wins).scores.shape
      (2, 2)
    """
    link = BTL() if link is None else link
    wins = jnp.asarray(wins, float)

    number = functools.partial(jnp.asarray, dtype=wins.dtype)

    def one(job: tuple[Float[Array, "K K"], Scores | None]) -> Solution:
        data = WinMatrix(wins=job[0])
        start = better_start(data, link, number(prior), job[1])
        return maximise(data, link, number(prior), start, number(tolerance))

    return jax.lax.map(one, (wins, start), batch_size=20)
