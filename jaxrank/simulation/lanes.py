"""The device side of `simulate`: a row of lanes, each with a trial under way, advanced in jitted chunks.

Lanes lie on the last axis and are sharded over the devices of a mesh. Each device loops over its own lanes until they
are all at their target; nothing is exchanged inside the loop.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Bool, Int
from numpy.typing import ArrayLike

from jaxrank.core import checks, prng
from jaxrank.simulation.cpu_kernel import compiler_options, one_kernel
from jaxrank.simulation.setting import is_stacked
from jaxrank.simulation.trial import Run, Trial, advance, begin, finished, result_of

AXIS = "lanes"


class Lanes(NamedTuple):
    """Trials under way, and the numbers each has of its own (those of its instance)."""

    trial: Trial
    own: tuple[Array, ...]


class Settings(NamedTuple):
    """Algorithm and environment, taken apart into numbers that all lanes share and numbers stacked by instance."""

    shared: tuple[Array, ...]
    stacked: tuple[Array, ...]


class ProgramStructure(NamedTuple):
    """The static rest of a program taken apart, and the devices it runs on."""

    treedef: Any
    is_stacked: tuple[bool, ...]
    mesh: Mesh
    one_kernel: bool
    """Whether the loop over rounds is compiled to a single kernel."""


def split_settings(algorithm, environment, mesh: Mesh) -> tuple[Settings, ProgramStructure, int | None]:
    """Program, plan and the number of instances, None if there is no instance axis."""
    tree = (algorithm, environment)
    leaves, treedef = jax.tree.flatten(tree)
    leaves = [jnp.asarray(leaf, float) for leaf in leaves]
    flags = tuple(is_stacked(tree))
    counts = {leaf.shape[0] for leaf, flag in zip(leaves, flags, strict=True) if flag}
    checks.require(len(counts) <= 1, "instance axes", "must all have one length", sorted(counts))
    program = Settings(
        shared=tuple(leaf for leaf, flag in zip(leaves, flags, strict=True) if not flag),
        stacked=tuple(leaf for leaf, flag in zip(leaves, flags, strict=True) if flag),
    )
    single = mesh.devices.flat[0].platform == "cpu" and compiler_options() is not None
    return program, ProgramStructure(treedef, flags, mesh, single), (counts.pop() if counts else None)


class ForEveryTrial:
    """Wraps an algorithm or environment written for a single trial, so that its methods take trials on the last axis.

    Every method becomes `jax.vmap` of itself. Numbers that are marked as the trials' own have that axis as well.
    """

    update_every = 1

    def __init__(self, single: Any, is_own: Sequence[bool]):
        self._leaves, self._treedef = jax.tree.flatten(single)
        self._axes = [-1 if own else None for own in is_own]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """The method of this name, over all trials."""

        def call(leaves: list[Array], *arguments: Any) -> Any:
            return getattr(jax.tree.unflatten(self._treedef, leaves), name)(*arguments)

        def over_trials(*arguments: Any) -> Any:
            axes = (self._axes, *[-1] * len(arguments))
            return jax.vmap(call, in_axes=axes, out_axes=-1)(self._leaves, *arguments)

        return over_trials


def _join_settings(plan: ProgramStructure, shared, own) -> tuple[Any, ...]:
    """Algorithm and environment with every lane's own numbers, such that their methods take a row of lanes."""
    shared, own = iter(shared), iter(own)
    things = jax.tree.unflatten(plan.treedef, [next(own) if flag else next(shared) for flag in plan.is_stacked])
    flags = iter(plan.is_stacked)
    is_own = [[next(flags) for _ in jax.tree.leaves(thing)] for thing in things]
    return tuple(t if t.batched else ForEveryTrial(t, flags) for t, flags in zip(things, is_own, strict=True))


def _on_every_device(function, plan: ProgramStructure, shared_arguments: tuple[bool, ...]):
    """`function` on each device's share of the lanes; arguments marked as shared are given whole to every device."""

    def spec(leaf):
        return PartitionSpec(*[None] * (leaf.ndim - 1), AXIS)

    def call(*arguments):
        whole = [jax.tree.map(lambda _: PartitionSpec(), argument) for argument in arguments]
        split = [jax.tree.map(spec, argument) for argument in arguments]
        inputs = tuple(w if shared else s for w, s, shared in zip(whole, split, shared_arguments, strict=True))
        outputs = jax.tree.map(spec, jax.eval_shape(function, *arguments))
        return jax.shard_map(function, mesh=plan.mesh, in_specs=inputs, out_specs=outputs, check_vma=False)(*arguments)

    return call


