"""Maximum-likelihood scores: preconditioned L-BFGS, then Newton's method where that is too slow."""

from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from jaxrank.fitting.likelihood import EdgeList
from jaxrank.fitting.win_matrix import AnyArray, Scores, WinMatrix
from jaxrank.stats.links import Link

MAX_GRADIENTS = 40
"""Largest number of gradients that L-BFGS takes before Newton's method: on badly connected graphs, first-order steps
become short long before the scores are right."""
MAX_ERROR_RATIO = 0.75
"""Factor by which the error must shrink per step, on average since the first, for L-BFGS to go on."""
MAX_NEWTON_STEPS = 40
"""Largest number of Newton steps."""


class Solution(NamedTuple):
    """Scores, and how they were found.

    Attributes:
      scores: one score per item (K,), with mean 0.
      error: largest step of a score still to go, as estimated by the method that ended the search.
      passes: number of gradients that L-BFGS took.
      newton_steps: number of Newton steps.
      converged: whether the error is at most the tolerance.

    Example:
      >>> found = jr.btl_scores_of_many(jnp.array([[[0.0, 3.0], [1.0, 0.0]]]))
      >>> print(np.asarray(found.scores).round(3), found.converged)
      [[ 0.549 -0.549]] [ True]
    """

    scores: Float[AnyArray, "K"]
    error: Float[AnyArray, ""]
    passes: Int[AnyArray, ""]
    newton_steps: Int[AnyArray, ""]
    converged: Bool[AnyArray, ""]


class _LbfgsState(NamedTuple):
    """State of L-BFGS in the variables scores * scale, which have about unit curvature."""

    place: Scores
    memory: optax.OptState
    direction: Scores
    slope: Float[Array, ""]
    """Derivative along the direction of what L-BFGS minimises, minus the log-likelihood."""
    passes: Int[Array, ""]
    error: Float[Array, ""]
    allowed: Float[Array, ""]
    """Largest error, after a few passes, with which L-BFGS goes on."""
    astray: Bool[Array, ""]
    """Whether the last step hardly lowered the slope along it: time for Newton's method."""


def maximise(
    data: WinMatrix | EdgeList, link: Link, prior: Float[Array, ""], start: Scores | None, tolerance: Float[Array, ""]
) -> Solution:
    """Maximise the log-likelihood minus prior / 2 times the sum of squared scores: L-BFGS, then Newton's method.

    A pure function, to be used under jit and vmap. Scores that do not exist come back as large numbers.

    Args:
      data: the answers.
      link: the pairwise model.
      prior: precision of the Gaussian prior on the scores, at least 0.
      start: scores to start from (K,); None takes `rough_scores`.
      tolerance: largest error of a score, as the solver estimates it.

    Returns:
      The solution.

    Example:
      >>> from jaxrank.fitting.solver import maximise
      >>> from jaxrank.fitting.win_matrix import WinMatrix
      >>> from jaxrank.stats.links import BTL
      >>> data = WinMatrix(wins=jnp.array([[0.0, 3.0], [1.0, 0.0]]))
      >>> found = maximise(data, BTL(), jnp.zeros(()), None, jnp.full((), 1e-5))
      >>> print(np.asarray(found.scores).round(3))  # log(3) apart
      [ 0.549 -0.549]
    """
    return newton(data, link, prior, lbfgs(data, link, prior, start, tolerance), tolerance)


def rough_scores(wins: Float[AnyArray, "K"], losses: Float[AnyArray, "K"]) -> Scores:
    """Guess scores from the wins and losses of every item: log((wins + 1/2) / (losses + 1/2)).

    This is about right for items whose opponents were average; the halves keep it finite.

    Args:
      wins: number of wins of every item (K,).
      losses: number of losses of every item (K,).

    Returns:
      The scores (K,), not centred.

    Example:
      >>> from jaxrank.fitting.solver import rough_scores
      >>> print(np.asarray(rough_scores(np.array([3.0, 1.0]), np.array([1.0, 3.0]))).round(2))
      [ 0.85 -0.85]
    """
    return jnp.log((wins + 0.5) / (losses + 0.5))


def better_start(data: WinMatrix | EdgeList, link: Link, prior: Float[Array, ""], start: Scores | None) -> Scores:
    """The start, or `rough_scores` where they are likelier: where the likelihood is flat, steps lead nowhere."""
    usual = rough_scores(*data.totals)
    if start is None:
        return usual

    def log_posterior(scores: Scores) -> Float[Array, ""]:
        return data.log_likelihood(link, scores) - prior / 2 * jnp.vdot(scores, scores)

    return jnp.where(log_posterior(start) >= log_posterior(usual), start, usual)


