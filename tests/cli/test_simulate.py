import json
import os
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import jaxrank as jr
from jaxrank.cli.app import app

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setattr("jaxrank.keep_compiled_programs", lambda: None)


def call(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_default_is_experiment_1():
    done = call("simulate", "--trials", 20, "--epsilon", 0.1)
    assert done.exit_code == 0, done.output
    assert "[Experiment 1 of the paper]" in done.output
    assert "mistake rate" in done.output
    assert "Try next" in done.output
    bars = [line for line in done.output.splitlines() if "█" in line]
    assert len(bars) == 15
    # The two items at the first boundary are sampled most; their bars are the longest.
    longest = sorted(bars, key=lambda line: -line.count("█"))[:2]
    assert {line.split()[1] for line in longest} == {"2", "3"}


def test_json_matches_the_library(tmp_path):
    out = tmp_path / "runs.npz"
    items = ["--means", "0.9,0.5,0.1", "--boundaries", "1,2", "--epsilon", 0.2]
    done = call("simulate", *items, "--trials", 6, "--seed", 4, "--json", "--out", out)
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    import jax

    arms = jr.BernoulliArms(means=np.array([0.9, 0.5, 0.1]))
    setting = {"num_items": 3, "boundaries": (1, 2), "delta": 0.1, "epsilon": 0.2}
    runs = jr.simulate(jax.random.key(4), jr.EvidenceRank(**setting), arms, num_trials=6)
    assert report["algorithm"] == "EvidenceRank"
    assert report["alpha"] is None
    assert report["samples_mean"] == runs.samples.mean()
    assert report["boundaries"] == [1, 2]
    np.testing.assert_array_equal(jr.Runs.load(str(out)).samples, runs.samples)
    paper = jr.simulate(jax.random.key(4), jr.LUCBRank(**setting, alpha=1.5), arms, num_trials=6)
    done = call("simulate", *items, "--trials", 6, "--seed", 4, "--json", "--algorithm", "lucbrank", "--alpha", 1.5)
    assert json.loads(done.stdout)["samples_mean"] == paper.samples.mean()


@pytest.mark.slow
def test_boundaries_can_be_found():
    items = ["--means", "0.95,0.9,0.5,0.45,0.1", "--algorithm", "gaprank", "--trials", 5]
    done = call("simulate", *items, "--largest", 2, "--smallest", 1, "--clusters", 3, "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["algorithm"] == "GapRank"
    assert report["boundaries"] == [2, 4]
    assert report["found"] == [{"boundaries": [2, 4], "trials": 5}]
    assert report["mistakes"] == 0
    done = call("simulate", *items)
    assert "widest gaps after ranks (2,)" in done.output
    assert "found             (2,) in 5 of 5 trials" in done.output


def test_scores_from_a_file_and_an_exhausted_budget(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("item,score\na,2.0\nb,1.0\nc,0.0\nd,-3\n")
    done = call("simulate", "--scores", path, "--clusters", 2, "--trials", 3, "--budget", 50)
    assert done.exit_code == 0, done.output
    assert "duels (BTL)" in done.output
    assert "3 of 3 trials spent their budget of 50" in done.output


def test_help_does_not_load_jax():
    program = (
        "import sys; sys.argv = ['jaxrank', 'simulate', '--help']\n"
        "from jaxrank.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "assert 'jax' not in sys.modules and 'numpy' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--epsilon" in done.stdout


def test_version():
    assert call("--version").output.strip() == f"jaxrank {jr.__version__}"


@pytest.mark.slow
def test_compiled_programs_are_kept_in_the_users_cache_folder(tmp_path):
    command = [
        sys.executable,
        "-c",
        "from jaxrank.cli import main; main()",
        "simulate",
        "--trials",
        "2",
        "--epsilon",
        "0.5",
    ]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    first = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    kept = {path.name for path in (tmp_path / "jaxrank" / "compiled").iterdir() if "chunk" in path.name}
    assert kept
    second = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert second.stdout == first.stdout
    assert {p.name for p in (tmp_path / "jaxrank" / "compiled").iterdir() if "chunk" in p.name} == kept


def test_resume_file_on_the_command_line(tmp_path):
    options = ["simulate", "--trials", 4, "--epsilon", 0.3, "--json", "--resume-file", tmp_path / "trials"]
    first = call(*options, "--lanes", 2, "--chunk", 50)
    assert first.exit_code == 0, first.output
    assert (tmp_path / "trials").stat().st_size > 0
    assert call(*options).stdout == first.stdout
    other = call(*options, "--seed", 1)
    assert other.exit_code == 2
    assert "--resume-file must belong to the same simulation" in other.stderr


@pytest.mark.parametrize("biased", [False, True])
def test_an_interrupt_is_said_and_ends_with_130(biased, monkeypatch):
    def interrupted(*arguments, **options):
        runs = simulate(*arguments, **options)
        return runs._replace(interrupted=True, biased=biased)

    simulate = jr.simulate
    monkeypatch.setattr(jr, "simulate", interrupted)
    options = ["simulate", "--means", "0.9,0.1", "--clusters", 2, "--trials", 5]
    done = call(*options)
    assert done.exit_code == 130
    assert "INTERRUPTED: 5 of 5 trials finished" in done.output
    assert ("short ones are over-represented" in done.output) == biased
    report = json.loads(call(*options, "--json").stdout)
    assert (report["interrupted"], report["biased"]) == (True, biased)
