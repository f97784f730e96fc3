"""The scores that make the answers most likely: preconditioned L-BFGS, and Newton's method where that is not enough."""

from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from jaxrank.likelihood import AnyArray, List, Scores, Table
from jaxrank.links import Link

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
    stuck: Bool[Array, ""]


class _Step(NamedTuple):
    """How far to go along the direction, and the gradient where the last try led."""

    length: Float[Array, ""]
    """Of the next try."""
    place: Scores
    gradient: Scores
    tries: Int[Array, ""]
    good: Bool[Array, ""]


def maximise(
    data: Table | List, link: Link, prior: Float[Array, ""], start: Scores | None, tolerance: Float[Array, ""]
) -> Solution:
    """Scores of largest likelihood, minus prior / 2 times their squares; pure."""
    return newton(data, link, prior, climb(data, link, prior, start, tolerance), tolerance)


def rough_scores(wins: Float[AnyArray, "K"], losses: Float[AnyArray, "K"]) -> Scores:
    """log((wins + 1/2) / (losses + 1/2)): right for items that met average opponents."""
    return jnp.log((wins + 0.5) / (losses + 0.5))


def climb(
    data: Table | List, link: Link, prior: Float[Array, ""], start: Scores | None, tolerance: Float[Array, ""]
) -> Solution:
    """By L-BFGS. The step is accepted if the slope along it shrank, else mended by the secant rule."""
    wins, losses = data.totals
    start = rough_scores(wins, losses) if start is None else start
    scale = jnp.sqrt((wins + 0.5) * (losses + 0.5) / (wins + losses + 1) + prior)
    method = optax.scale_by_lbfgs(memory_size=5, scale_init_precond=False)

    def step(climb: _Climb) -> _Step:
        def go(step: _Step) -> _Step:
            place = climb.place + step.length * climb.direction
            scores = place / scale
            gradient = (prior * scores - data.gradient(link, scores)) / scale
            slope = jnp.vdot(gradient, climb.direction)
            apart = climb.slope - slope
            secant = jnp.where(apart < 0, climb.slope / jnp.where(apart < 0, apart, 1), 4)
            return _Step(
                length=step.length * jnp.clip(secant, 0.1, 4),
                place=place,
                gradient=gradient,
                tries=step.tries + 1,
                good=jnp.abs(slope) <= 0.9 * jnp.abs(climb.slope),
            )

        start = _Step(one, climb.place, climb.place, jnp.zeros_like(climb.passes), jnp.zeros_like(climb.stuck))
        return jax.lax.while_loop(lambda step: ~step.good & (step.tries < 8), go, start)

    def turn(climb: _Climb) -> _Climb:
        found = step(climb)
        # Optax mixes whole numbers of 32 and 64 bit, which a caller's strict promotion would refuse.
        with jax.numpy_dtype_promotion("standard"):
            move, memory = cast(tuple[Array, optax.OptState], method.update(found.gradient, climb.memory, found.place))
        error = jnp.max(jnp.abs(found.gradient / scale))
        return _Climb(
            place=found.place,
            memory=memory,
            direction=-move,
            slope=-jnp.vdot(found.gradient, move),
            passes=climb.passes + found.tries,
            error=error,
            allowed=jnp.where(climb.passes == 0, error, climb.allowed * SLOW),
            stuck=~found.good,
        )

    def going(climb: _Climb):
        slow = (climb.passes >= 8) & (climb.error > climb.allowed)
        return (climb.error > tolerance) & (climb.passes < PASSES) & ~slow & ~climb.stuck

    # The first turn goes nowhere, and is always accepted: it only looks around.
    place, number, no = start * scale, jnp.zeros((), int), jnp.zeros((), bool)
    one, endless = jnp.ones((), start.dtype), jnp.full((), jnp.inf, start.dtype)
    first = _Climb(place, method.init(place), jnp.zeros_like(place), one, number, endless, endless, no)
    last = jax.lax.while_loop(going, turn, first)
    scores = last.place / scale
    return Solution(
        scores - jnp.mean(scores), last.error, last.passes, jnp.zeros_like(last.passes), last.error <= tolerance
    )


def newton(
    data: Table | List, link: Link, prior: Float[Array, ""], begun: Solution, tolerance: Float[Array, ""]
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