@functools.partial(jax.jit, static_argnames="plan")
def fill(job: Int[Array, "T"], key, num_trials, program: Settings, plan: ProgramStructure) -> Lanes:
    """Fresh lanes for these jobs; job j is trial j mod num_trials of instance j div num_trials."""

    def fresh(job, key, num_trials, program):
        own = tuple(jnp.moveaxis(leaf[job // num_trials], 0, -1) for leaf in program.stacked)
        algorithm, _ = _join_settings(plan, program.shared, own)
        trial = job % num_trials
        keys = prng.fold_in(jnp.broadcast_to(key, trial.shape), trial)
        return Lanes(trial=begin(keys, algorithm), own=own)

    return _on_every_device(fresh, plan, (False, True, True, True))(job, key, num_trials, program)


@functools.partial(jax.jit, static_argnames="plan", donate_argnums=0)
def refill(lanes: Lanes, fresh: Bool[Array, "T"], job: Int[Array, "T"], key, num_trials, program, plan) -> Lanes:
    """New trials in the lanes marked as fresh."""
    new = fill(job, key, num_trials, program, plan)

    def choose(old, new):
        return jnp.where(fresh.reshape((1,) * (old.ndim - 1) + fresh.shape), new, old)

    return jax.tree.map(choose, lanes, new)


class LaneStatus(NamedTuple):
    """What the host must know of every lane after a chunk."""

    done: Bool[Array, "T"]
    samples: Int[Array, "T"]


def chunk(
    lanes: Lanes,
    target: Int[ArrayLike, "T"],
    limit: Int[ArrayLike, ""],
    rounds: Int[ArrayLike, ""],
    program: Settings,
    plan: ProgramStructure,
) -> tuple[Lanes, LaneStatus]:
    """Advance every lane until its target, at most by so many rounds."""
    return _jitted_chunk(plan.one_kernel)(lanes, target, limit, rounds, program, plan)


def _chunk_program(lanes, target, limit, rounds, program, plan):
    def loop(lanes, target, limit, rounds, program):
        algorithm, environment = _join_settings(plan, program.shared, lanes.own)
        goal = jnp.minimum(limit, target)

        def going(carry):
            count, _, pause = carry
            return (count < rounds) & ~jnp.all(pause)

        every = algorithm.update_every

        def between_updates(turn, trial):
            pause = finished(trial, algorithm, goal) | (trial.state.rounds % every != turn)
            return advance(trial, algorithm, environment, limit, pause, algorithm.tell_between_updates)

        def body(carry):
            """A costly round, then the cheap ones up to the next; a trial in between waits for its turn."""
            count, trial, pause = carry
            trial = advance(trial, algorithm, environment, limit, pause | (trial.state.rounds % every != 0))
            if every > 1:
                trial = jax.lax.fori_loop(1, every, between_updates, trial)
            return count + every, trial, finished(trial, algorithm, goal)

        def turns(start):
            return jax.lax.while_loop(going, body, start)

        start = (jnp.zeros((), int), lanes.trial, finished(lanes.trial, algorithm, goal))
        _, trial, _ = (one_kernel(turns) if plan.one_kernel else turns)(start)
        return lanes._replace(trial=trial), LaneStatus(done=algorithm.done(trial.state), samples=trial.samples)

    return _on_every_device(loop, plan, (False, False, True, True, True))(lanes, target, limit, rounds, program)


@functools.cache
def _jitted_chunk(one_kernel: bool) -> Callable[..., tuple[Lanes, LaneStatus]]:
    options = compiler_options() if one_kernel else None
    return jax.jit(_chunk_program, static_argnames="plan", donate_argnums=0, compiler_options=options)


@functools.partial(jax.jit, static_argnames="plan", donate_argnums=0)
def results(lanes: Lanes, program: Settings, plan: ProgramStructure) -> tuple[Lanes, Run]:
    """The result of every lane as it stands now, lanes on the last axis."""

    def result(lanes, program):
        algorithm, _ = _join_settings(plan, program.shared, lanes.own)
        trial, run = result_of(lanes.trial, algorithm)
        return lanes._replace(trial=trial), run

    return _on_every_device(result, plan, (False, True))(lanes, program)
