"""The scores that make the answers most likely: preconditioned L-BFGS, and Newton's method where that is not enough."""

from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from jaxrank.fitting.likelihood import AnyArray, EdgeList, Scores, WinMatrix
from jaxrank.stats.links import Link

PASSES = 40
"""Gradients that L-BFGS may take before Newton's method takes over: on badly connected graphs first-order steps shrink
long before the scores are right."""
SLOW = 0.75
"""Factor by which the error must shrink per step, on the whole, for L-BFGS to go on."""
NEWTON_STEPS = 40


class Solution(NamedTuple):
    """Scores and how they were found."""

    scores: Float[AnyArray, "K"]
    """Centred: their mean is 0."""
    error: Float[AnyArray, ""]
    """Largest step still to go, as estimated by the method that ended the search."""
    passes: Int[AnyArray, ""]
    """Gradients taken by L-BFGS."""
    newton_steps: Int[AnyArray, ""]
    converged: Bool[AnyArray, ""]


class _Climb(NamedTuple):
    """L-BFGS under way, in the variables u = scores * sqrt(D)."""

    place: Scores
    memory: optax.OptState
    direction: Scores
    slope: Float[Array, ""]
    """Of the likelihood along the direction; minus it, as L-BFGS goes downhill."""
    passes: Int[Array, ""]
    error: Float[Array, ""]
    allowed: Float[Array, ""]
    """Largest error, after a few passes, for which it is worth while to go on."""
    astray: Bool[Array, ""]
    """Whether the last step did not lower the slope along it: time for Newton's method."""


def maximise(
    data: WinMatrix | EdgeList, link: Link, prior: Float[Array, ""], start: Scores | None, tolerance: Float[Array, ""]
) -> Solution:
    """Scores of largest likelihood, minus prior / 2 times their squares; pure."""
    return newton(data, link, prior, lbfgs(data, link, prior, start, tolerance), tolerance)


def rough_scores(wins: Float[AnyArray, "K"], losses: Float[AnyArray, "K"]) -> Scores:
    """log((wins + 1/2) / (losses + 1/2)): right for items that met average opponents."""
    return jnp.log((wins + 0.5) / (losses + 0.5))


def lbfgs(
    data: WinMatrix | EdgeList, link: Link, prior: Float[Array, ""], start: Scores | None, tolerance: Float[Array, ""]
) -> Solution:
    """By L-BFGS with whole steps: the first step that does not lower the slope along it ends the climb."""
    wins, losses = data.totals
    start = rough_scores(wins, losses) if start is None else start
    scale = jnp.sqrt((wins + 0.5) * (losses + 0.5) / (wins + losses + 1) + prior)
    method = optax.scale_by_lbfgs(memory_size=5, scale_init_precond=False)

    def turn(lbfgs: _Climb) -> _Climb:
        place = lbfgs.place + lbfgs.direction
        scores = place / scale
        gradient = (prior * scores - data.gradient(link, scores)) / scale
        # Optax mixes whole numbers of 32 and 64 bit, which a caller's strict promotion would refuse.
        with jax.numpy_dtype_promotion("standard"):
            move, memory = cast(tuple[Array, optax.OptState], method.update(gradient, lbfgs.memory, place))
        error = jnp.max(jnp.abs(gradient / scale))
        # The first step, a plain gradient's, is halved: between two items a whole one would overshoot by as much again.
        move = move * jnp.where(lbfgs.passes == 0, 0.5, 1).astype(move.dtype)
        return _Climb(
            place=place,
            memory=memory,
            direction=-move,
            slope=-jnp.vdot(gradient, move),
            passes=lbfgs.passes + 1,
            error=error,
            allowed=jnp.where(lbfgs.passes == 0, error, lbfgs.allowed * SLOW),
            astray=jnp.abs(jnp.vdot(gradient, lbfgs.direction)) > 0.9 * jnp.abs(lbfgs.slope),
        )

    def going(lbfgs: _Climb):
        slow = (lbfgs.passes >= 8) & (lbfgs.error > lbfgs.allowed)
        return (lbfgs.error > tolerance) & (lbfgs.passes < PASSES) & ~slow & ~lbfgs.astray

    # The first turn goes nowhere: it only looks around.
    place, endless = start * scale, jnp.full((), jnp.inf, start.dtype)
    number, no = jnp.zeros((), int), jnp.zeros((), bool)
    first = _Climb(place, method.init(place), jnp.zeros_like(place), endless, number, endless, endless, no)
    last = jax.lax.while_loop(going, turn, first)
    scores = last.place / scale
    return Solution(
        scores - jnp.mean(scores), last.error, last.passes, jnp.zeros_like(last.passes), last.error <= tolerance
    )


def newton(
    data: WinMatrix | EdgeList, link: Link, prior: Float[Array, ""], begun: Solution, tolerance: Float[Array, ""]
) -> Solution:
    """Newton steps from an unfinished solution, each at most 2 long, until they are shorter than the tolerance."""

    def going(solution: Solution):
        return (solution.error > tolerance) & (solution.newton_steps < NEWTON_STEPS)

    def turn(solution: Solution) -> Solution:
        scores = jnp.asarray(solution.scores)
        gradient = data.gradient(link, scores) - prior * scores
        # Without a prior the gradient has no constant part, but for rounding.
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
