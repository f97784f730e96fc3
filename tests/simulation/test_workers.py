"""How `simulate` keeps its lanes busy, and what survives an interrupt, a kill, or other devices."""

import concurrent.futures
import os
import re
import signal
import socket
import subprocess
import sys
import time

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

import jaxrank as jr
from jaxrank.simulation import lanes, workers
from jaxrank.simulation import simulate as engine

# How trials are driven and kept; in 64 bit the tests of `simulate` do for it.
pytestmark = pytest.mark.once

MEANS = np.array([0.8, 0.6, 0.45, 0.3, 0.1])
EASY = {"num_items": 5, "boundaries": (1, 3), "delta": 0.1, "epsilon": 0.2}


def simulate(**options):
    return jr.simulate(
        jax.random.key(3), jr.LUCBRank(**EASY), jr.BernoulliArms(means=MEANS), **{"num_trials": 40, **options}
    )


@pytest.fixture(scope="module")
def whole():
    return simulate()


PROGRAM = """
import sys, jax, numpy as np, jaxrank as jr
from jaxrank.simulation import workers
workers.SAVE_SECONDS = 0.05
algorithm = jr.{name}(num_items=5, boundaries=(1, 3), delta=0.1, epsilon=0.01)
arms = jr.BernoulliArms(means=np.array([0.8, 0.6, 0.45, 0.3, 0.1]))
runs = jr.simulate(jax.random.key(0), algorithm, arms, num_trials={trials}, resume_file=sys.argv[1], num_lanes=64)
runs.save(sys.argv[2])
"""


