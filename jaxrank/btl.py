"""Scores from pairwise answers: `fit_btl`, `fit_thurstone`, and the pure function beneath them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxrank import _checks
from jaxrank.comparisons import Comparisons
from jaxrank.connectivity import is_strong
from jaxrank.fit import ELO, Fit, Scale
from jaxrank.likelihood import Table, data_of
from jaxrank.links import BTL, LINKS, Link
from jaxrank.solver import Solution, maximise, starting_point


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
    _checks.require(scale != "elo", "scale", "must be 'centred' or 'lowest': Elo points are for BTL scores", scale)
    return _fit(comparisons, "thurstone", prior, scale, start, tolerance)


def _fit(comparisons: Comparisons, model, prior, scale, start, tolerance) -> Fit:
    _checks.inside("prior", prior, 0, float("inf"), closed=(True, False))
    _checks.inside("tolerance", tolerance, 0, 1, closed=(False, False))
    _checks.require(scale in ("centred", "lowest", "elo"), "scale", "must be 'centred', 'lowest' or 'elo'", scale)
    _checks.require(len(comparisons.winners) > 0, "comparisons", "must not be empty", "none")
    _checks.require(comparisons.num_items >= 2, "comparisons", "must name at least two items", comparisons.num_items)
    if prior == 0:
        _require_scores(comparisons)
    with jax.enable_x64(True):
        data = data_of(comparisons)
        if start is not None:
            start = np.asarray(start, float)
            rule = f"must be one number for each of the {comparisons.num_items} items"
            _checks.require(start.shape == (comparisons.num_items,), "start", rule, f"shape {start.shape}")
            _checks.inside("start", start, -float("inf"), float("inf"), closed=(False, False))
        solution, likelihood = jax.device_get(_solve(data, LINKS[model], float(prior), start, float(tolerance)))
    scores = solution.scores
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
        log_likelihood=float(likelihood),
        comparisons=comparisons,
    )


@jax.jit
def _solve(data, link, prior, start, tolerance) -> tuple[Solution, Float[Array, ""]]:
    start = starting_point(data) if start is None else start
    prior, tolerance = (jnp.asarray(value, start.dtype) for value in (prior, tolerance))
    solution = maximise(data, link, prior, start, tolerance)
    return solution, data.log_likelihood(link, solution.scores)


def _require_scores(comparisons: Comparisons) -> None:
    """Raise, naming the items, unless the wins link every item with every other in both directions."""
    winners, losers = comparisons._edges()
    enough = 20 * comparisons.num_items
    if len(winners) > 2 * enough:
        # More wins only link more: if a part of the rows is enough, the rest need not be looked at.
        some = slice(None, None, len(winners) // enough)
        if is_strong(winners[some], losers[some], comparisons.num_items):
            return
    if not is_strong(winners, losers, comparisons.num_items):
        raise ValueError(
            f"scores of largest likelihood do not exist: {comparisons.connectivity().explain(comparisons.labels)}. "
            "More answers help; a prior (prior=0.1, say) keeps all scores finite"
        )


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
    table = Table(wins=wins)
    first = starting_point(table) if start is None else jnp.asarray(start, wins.dtype)
    if tolerance is None:
        tolerance = 3e-6 if wins.dtype.itemsize == 4 else 1e-9

    def balance(scores):
        return table.gradient(link, scores) - prior * scores - jnp.mean(scores)

    def solve(_, scores):
        fixed = jax.tree.map(jax.lax.stop_gradient, (table, prior, scores))
        return maximise(fixed[0], link, fixed[1], fixed[2], jnp.asarray(tolerance, wins.dtype)).scores

    def solve_linear(function, vector):
        return jnp.linalg.solve(jax.jacfwd(function)(vector), vector)

    return jax.lax.custom_root(balance, jax.lax.stop_gradient(first), solve, solve_linear)


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

    def one(job):
        table, first = Table(wins=job[0]), job[1]
        first = starting_point(table) if first is None else first
        return maximise(table, link, jnp.asarray(prior, wins.dtype), first, jnp.asarray(tolerance, wins.dtype))

    return jax.lax.map(one, (wins, start), batch_size=20)
