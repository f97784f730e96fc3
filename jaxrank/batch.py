"""`simulate`: many trials at once, in lanes that are refilled as trials finish.

A jitted chunk advances all lanes by some rounds; between chunks finished lanes hand in their results and take the
next trial from the queue. Shapes never change, so nothing recompiles, and memory is set by the number of lanes.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from jaxrank import _checks
from jaxrank.simulation import Trial, advance, begin, budget, check_setting, finished, is_stacked, read
from jaxrank.types import Algorithm, Environment


class Runs(NamedTuple):
    """What came of many trials: every field of `Run` with a leading trial axis, after an instance axis if any."""

    samples: np.ndarray
    rounds: np.ndarray
    done: np.ndarray
    order: np.ndarray
    pulls: np.ndarray
    means: np.ndarray
    checkpoints: np.ndarray
    """The sample budgets at which orders were taken; empty if none were asked for."""
    orders: np.ndarray
    """Order at the first round that reached each checkpoint, held after a stop: trials x checkpoints x items."""

    def save(self, path: str) -> None:
        """Write all arrays to an .npz file."""
        np.savez_compressed(path, allow_pickle=False, **self._asdict())

    @classmethod
    def load(cls, path: str) -> "Runs":
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as file:
            return cls(**{name: file[name] for name in cls._fields})


class Lanes(NamedTuple):
    """A batch of trials under way, and the settings each has of its own (its instance)."""

    trial: Trial
    own: tuple[jax.Array, ...]


class Program(NamedTuple):
    """Algorithm and environment taken apart into what all lanes share and what differs by instance."""

    shared: tuple[Any, ...]
    stacked: tuple[Any, ...]


def simulate(
    key: jax.Array,
    algorithm: Algorithm[Any],
    environment: Environment,
    num_trials: int,
    *,
    max_samples: int | None = None,
    checkpoints: Sequence[int] = (),
    num_lanes: int = 1024,
    chunk_rounds: int = 512,
    progress: bool | None = None,
) -> Runs:
    """`num_trials` trials of every instance, each until done or out of budget.

    Args:
      key: trial i uses `fold_in(key, i)`, the same for every instance.
      algorithm: what asks. A leading axis on any of its numbers (delta, epsilon, ...) is an instance axis.
      environment: what answers. A leading axis on any of its numbers is the same instance axis.
      num_trials: trials per instance.
      max_samples: budget of a trial; a trial that spends it has `done == False`.
      checkpoints: increasing sample budgets at which the order is recorded on the way.
      num_lanes: trials under way at once.
      chunk_rounds: rounds between two looks at the lanes.
      progress: show a bar; by default only on a terminal.
    """
    num_trials = _checks.whole("num_trials", num_trials, low=1)
    num_lanes = _checks.whole("num_lanes", num_lanes, low=1)
    chunk_rounds = _checks.whole("chunk_rounds", chunk_rounds, low=1)
    marks = _check_checkpoints(checkpoints)
    check_setting(algorithm, environment, max_samples)
    limit = budget(max_samples)
    program, layout, num_instances = _take_apart(algorithm, environment)

    num_jobs = (num_instances or 1) * num_trials
    num_lanes = min(num_lanes, num_jobs)
    names = ("samples", "rounds", "done", "order", "pulls", "means")
    results: dict[str, np.ndarray] = {}
    orders = np.empty(0, int)
    job = np.arange(num_lanes)
    next_job = num_lanes
    mark = np.zeros(num_lanes, int)
    targets = np.append(marks, int(limit))
    lanes = _fill(key, job, num_trials, program, layout)
    with tqdm(total=num_jobs, unit="trial", disable=None if progress is None else not progress, delay=1) as bar:
        while True:
            lanes, look = _chunk(lanes, program, layout, limit, jnp.asarray(targets[mark], int), chunk_rounds)
            seen = {name: np.moveaxis(np.asarray(value), -1, 0) for name, value in look._asdict().items()}
            if not results:
                results = {n: np.empty((num_jobs, *seen[n].shape[1:]), seen[n].dtype) for n in names}
                orders = np.empty((num_jobs, len(marks), seen["order"].shape[-1]), seen["order"].dtype)
            over = (seen["done"] | (seen["samples"] >= int(limit))) & (job < num_jobs)
            for position in range(len(marks)):
                reached = (mark <= position) & (over | (seen["samples"] >= marks[position])) & (job < num_jobs)
                orders[job[reached], position] = seen["order"][reached]
                mark[reached] = position + 1
            if over.any():
                for name in names:
                    results[name][job[over]] = seen[name][over]
                count = int(over.sum())
                bar.update(count)
                job[over] = next_job + np.arange(count)
                next_job += count
                mark[over] = 0
                if (job >= num_jobs).all():
                    break
                fresh = over & (job < num_jobs)
                if fresh.any():
                    lanes = _refill(lanes, key, job, fresh, num_trials, program, layout)
    lead = (num_trials,) if num_instances is None else (num_instances, num_trials)
    return Runs(
        **{name: value.reshape(*lead, *value.shape[1:]) for name, value in results.items()},
        checkpoints=marks,
        orders=orders.reshape(*lead, *orders.shape[1:]),
    )


def _check_checkpoints(checkpoints: Sequence[int]) -> np.ndarray:
    marks = np.asarray([_checks.whole("checkpoints", mark, low=1) for mark in checkpoints], int)
    _checks.require(bool((np.diff(marks) > 0).all()), "checkpoints", "must be strictly increasing", marks.tolist())
    return marks


class _Layout(NamedTuple):
    """The static part of a taken-apart program."""

    treedef: Any
    stacked: tuple[bool, ...]


def _take_apart(algorithm, environment):
    tree = (algorithm, environment)
    leaves, treedef = jax.tree.flatten(tree)
    leaves = [jnp.asarray(leaf, float) for leaf in leaves]
    stacked = tuple(is_stacked(tree))
    counts = {leaf.shape[0] for leaf, flag in zip(leaves, stacked, strict=True) if flag}
    _checks.require(len(counts) <= 1, "instance axes", "must all have one length", sorted(counts))
    program = Program(
        shared=tuple(leaf for leaf, flag in zip(leaves, stacked, strict=True) if not flag),
        stacked=tuple(leaf for leaf, flag in zip(leaves, stacked, strict=True) if flag),
    )
    return program, _Layout(treedef, stacked), (counts.pop() if counts else None)


def _assemble(layout: _Layout, shared, own):
    shared, own = iter(shared), iter(own)
    return jax.tree.unflatten(layout.treedef, [next(own) if flag else next(shared) for flag in layout.stacked])


@functools.partial(jax.jit, static_argnames="layout")
def _fill(key, job, num_trials, program: Program, layout: _Layout) -> Lanes:
    """Fresh lanes for these jobs; job j is trial j mod num_trials of instance j div num_trials."""
    own = tuple(jnp.moveaxis(leaf[job // num_trials], 0, -1) for leaf in program.stacked)
    algorithm, _ = _assemble(layout, program.shared, own)
    keys = jax.vmap(lambda trial: jax.random.fold_in(key, trial))(job % num_trials)
    return Lanes(trial=begin(keys, algorithm), own=own)


@functools.partial(jax.jit, static_argnames="layout", donate_argnums=0)
def _refill(lanes: Lanes, key, job, fresh, num_trials, program, layout) -> Lanes:
    new = _fill(key, job, num_trials, program, layout)

    def pick(old, new):
        return jnp.where(fresh.reshape((1,) * (old.ndim - 1) + fresh.shape), new, old)

    return jax.tree.map(pick, lanes, new)


@functools.partial(jax.jit, static_argnames="layout", donate_argnums=0)
def _chunk(lanes: Lanes, program, layout, limit, target, chunk_rounds):
    """Advance every lane until its target, or by `chunk_rounds` rounds, and read all of them."""
    algorithm, environment = _assemble(layout, program.shared, lanes.own)
    goal = jnp.minimum(limit, target)

    def going(carry):
        count, _, pause = carry
        return (count < chunk_rounds) & ~jnp.all(pause)

    def body(carry):
        count, trial, pause = carry
        trial = advance(trial, algorithm, environment, limit, pause)
        return count + 1, trial, finished(trial, algorithm, goal)

    start = (jnp.zeros((), int), lanes.trial, finished(lanes.trial, algorithm, goal))
    _, trial, _ = jax.lax.while_loop(going, body, start)
    return lanes._replace(trial=trial), read(trial, algorithm)