def lbfgs(
    data: WinMatrix | EdgeList, link: Link, prior: Float[Array, ""], start: Scores | None, tolerance: Float[Array, ""]
) -> Solution:
    """Maximise as `maximise` does, by L-BFGS with full steps only.

    There is no line search, which would need more gradients. Instead the first step that hardly lowers the slope along
    it ends the search, as does slow progress (`MAX_ERROR_RATIO`, `MAX_GRADIENTS`); see `converged`.

    Args:
      data: the answers.
      link: the pairwise model.
      prior: precision of the Gaussian prior on the scores, at least 0.
      start: scores to start from (K,); None takes `rough_scores`.
      tolerance: largest error of a score, as estimated from the gradient and the preconditioner.

    Returns:
      The solution, perhaps unfinished.

    Example:
      >>> from jaxrank.fitting.solver import lbfgs
      >>> from jaxrank.fitting.win_matrix import WinMatrix
      >>> from jaxrank.stats.links import BTL
      >>> data = WinMatrix(wins=jnp.array([[0.0, 3.0], [1.0, 0.0]]))
      >>> found = lbfgs(data, BTL(), jnp.zeros(()), None, jnp.full((), 1e-3))
      >>> print(np.asarray(found.scores).round(2), found.converged)
      [ 0.55 -0.55] True
    """
    wins, losses = data.totals
    start = rough_scores(wins, losses) if start is None else start
    scale = jnp.sqrt((wins + 0.5) * (losses + 0.5) / (wins + losses + 1) + prior)
    method = optax.scale_by_lbfgs(memory_size=5, scale_init_precond=False)

    def turn(lbfgs: _LbfgsState) -> _LbfgsState:
        place = lbfgs.place + lbfgs.direction
        scores = place / scale
        gradient = (prior * scores - data.gradient(link, scores)) / scale
        # Optax mixes integers of 32 and 64 bit, which a caller's strict promotion would refuse.
        with jax.numpy_dtype_promotion("standard"):
            move, memory = cast(tuple[Array, optax.OptState], method.update(gradient, lbfgs.memory, place))
        error = jnp.max(jnp.abs(gradient / scale))
        # The first step follows the plain gradient. It is halved: between two items a full one overshoots by as much.
        move = move * jnp.where(lbfgs.passes == 0, 0.5, 1).astype(move.dtype)
        return _LbfgsState(
            place=place,
            memory=memory,
            direction=-move,
            slope=-jnp.vdot(gradient, move),
            passes=lbfgs.passes + 1,
            error=error,
            allowed=jnp.where(lbfgs.passes == 0, error, lbfgs.allowed * MAX_ERROR_RATIO),
            astray=jnp.abs(jnp.vdot(gradient, lbfgs.direction)) > 0.9 * jnp.abs(lbfgs.slope),
        )

    def going(lbfgs: _LbfgsState) -> Bool[Array, ""]:
        slow = (lbfgs.passes >= 8) & (lbfgs.error > lbfgs.allowed)
        return (lbfgs.error > tolerance) & (lbfgs.passes < MAX_GRADIENTS) & ~slow & ~lbfgs.astray

    # The first turn has no direction yet: it only computes the gradient at the start.
    place, endless = start * scale, jnp.full((), jnp.inf, start.dtype)
    number, no = jnp.zeros((), int), jnp.zeros((), bool)
    first = _LbfgsState(place, method.init(place), jnp.zeros_like(place), endless, number, endless, endless, no)
    last = jax.lax.while_loop(going, turn, first)
    scores = last.place / scale
    return Solution(
        scores - jnp.mean(scores), last.error, last.passes, jnp.zeros_like(last.passes), last.error <= tolerance
    )


def newton(
    data: WinMatrix | EdgeList, link: Link, prior: Float[Array, ""], begun: Solution, tolerance: Float[Array, ""]
) -> Solution:
    """Take Newton steps from an unfinished solution until they are shorter than the tolerance.

    Every step changes each score by 2 at most, which keeps steps from overshooting where the likelihood is flat.

    Args:
      data: the answers.
      link: the pairwise model.
      prior: precision of the Gaussian prior on the scores, at least 0.
      begun: where to start, such as the solution of `lbfgs`; a finished one is returned as it is.
      tolerance: length of a step, as its largest entry, at which the search ends.

    Returns:
      The solution; `passes` is that of `begun`.

    Example:
      >>> from jaxrank.fitting.solver import lbfgs, newton
      >>> from jaxrank.fitting.win_matrix import WinMatrix
      >>> from jaxrank.stats.links import BTL
      >>> data, prior = WinMatrix(wins=jnp.array([[0.0, 3.0], [1.0, 0.0]])), jnp.zeros(())
      >>> begun = lbfgs(data, BTL(), prior, None, jnp.full((), 0.9))
      >>> found = newton(data, BTL(), prior, begun, jnp.full((), 1e-5))
      >>> print(np.asarray(found.scores).round(3), found.newton_steps > 0)
      [ 0.549 -0.549] True
    """

    def going(solution: Solution) -> Bool[AnyArray, ""]:
        return (solution.error > tolerance) & (solution.newton_steps < MAX_NEWTON_STEPS)

    def turn(solution: Solution) -> Solution:
        scores = jnp.asarray(solution.scores)
        gradient = data.gradient(link, scores) - prior * scores
        # Without a prior the gradient adds up to 0, except for rounding.
        gradient = gradient - jnp.where(prior > 0, 0, jnp.mean(gradient))
        step = data.solve(link, scores, gradient, prior, 1e-4)
        size = jnp.max(jnp.abs(step))
        scores = scores + step * jnp.minimum(1, 2 / jnp.maximum(size, 1e-30))
        return solution._replace(
            scores=scores - jnp.mean(scores),
            error=size,
            newton_steps=solution.newton_steps + 1,
            converged=size <= tolerance,
        )

    return jax.lax.while_loop(going, turn, begun)
