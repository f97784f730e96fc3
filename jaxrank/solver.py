"""The scores that make the answers most likely: preconditioned L-BFGS, and Newton's method where that is not enough."""

from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import optax
from jax.scipy.sparse.linalg import cg
from jaxtyping import Array, Bool, Float, Int

from jaxrank.likelihood import List, Scores, Table
from jaxrank.links import Link

PASSES = 40
"""Gradients that L-BFGS may take before Newton's method takes over: on badly connected graphs first-order steps shrink
long before the scores are right."""
NEWTON_STEPS = 40


class Solution(NamedTuple):
    """Scores and how they were found."""

    scores: Scores
    """Centred: their mean is 0."""
    error: Float[Array, ""]
    """Largest step still to go, as estimated by the method that ended the search."""
    passes: Int[Array, ""]
    """Gradients taken by L-BFGS."""
    newton_steps: Int[Array, ""]
    converged: Bool[Array, ""]


class _Climb(NamedTuple):
    """L-BFGS under way, in the variables u = scores * sqrt(D); one gradient per turn."""

    place: Scores
    memory: optax.OptState
    direction: Scores
    slope: Float[Array, ""]
    length: Float[Array, ""]
    passes: Int[Array, ""]
    refused: Int[Array, ""]
    """Steps shortened or lengthened in a row."""
    error: Float[Array, ""]


def maximise(
    data: Table | List, link: Link, prior: Float[Array, ""], start: Scores, tolerance: Float[Array, ""]
) -> Solution:
    """Scores of largest likelihood, minus prior / 2 times their squares; pure."""
    climb = _lbfgs(data, link, prior, start, tolerance)
    centred = climb[0] - jnp.mean(climb[0])
    scores, error, steps = _newton(data, link, prior, centred, climb[1], tolerance)
    return Solution(scores - jnp.mean(scores), error, climb[2], steps, error <= tolerance)


def starting_point(data: Table | List) -> Scores:
    """log((wins + 1/2) / (losses + 1/2)): right for an item that met average opponents."""
    wins, losses = data.totals
    return jnp.log((wins + 0.5) / (losses + 0.5))


def _lbfgs(data, link, prior, start, tolerance):
    """Scores, error and passes. The step is accepted if the slope along it shrank, else mended by the secant rule."""
    wins, losses = data.totals
    scale = jnp.sqrt((wins + 0.5) * (losses + 0.5) / (wins + losses + 1) + prior).astype(start.dtype)
    method = optax.scale_by_lbfgs(memory_size=5, scale_init_precond=False)

    def look(place):
        scores = place / scale
        gradient = (prior * scores - data.gradient(link, scores)) / scale
        return gradient, jnp.max(jnp.abs(gradient / scale))

    def arrive(place, gradient, error, memory, passes) -> _Climb:
        # Optax mixes whole numbers of 32 and 64 bit, which a caller's strict promotion would refuse.
        with jax.numpy_dtype_promotion("standard"):
            step, memory = cast(tuple[Array, optax.OptState], method.update(gradient, memory, place))
        return _Climb(
            place=place,
            memory=memory,
            direction=-step,
            slope=-jnp.vdot(gradient, step),
            length=jnp.ones((), start.dtype),
            passes=passes + 1,
            refused=jnp.zeros_like(passes),
            error=error,
        )

    def going(climb: _Climb):
        return (climb.error > tolerance) & (climb.passes < PASSES) & (climb.refused < 8)

    def turn(climb: _Climb) -> _Climb:
        place = climb.place + climb.length * climb.direction
        gradient, error = look(place)
        slope = jnp.vdot(gradient, climb.direction)
        good = jnp.abs(slope) <= 0.9 * jnp.abs(climb.slope)
        accepted = arrive(place, gradient, error, climb.memory, climb.passes)
        apart = climb.slope - slope
        secant = jnp.where(apart < 0, climb.slope / jnp.where(apart < 0, apart, 1), 4)
        mended = climb._replace(
            length=climb.length * jnp.clip(secant, 0.1, 4),
            passes=climb.passes + 1,
            refused=climb.refused + 1,
        )
        return jax.tree.map(lambda yes, no: jnp.where(good, yes, no), accepted, mended)

    place = start * scale
    first = arrive(place, *look(place), method.init(place), jnp.zeros((), int))
    last = jax.lax.while_loop(going, turn, first)
    return last.place / scale, last.error, last.passes


def _newton(data, link, prior, start, error, tolerance):
    """Newton steps by conjugate gradients, each at most 2 long, until they are shorter than the tolerance."""

    def going(carry):
        _, error, steps = carry
        return (error > tolerance) & (steps < NEWTON_STEPS)

    def turn(carry):
        scores, _, steps = carry
        product, diagonal = data.curvature(link, scores)
        gradient = data.gradient(link, scores) - prior * scores
        # Without a prior constant scores have no curvature, and the gradient has no constant part.
        gradient = gradient - jnp.where(prior > 0, 0, jnp.mean(gradient))
        weight = 1 / jnp.maximum(diagonal + prior, jnp.finfo(scores.dtype).tiny ** 0.5)
        step, _ = cg(
            lambda vector: product(vector) + prior * vector,
            gradient,
            tol=1e-4,
            maxiter=20 * scores.shape[0],
            M=lambda vector: weight * vector,
        )
        step = step - jnp.where(prior > 0, 0, jnp.mean(step))
        size = jnp.max(jnp.abs(step))
        scores = scores + step * jnp.minimum(1, 2 / jnp.maximum(size, 1e-30))
        return scores, size, steps + 1

    return jax.lax.while_loop(going, turn, (start, error, jnp.zeros((), int)))
