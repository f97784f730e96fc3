"""`simulate`: many trials at once, in lanes that are refilled as trials finish.

A jitted chunk advances all lanes by some rounds; between chunks finished lanes hand in their results and take the next
trial from the queue. Shapes never change, so nothing recompiles, and what the device holds is set by the number of
lanes, not of trials. A few workers, one per core on a single CPU device, each drive lanes of their own.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from jaxrank.core import checks
from jaxrank.core.atomic_write import atomic_write
from jaxrank.core.protocol import Algorithm, Environment
from jaxrank.simulation.lanes import AXIS, split_settings
from jaxrank.simulation.results_file import ResultsFile
from jaxrank.simulation.setting import prepare
from jaxrank.simulation.trial import TRIALS_VERSION, Run
from jaxrank.simulation.workers import JobQueue, Task, run_workers


class Runs(NamedTuple):
    """Results of many trials: every field of `Run` with a leading trial axis, after an instance axis if any.

    Attributes:
      samples: answers that each trial asked for.
      rounds: rounds of each trial, as the algorithm counts them.
      done: whether the guarantee was reached; False where the budget ended first.
      order: items, best first; trials x items.
      pulls: answers about every item; trials x items.
      means: empirical mean of every item; trials x items.
      found_boundaries: boundaries that the algorithm found by itself; empty if they were given.
      record_at: the sample budgets at which orders were recorded; empty if none were asked for.
      recorded_orders: order at the first round that reached each of them, held after a stop; trials x budgets x items.
      trial: which trials these are: all of them, unless the simulation was interrupted.
      interrupted: whether Ctrl-C was pressed.
      biased: whether short trials are over-represented, because some trials were given up while later ones had already
        finished; mean samples are then too low. After a single Ctrl-C nothing is given up.

    Example:
      >>> arms = jr.BernoulliArms(means=[0.1, 0.9, 0.5])
      >>> runs = jr.simulate(jax.random.key(0), jr.Uniform(num_items=3), arms, num_trials=4, max_samples=30)
      >>> runs.samples.tolist(), runs.order.shape
      ([30, 30, 30, 30], (4, 3))
    """

    samples: np.ndarray
    rounds: np.ndarray
    done: np.ndarray
    order: np.ndarray
    pulls: np.ndarray
    means: np.ndarray
    found_boundaries: np.ndarray
    record_at: np.ndarray
    recorded_orders: np.ndarray
    trial: np.ndarray
    interrupted: bool
    biased: bool

    def save(self, path: str | Path) -> None:
        """Write all arrays to an .npz file.

        Args:
          path: of the file; .npz is added if it does not end so, and an existing file is replaced.
        """
        path = Path(path)
        with atomic_write(path if path.suffix == ".npz" else f"{path}.npz") as temporary:
            np.savez_compressed(temporary, allow_pickle=False, **self._asdict())

    @classmethod
    def load(cls, path: str | Path) -> "Runs":
        """Read what `save` wrote.

        Args:
          path: of the file.

        Returns:
          The same results.
        """
        with np.load(path, allow_pickle=False) as file:
            fields = {name: file[name] for name in cls._fields}
        return cls(**{**fields, "interrupted": bool(fields["interrupted"]), "biased": bool(fields["biased"])})


def simulate(
    key: jax.Array,
    algorithm: Algorithm[Any],
    environment: Environment,
    num_trials: int,
    *,
    max_samples: int | None = None,
    record_at: Sequence[int] = (),
    resume_file: str | Path | None = None,
    mesh: Mesh | None = None,
    num_lanes: int | None = None,
    chunk_rounds: int | None = None,
    progress: bool | str | None = None,
) -> Runs:
    """`num_trials` trials of every instance, each until done or out of budget.

    After the first Ctrl-C no new trial starts; those in progress are finished and returned, and `Runs.trial` says
    which they are. A second one returns at once: short trials are then over-represented, and `Runs.biased`
    says so. With several processes (`jax.distributed`) each takes its share of the trials, and all return the merged
    result.

    Args:
      key: such as `jax.random.key(0)`; trial i uses `fold_in(key, i)`, the same for every instance.
      algorithm: asks the questions. A leading axis on any of its numbers (delta, epsilon, ...) is an instance axis.
      environment: answers them. A leading axis on any of its numbers is the same instance axis.
      num_trials: trials per instance.
      max_samples: budget of a trial; a trial that spends it has `done == False`.
      record_at: increasing sample budgets at which the order is recorded on the way; above `max_samples` it is that at
        the end.
      resume_file: a file (an SQLite database) that keeps finished trials, so that the same call resumes where a killed
        process stopped; a later call may ask for more trials. Rows that were damaged on disk are computed anew.
      mesh: devices to shard the lanes over; by default all devices of this process.
      num_lanes: trials under way at once; by default 64 per core or device, fewer for many items or few trials.
      chunk_rounds: rounds between two checks for finished trials; by default adaptive (`workers.next_rounds`).
      progress: show a bar with rate and remaining time; by default only on a terminal. A string is its label, in place
        of the algorithm's name.

    Returns:
      What came of the trials, as NumPy arrays.

    Example:
      >>> algorithm = jr.EvidenceRank(num_items=3, boundaries=(1,), delta=0.1)
      >>> runs = jr.simulate(jax.random.key(0), algorithm, jr.BernoulliArms(means=[0.1, 0.9, 0.2]), num_trials=20)
      >>> bool(runs.done.all()), set(runs.order[:, 0].tolist())
      (True, {1})
    """
    key, limit = prepare(key, algorithm, environment, max_samples)
    num_trials = checks.whole("num_trials", num_trials, low=1)
    marks = _check_record_at(record_at)
    mesh = Mesh(np.asarray(jax.local_devices()), (AXIS,)) if mesh is None else mesh
    program, plan, num_instances = split_settings(algorithm, environment, mesh)
    num_jobs = (num_instances or 1) * num_trials
    mine = np.arange(jax.process_index(), num_jobs, jax.process_count())

    num_workers = _num_workers(mesh)
    lanes = share_of_lanes(len(mine), algorithm.num_items, num_workers * mesh.size, num_lanes)
    if chunk_rounds is not None:
        chunk_rounds = checks.whole("chunk_rounds", chunk_rounds, low=1)
    task = Task(key, num_trials, program, plan, marks, int(limit), mesh.size * lanes, chunk_rounds)
    # Trial by trial, all instances of one before the next: an interrupt then leaves whole trials.
    queue = JobQueue(mine[np.argsort(mine % num_trials, kind="stable")], num_jobs, task.row_shapes())
    file = None if resume_file is None else _open_file(resume_file, queue, task, mine)
    try:
        label = progress if isinstance(progress, str) else type(algorithm).__name__
        # None leaves it to tqdm, which shows a bar on a terminal only.
        disable = not progress if isinstance(progress, bool) else None
        taken_up = f"{queue.num_finished} from {resume_file}" if queue.num_finished else ""
        run_workers(queue, task, num_workers, file, {"desc": label, "disable": disable, "postfix": taken_up})
    finally:
        if file is not None:
            file.close()
    if jax.process_count() > 1:
        _merge(queue, mine)
    return _results(queue, marks, num_instances, num_trials)


def share_of_lanes(num_jobs: int, num_items: int, num_shares: int, num_lanes: int | None) -> int:
    """How many lanes each core or device gets; `num_lanes` in all, if given.

    Fewer than 64 leave a CPU's vector units half idle, more gain nothing there and make the wait for the last trials
    longer. Many items fill the vector units by themselves, and 2^16 numbers per array the cache. Where there are fewer
    jobs, as many lanes as jobs, rounded up to a power of two: not another program for every small number of trials.
    """
    if num_lanes is None:
        share = max(1, min(64, 2**16 // num_items))
    else:
        share = -(-checks.whole("num_lanes", num_lanes, low=1) // num_shares)
    jobs = max(1, -(-num_jobs // num_shares))
    return min(share, 1 << (jobs - 1).bit_length())


def _num_workers(mesh: Mesh) -> int:
    """One per core on a single CPU device, whose loop leaves the other cores idle; else one for all devices."""
    device = mesh.devices.flat[0]
    if mesh.size > 1 or device.platform != "cpu":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_record_at(record_at: Sequence[int]) -> np.ndarray:
    given = [checks.whole("record_at", mark, low=1) for mark in record_at]
    checks.require(max(given, default=1) < 2**63, "record_at", "must be below 2^63", given)
    marks = np.asarray(given, np.int64)
    checks.require(bool((np.diff(marks) > 0).all()), "record_at", "must be strictly increasing", marks.tolist())
    return marks


def _open_file(path: str | Path, queue: JobQueue, task: Task, mine: np.ndarray) -> ResultsFile:
    """The file of finished trials, with those it already holds handed in."""
    generator = str(jax.random.key_impl(task.key))
    settings = (
        TRIALS_VERSION,
        str(task.plan.treedef),
        task.plan.is_stacked,
        task.limit,
        jnp.result_type(float),
        generator,
    )
    digest = hashlib.sha256(repr(settings).encode())
    digest.update(task.marks.tobytes() + np.asarray(jax.random.key_data(task.key)).tobytes())
    for leaf in (*task.program.shared, *task.program.stacked):
        digest.update(repr(leaf.shape).encode() + np.asarray(leaf).tobytes())
    path = Path(path) if jax.process_count() == 1 else Path(f"{path}.{jax.process_index()}")
    file = ResultsFile(path, digest.hexdigest(), task.row_shapes())
    instance, trial, rows = file.rows
    job = instance * task.num_trials + trial
    # The file may hold more trials than are asked for now, or those of another share.
    wanted = (trial < task.num_trials) & np.isin(job, mine)
    queue.restore(job[wanted], {name: values[wanted] for name, values in rows.items()})
    return file


def _merge(queue: JobQueue, mine: np.ndarray) -> None:
    """Give every process the rows of all the others."""
    count = jax.process_count()
    longest = -(-len(queue.finished) // count)
    padded = np.resize(mine, longest) if len(mine) else np.zeros(longest, int)
    owners = [np.resize(np.arange(p, len(queue.finished), count), longest) for p in range(count)]
    for rows in (*queue.rows.values(), queue.finished):
        gathered = np.asarray(multihost_utils.process_allgather(rows[padded]))
        for owner, part in zip(owners, gathered, strict=True):
            rows[owner] = part


def _results(queue: JobQueue, marks: np.ndarray, num_instances: int | None, num_trials: int) -> Runs:
    instances = num_instances or 1
    finished = queue.finished.reshape(instances, num_trials).all(axis=0)
    fields = {}
    for name, rows in queue.rows.items():
        value = rows.reshape(instances, num_trials, *rows.shape[1:])[:, finished]
        fields[name] = value if num_instances is not None else value[0]
    result = {name: fields[name] for name in Run._fields}
    trial = np.flatnonzero(finished)
    return Runs(
        **result,
        record_at=marks,
        recorded_orders=fields["recorded_orders"],
        trial=trial,
        interrupted=queue.closing.is_set(),
        # Trials are begun in order: without a gap, all that were begun have finished.
        biased=bool(len(trial)) and int(trial[-1]) + 1 > len(trial),
    )
