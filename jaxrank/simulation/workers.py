"""The host side of `simulate`: workers that keep their lanes filled, and the queue they share."""

import concurrent.futures
import sys
import threading
import time
from collections import deque
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from jaxrank.core.precision import enable_x64
from jaxrank.simulation import lanes
from jaxrank.simulation.lanes import ProgramStructure, Settings
from jaxrank.simulation.results_file import ResultsFile

SAVE_SECONDS = 2.0
"""Finished trials are written to the resume file at least this often, at the end of a chunk."""
IDLE = -1
"""Job of a lane that has nothing left to do."""


class Task(NamedTuple):
    """All that is the same for every worker."""

    key: jax.Array
    num_trials: int
    program: Settings
    plan: ProgramStructure
    marks: np.ndarray
    limit: int
    width: int
    """Lanes of one worker."""
    chunk_rounds: int | None

    def row_shapes(self) -> dict[str, tuple[tuple[int, ...], Any]]:
        """Shape and type of one trial's result, by name."""
        jobs = jax.ShapeDtypeStruct((self.width,), jnp.result_type(int))
        row = jax.eval_shape(
            lambda job: lanes.results(
                lanes.fill(job, self.key, self.num_trials, self.program, self.plan), self.program, self.plan
            )[1],
            jobs,
        )
        shapes = {name: (tuple(leaf.shape[:-1]), leaf.dtype) for name, leaf in row._asdict().items()}
        (num_items,), kind = shapes["order"]
        return {**shapes, "recorded_orders": ((len(self.marks), num_items), kind)}


class JobQueue:
    """Where workers fetch jobs and hand in results; rows are indexed by job."""

    def __init__(self, jobs: np.ndarray, num_jobs: int, row_shapes: dict[str, tuple[tuple[int, ...], Any]]):
        self.rows = {name: np.zeros((num_jobs, *shape), kind) for name, (shape, kind) in row_shapes.items()}
        self.finished = np.zeros(num_jobs, bool)
        self.closing = threading.Event()
        """Set by the first Ctrl-C: nobody takes a new job, and those under way are finished."""
        self.stop = threading.Event()
        """Set by the second one, and at the end: everything under way is dropped."""
        self.total = len(jobs)
        self.num_finished = 0
        self._waiting = deque(jobs.tolist())
        self._unsaved: list[np.ndarray] = []
        self._lock = threading.Lock()
        self.compile_lock = threading.Lock()
        """Held by the worker that compiles, so that the others find its programs instead of compiling them again."""
        self.order_lock = threading.Lock()
        """Held by the worker that takes orders. On two cores, two concurrent programs that factor matrices, as for an
        order by a fitted model, deadlock: each waits for the other's threads."""

    @property
    def num_waiting(self) -> int:
        """Jobs that nobody has taken yet."""
        return len(self._waiting)

    def take(self, count: int) -> np.ndarray:
        """The next jobs, filled up with IDLE."""
        with self._lock:
            available = 0 if self.closing.is_set() else len(self._waiting)
            jobs = [self._waiting.popleft() for _ in range(min(count, available))]
        return np.array(jobs + [IDLE] * (count - len(jobs)), int)

    def submit(self, jobs: np.ndarray, rows: dict[str, np.ndarray]) -> None:
        """Results of finished jobs."""
        for name, values in rows.items():
            self.rows[name][jobs] = values
        with self._lock:
            self.finished[jobs] = True
            self.num_finished += len(jobs)
            self._unsaved.append(jobs)

    @property
    def num_under_way(self) -> int:
        """Jobs that were taken and are not finished."""
        with self._lock:
            return self.total - len(self._waiting) - self.num_finished

    def restore(self, jobs: np.ndarray, rows: dict[str, np.ndarray]) -> None:
        """Results of an earlier session, which need not be worked for or saved again."""
        self.submit(jobs, rows)
        known = set(jobs.tolist())
        with self._lock:
            self._waiting = deque(job for job in self._waiting if job not in known)
            self._unsaved.clear()

    def new_jobs(self) -> np.ndarray:
        """Jobs handed in since the last call."""
        with self._lock:
            jobs, self._unsaved = self._unsaved, []
        return np.sort(np.concatenate(jobs)) if jobs else np.zeros(0, int)


def run_workers(
    queue: JobQueue, task: Task, num_workers: int, file: ResultsFile | None, bar_options: dict[str, Any]
) -> None:
    """Let the workers empty the queue; meanwhile show progress, save, and listen for Ctrl-C."""
    wide = jnp.result_type(float) == jnp.float64

    def worker():
        with enable_x64(wide):
            work(queue, task)

    last_save = time.monotonic()
    with (
        concurrent.futures.ThreadPoolExecutor(num_workers) as pool,
        tqdm(total=queue.total, initial=queue.num_finished, unit="trial", delay=1, **bar_options) as bar,
    ):
        futures = [pool.submit(worker) for _ in range(min(num_workers, max(1, queue.num_waiting)))]
        try:
            while True:
                try:
                    if all(future.done() for future in futures):
                        break
                    concurrent.futures.wait(futures, timeout=0.1)
                    bar.update(queue.num_finished - bar.n)
                    if file is not None and time.monotonic() - last_save > SAVE_SECONDS:
                        _save(queue, task, file)
                        last_save = time.monotonic()
                except KeyboardInterrupt:
                    _interrupt(queue)
        finally:
            queue.stop.set()
            concurrent.futures.wait(futures)
            if file is not None:
                _save(queue, task, file)
        bar.update(queue.num_finished - bar.n)
        for future in futures:
            future.result()