def start_and_signal(program, file, out, number, times=1):
    """Run the program until some trials are saved, then send it a signal; its exit code and what it said."""
    command = [sys.executable, "-c", program, str(file), str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 150
    while time.monotonic() < deadline and not (file.exists() and file.stat().st_size > 40_000):
        time.sleep(0.01)
    for _ in range(times):
        process.send_signal(number)
        time.sleep(0.3)
    _, said = process.communicate(timeout=100)
    return process.returncode, said


@pytest.mark.parametrize("name", ["LUCBRank", pytest.param("EvidenceRank", marks=pytest.mark.slow)])
def test_killed_in_the_middle_and_started_again_gives_the_identical_file(name, tmp_path):
    program = PROGRAM.format(name=name, trials=3_000)
    file, killed, straight = (tmp_path / name for name in ("file", "killed.npz", "straight.npz"))
    assert start_and_signal(program, file, killed, signal.SIGKILL)[0] == -signal.SIGKILL
    assert not killed.exists()
    for saved, out in [(file, killed), (tmp_path / "another", straight)]:
        subprocess.run([sys.executable, "-c", program, str(saved), str(out)], check=True, capture_output=True)
    assert killed.read_bytes() == straight.read_bytes()


def test_ctrl_c_finishes_what_is_under_way(tmp_path):
    """The trials that come back are the first ones, without a gap, as an uninterrupted run has them."""
    out = tmp_path / "some.npz"
    code, said = start_and_signal(
        PROGRAM.format(name="LUCBRank", trials=200_000), tmp_path / "file", out, signal.SIGINT
    )
    assert code == 0, said
    assert re.search(r"interrupted: finishing \d+ trials under way, starting no other; Ctrl-C again stops", said)
    some = jr.Runs.load(out)
    assert 0 < len(some.trial) < 200_000
    assert len(some.samples) == len(some.trial)
    np.testing.assert_array_equal(some.trial, np.arange(len(some.trial)))
    assert some.interrupted
    assert not some.biased
    algorithm = jr.LUCBRank(**{**EASY, "epsilon": 0.01})
    for place in (0, len(some.trial) - 1):
        trial_key = jax.random.fold_in(jax.random.key(0), some.trial[place])
        alone = jr.run(trial_key, algorithm, jr.BernoulliArms(means=MEANS))
        assert int(alone.samples) == some.samples[place]


def test_a_second_ctrl_c_stops_at_once_and_says_that_short_trials_are_over_represented(monkeypatch):
    """Trials of very different length; the interrupts come after the first hundred are done."""
    pressed = []

    def wait(futures, timeout=None, wait=concurrent.futures.wait):
        if timeout is None:
            return wait(futures)
        wait(futures, timeout=0.01)
        if len(pressed) < 2 and queues[0].num_finished >= 100:
            pressed.append(True)
            raise KeyboardInterrupt
        return None

    queues = []
    monkeypatch.setattr(engine, "JobQueue", lambda *arguments: queues.append(workers.JobQueue(*arguments)) or queues[0])
    monkeypatch.setattr(workers.concurrent.futures, "wait", wait)
    algorithm = jr.LUCBRank(**{**EASY, "epsilon": 0.001})
    runs = jr.simulate(jax.random.key(0), algorithm, jr.BernoulliArms(means=MEANS), 10**5, chunk_rounds=64)
    assert runs.interrupted
    assert runs.biased
    assert 100 <= len(runs.trial) < 10**5


def test_an_interrupt_leaves_whole_trials_of_all_instances(monkeypatch):
    def wait(futures, timeout=None, wait=concurrent.futures.wait):
        if timeout is not None and queues[0].num_finished >= 20 and not queues[0].closing.is_set():
            raise KeyboardInterrupt
        return wait(futures, timeout=timeout)

    queues = []
    monkeypatch.setattr(engine, "JobQueue", lambda *arguments: queues.append(workers.JobQueue(*arguments)) or queues[0])
    monkeypatch.setattr(workers.concurrent.futures, "wait", wait)
    stacked = jr.BernoulliArms(means=np.stack([MEANS, MEANS[::-1], MEANS]))
    runs = jr.simulate(jax.random.key(0), jr.LUCBRank(**EASY), stacked, 50_000, num_lanes=8)
    assert 6 <= len(runs.trial) < 50_000
    assert runs.samples.shape == (3, len(runs.trial))
    assert not runs.biased
    np.testing.assert_array_equal(runs.samples[0], runs.samples[2])


def test_chunks_grow_while_few_lanes_finish_and_shrink_when_many_do():
    assert workers.next_rounds(64, 0.0, 0.01) == 128
    assert workers.next_rounds(64, 0.05, 0.01) == 64
    assert workers.next_rounds(64, 0.0, 0.2) == 64
    assert workers.next_rounds(64, 0.1, 0.01) == 32
    assert workers.next_rounds(1024, 0.0, 0.6) == 512
    assert workers.next_rounds(16, 0.9, 0.01) == 16
    assert workers.next_rounds(2**20, 0.0, 0.01) == 2**20


def test_lanes_of_a_core_or_device():
    assert engine.share_of_lanes(10**6, 15, 2, None) == 64
    assert engine.share_of_lanes(70, 15, 2, None) == 64
    assert engine.share_of_lanes(10, 15, 2, None) == 8
    assert engine.share_of_lanes(10**6, 10**4, 2, None) == 6
    assert engine.share_of_lanes(10**6, 10**6, 2, None) == 1
    assert engine.share_of_lanes(1, 15, 2, None) == 1
    assert engine.share_of_lanes(10**6, 15, 2, 7) == 4
    assert engine.share_of_lanes(20, 15, 2, 100_000) == 16


def test_an_error_in_a_worker_reaches_the_caller(monkeypatch):
    def fail(*arguments):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(lanes, "chunk", fail)
    with pytest.raises(RuntimeError, match="out of memory"):
        simulate()


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_the_chunk_lowers_for_accelerators(platform):
    """Lowered, not run: nothing that only a CPU can do has crept in."""
    mesh = Mesh(np.asarray(jax.local_devices()[:1]), (lanes.AXIS,))
    program, plan, _ = lanes.split_settings(jr.LUCBRank(**EASY), jr.Duels.btl(np.linspace(1, 0, 5)), mesh)

    plan = plan._replace(one_kernel=False)

    def whole_chunk(job, seed):
        row = lanes.fill(job, jax.random.key(seed), 8, program, plan)
        row, standing = lanes.chunk(row, jnp.full(8, 100), jnp.asarray(100), jnp.asarray(50), program, plan)
        return standing, lanes.results(row, program, plan)

    exported = jax.export.export(jax.jit(whole_chunk), platforms=[platform])(jnp.arange(8), jnp.asarray(0))
    assert exported.platforms == (platform,)
    assert "stablehlo.while" in exported.mlir_module()


DEVICES = """
import jax, numpy as np, jaxrank as jr
algorithm = jr.LUCBRank(num_items=5, boundaries=(1, 3), delta=0.1, epsilon=0.2)
arms = jr.BernoulliArms(means=np.array([0.8, 0.6, 0.45, 0.3, 0.1]))
runs = jr.simulate(jax.random.key(3), algorithm, arms, num_trials=40, num_lanes=7, record_at=(50,))
print(runs.samples.tolist(), jax.device_count())
"""


def test_sharded_over_two_devices_in_one_process(whole):
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    done = subprocess.run([sys.executable, "-c", DEVICES], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{whole.samples.tolist()} 2"


PROCESS = """
import sys, jax
jax.distributed.initialize(f"127.0.0.1:{sys.argv[1]}", num_processes=2, process_id=int(sys.argv[2]))
import numpy as np, jaxrank as jr
algorithm = jr.LUCBRank(num_items=5, boundaries=(1, 3), delta=0.1, epsilon=0.2)
arms = jr.BernoulliArms(means=np.array([0.8, 0.6, 0.45, 0.3, 0.1]))
runs = jr.simulate(jax.random.key(3), algorithm, arms, num_trials=41)
print(runs.samples[:40].tolist(), len(runs.trial))
"""


def test_two_processes_merge_to_the_result_of_one(whole):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-c", PROCESS, str(port)]
    started = [subprocess.Popen([*command, str(n)], stdout=subprocess.PIPE, text=True) for n in (0, 1)]
    outputs = [process.communicate(timeout=120)[0] for process in started]
    for process, output in zip(started, outputs, strict=True):
        assert process.returncode == 0
        # The transport greets on standard output first.
        assert output.splitlines()[-1] == f"{whole.samples.tolist()} 41"
