"""The file of finished trials: taken up again, grown, locked, refused."""

import sqlite3

import chex
import jax
import numpy as np
import pytest

import jaxrank as jr
from jaxrank.simulation import lanes
from jaxrank.simulation import simulate as engine
from jaxrank.simulation.results_file import ResultsFile

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


def test_a_results_file_is_taken_up_again(tmp_path, whole):
    path = tmp_path / "trials"
    chex.assert_trees_all_equal(simulate(resume_file=path), whole)
    for lost in (0, 1, 25, 40):
        with sqlite3.connect(path) as database:
            database.execute("DELETE FROM trials WHERE trial * 7 % 40 < ?", (lost,))
        database.close()
        chex.assert_trees_all_equal(simulate(resume_file=path), whole)
    path.write_bytes(b"")
    chex.assert_trees_all_equal(simulate(resume_file=path), whole)


def test_a_finished_simulation_is_not_run_again_but_may_grow(tmp_path, whole, monkeypatch):
    path = tmp_path / "trials"
    simulate(resume_file=path, num_trials=25)
    chex.assert_trees_all_equal(simulate(resume_file=path), whole)
    monkeypatch.setattr(lanes, "chunk", None)
    chex.assert_trees_all_equal(simulate(resume_file=path), whole)
    fewer = simulate(resume_file=path, num_trials=10)
    np.testing.assert_array_equal(fewer.samples, whole.samples[:10])


def test_a_growing_file_of_stacked_instances(tmp_path):
    stacked = jr.BernoulliArms(means=np.stack([MEANS, MEANS[::-1]]))

    def both(trials, **options):
        return jr.simulate(jax.random.key(3), jr.LUCBRank(**EASY), stacked, trials, **options)

    both(5, resume_file=tmp_path / "trials")
    chex.assert_trees_all_equal(both(9, resume_file=tmp_path / "trials"), both(9))


def test_a_flipped_bit_never_becomes_a_result(tmp_path, whole):
    path = tmp_path / "trials"
    simulate(resume_file=path)
    good, outcomes = path.read_bytes(), []
    for place in np.linspace(200, len(good) - 1, 60, dtype=int):
        damaged = bytearray(good)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        try:
            chex.assert_trees_all_equal(simulate(resume_file=path), whole)
            outcomes.append("right")
        except ValueError as error:
            outcomes.append(str(error))
    assert all(outcome == "right" or "resume_file must" in outcome for outcome in outcomes)
    assert outcomes.count("right") > 30


def test_a_damaged_row_is_computed_anew(tmp_path, whole):
    path = tmp_path / "trials"
    simulate(resume_file=path)
    for damage in ("means = zeroblob(20)", "samples = samples + 1", "trial = 1000", "pulls = NULL", "done = 1 - done"):
        with sqlite3.connect(path) as database:
            assert database.execute(f"UPDATE trials SET {damage} WHERE trial = 7").rowcount == 1
        database.close()
        chex.assert_trees_all_equal(simulate(resume_file=path), whole)


def test_a_file_of_other_trials_is_refused(tmp_path, monkeypatch):
    """A version of the package by which trials differ must not add to it."""
    simulate(resume_file=tmp_path / "trials", num_trials=3)
    monkeypatch.setattr(engine, "TRIALS_VERSION", 10**6)
    with pytest.raises(ValueError, match=r"resume_file must belong .*version of the package's trials"):
        simulate(resume_file=tmp_path / "trials")


def test_what_was_taken_up_is_said_beside_the_bar(tmp_path, monkeypatch):
    said, run_workers = [], engine.run_workers
    monkeypatch.setattr(engine, "run_workers", lambda *rest: said.append(rest[-1]["postfix"]) or run_workers(*rest))
    for trials in (3, 5):
        simulate(resume_file=tmp_path / "trials", num_trials=trials, progress=True)
    assert said == ["", f"3 from {tmp_path / 'trials'}"]


def test_a_results_file_of_another_simulation_is_refused(tmp_path):
    path = tmp_path / "trials"
    simulate(resume_file=path, max_samples=20)
    with pytest.raises(ValueError, match=r"resume_file must belong to the same simulation .*trials' of another one"):
        simulate(resume_file=path, max_samples=21)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] + bytes(len(whole) // 2))
    with pytest.raises(ValueError, match=r"resume_file must be .*, got .*trials"):
        simulate(resume_file=path, max_samples=20)
    path.write_text("item,score\n" + "1,2\n" * 100)
    with pytest.raises(ValueError, match="resume_file must be a file that simulate wrote, got"):
        simulate(resume_file=path)
    path.unlink()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE songs (title)")
    database.close()
    with pytest.raises(ValueError, match=r"resume_file must be a file that simulate wrote, got .*, another database"):
        simulate(resume_file=path)
    with pytest.raises(ValueError, match="resume_file must be a file that can be written, got"):
        simulate(resume_file=tmp_path / "nowhere" / "trials")


def test_a_results_file_has_one_writer(tmp_path):
    path, shapes = tmp_path / "trials", {"samples": ((), np.dtype(int)), "order": ((2,), np.dtype(np.int32))}
    file = ResultsFile(path, "x", shapes)
    with pytest.raises(ValueError, match=r"resume_file must not be in use by another process, got .*trials"):
        ResultsFile(path, "x", shapes)
    file.append(np.zeros(2, int), np.array([3, 1]), {"samples": np.array([7, 8]), "order": np.eye(2, dtype=np.int32)})
    file.close()
    again = ResultsFile(path, "x", shapes)
    again.close()
    instance, trial, rows = again.rows
    order = np.argsort(trial)
    assert (instance.tolist(), trial[order].tolist()) == ([0, 0], [1, 3])
    assert rows["samples"][order].tolist() == [8, 7]
    np.testing.assert_array_equal(rows["order"][order], [[0, 1], [1, 0]])