def _interrupt(queue: JobQueue) -> None:
    """The first time, start no new trial; the second time, stop."""
    if queue.closing.is_set():
        queue.stop.set()
        return
    queue.closing.set()
    tqdm.write(
        f"interrupted: finishing {queue.num_under_way} trials under way, starting no other; Ctrl-C again stops at once",
        file=sys.stderr,
    )


def _save(queue: JobQueue, task: Task, file: ResultsFile) -> None:
    jobs = queue.new_jobs()
    if len(jobs):
        rows = {name: rows[jobs] for name, rows in queue.rows.items()}
        file.append(jobs // task.num_trials, jobs % task.num_trials, rows)


def next_rounds(rounds: int, share_over: float, seconds: float) -> int:
    """Length of the next chunk: longer while few lanes finish in one and it is short, shorter when many do.

    A lane that finishes waits for the end of its chunk, half a chunk on average, so a chunk in which 2% of the lanes
    finish wastes 1%. A quarter of a second per chunk keeps progress, saving and Ctrl-C responsive.
    """
    if share_over > 0.08 or seconds > 0.5:
        return max(16, rounds // 2)
    return min(rounds * 2, 2**20) if share_over < 0.02 and seconds < 0.1 else rounds


class RecordedOrders:
    """Orders of every lane of a worker at the sample budgets that it has passed."""

    def __init__(self, task: Task, num_items: int, dtype: Any):
        self._budgets = task.marks
        # A mark above the budget is reached at the end.
        self._targets = np.minimum(np.append(task.marks, task.limit), task.limit)
        self._passed = np.zeros(task.width, int)
        self._orders = np.zeros((task.width, len(task.marks), num_items), dtype)

    @property
    def targets(self) -> np.ndarray:
        """The budget that each lane passes next."""
        return self._targets[self._passed]

    def record(self, order: np.ndarray, live: np.ndarray, over: np.ndarray, samples: np.ndarray) -> None:
        """Keep the orders of lanes that have passed a budget; a finished lane has passed all of them."""
        for position, budget in enumerate(self._budgets):
            reached = live & (self._passed <= position) & (over | (samples >= budget))
            self._orders[reached, position] = order[reached]
            self._passed[reached] = position + 1

    def take(self, over: np.ndarray) -> np.ndarray:
        """The orders of these lanes, which begin anew."""
        self._passed[over] = 0
        return self._orders[over]


def work(queue: JobQueue, task: Task) -> None:
    """Keep a row of lanes busy until the queue has no more jobs."""
    job = queue.take(task.width)
    if (job == IDLE).all():
        return
    orders = queue.rows["order"]
    recorded = RecordedOrders(task, orders.shape[1], orders.dtype)
    rounds = 64 if task.chunk_rounds is None else task.chunk_rounds
    with queue.compile_lock:
        row = _compile_and_fill(job, task)
    while (job != IDLE).any() and not queue.stop.is_set():
        live = job != IDLE
        target = np.where(live, recorded.targets, 0)  # an idle lane is at its target at once
        start = time.monotonic()
        row, status = lanes.chunk(row, _counts(target), _counts(task.limit), _counts(rounds), task.program, task.plan)
        samples = np.asarray(status.samples)
        over = live & (np.asarray(status.done) | (samples >= task.limit))
        if task.chunk_rounds is None:
            rounds = next_rounds(rounds, over.mean(), time.monotonic() - start)
        if not (over | (live & (samples >= target))).any():
            continue
        with queue.order_lock:
            row, results = jax.block_until_ready(lanes.results(row, task.program, task.plan))
        found = {name: np.moveaxis(np.asarray(value), -1, 0) for name, value in results._asdict().items()}
        recorded.record(found["order"], live, over, samples)
        if over.any():
            finished = {name: value[over] for name, value in found.items()}
            queue.submit(job[over], {**finished, "recorded_orders": recorded.take(over)})
            job[over] = queue.take(int(over.sum()))
            row = _refill(row, over & (job != IDLE), job, task)


def _refill(row: lanes.Lanes, fresh: np.ndarray, job: np.ndarray, task: Task) -> lanes.Lanes:
    """New trials in the lanes marked as fresh, if any."""
    if not fresh.any():
        return row
    jobs = _counts(np.maximum(job, 0))
    return lanes.refill(row, fresh, jobs, task.key, task.num_trials, task.program, task.plan)


def _compile_and_fill(job: np.ndarray, task: Task) -> lanes.Lanes:
    """The first row of lanes, sent once through every program without advancing."""
    program, plan, nobody = task.program, task.plan, np.zeros(task.width, bool)
    jobs = _counts(np.maximum(job, 0))
    row = lanes.fill(jobs, task.key, task.num_trials, program, plan)
    row = lanes.refill(row, nobody, jobs, task.key, task.num_trials, program, plan)
    row, _ = lanes.chunk(row, _counts(nobody), _counts(task.limit), _counts(0), program, plan)
    return jax.block_until_ready(lanes.results(row, program, plan))[0]


def _counts(value: Any) -> np.ndarray:
    """Counts in the type that JAX uses for them, so that every call meets the same compiled program."""
    return np.asarray(value, jnp.result_type(int))
