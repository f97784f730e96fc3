import json

import numpy as np
import pytest
from typer.testing import CliRunner

import jaxrank as jr
from jaxrank.cli.app import app

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def own_cache(monkeypatch):
    monkeypatch.setattr("jaxrank.keep_compiled_programs", lambda: None)


def call(*arguments):
    return CliRunner().invoke(app, ["plan", *map(str, arguments)])


SMALL = ["--trials", 4, "--epsilon", "0.4,0.3"]


def test_only_the_number_of_items(tmp_path):
    out, plot = tmp_path / "plan.json", tmp_path / "plan.png"
    done = call("--items", 6, "--clusters", 2, "--price", 0.05, "--budget", 60, *SMALL, "--out", out, "--plot", plot)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("NOTE: the scores are an assumption, not your data")
    assert "assumed BTL scores: evenly spread normal quantiles of standard deviation 1" in done.output
    assert "Asking every pair once takes 15 duels (0.75)" in done.output
    assert "With 60 duels (3.00):" in done.output
    assert "cheaper." in done.output
    assert "EvidenceRank, 4 trials per line" in done.output
    assert "Theorem 2" not in done.output
    report = json.loads(out.read_text())
    assert report["forecasts"][0]["cost"] == pytest.approx(0.05 * report["forecasts"][0]["samples"])
    assert plot.stat().st_size > 10_000


def test_json_from_means_is_the_librarys():
    done = call("--means", "0.9,0.5,0.1", "--boundaries", "1,2", *SMALL, "--json", "--seed", 3)
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)
    environment = jr.BernoulliArms(means=np.asarray([0.9, 0.5, 0.1]))
    plan = jr.plan(environment, (1, 2), epsilons=[0.4, 0.3], trials=4, seed=3, progress=False)
    assert [row["samples"] for row in report["forecasts"]] == [row.samples for row in plan.forecasts]
    assert report["all_pairs"] is None
    done = call("--means", "0.9,0.5,0.1", "--boundaries", "1,2", *SMALL, "--seed", 3, "--algorithm", "LUCBRank")
    assert "LUCBRank, alpha 1.1, 4 trials per line" in done.output
    assert "Theorem 2" in done.output
    assert report["lower_bounds"]["0.1"] == pytest.approx(plan.lower_bounds[0.1])


def test_a_pilot(tmp_path):
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, 5, 200), rng.integers(0, 5, 200)
    keep = left != right
    left, right = left[keep], right[keep]
    won = rng.random(len(left)) < 1 / (1 + np.exp(0.8 * (left - right)))
    jr.Comparisons.from_pairs(np.where(won, left, right), np.where(won, right, left)).save(tmp_path / "pilot.csv")
    done = call("--answers", tmp_path / "pilot.csv", "--sizes", "1,3,1", *SMALL)
    assert done.exit_code == 0, done.output
    assert f"BTL scores fitted to {len(left)} answers about 5 items" in done.output


def test_a_pilot_that_is_too_thin(tmp_path):
    pilot = tmp_path / "pilot.csv"
    pilot.write_text("winner,loser\na,b\nb,c\n")
    done = call("--answers", pilot, "--clusters", 2)
    assert done.exit_code == 2
    assert "answers are too few to plan from: scores of largest likelihood do not exist: 'a' never lost" in done.output
    done = call("--answers", pilot, "--clusters", 2, "--prior", 0.5, *SMALL)
    assert done.exit_code == 0, done.output
    assert "the pilot is thin: about 100% of the spread of its scores is noise" in done.output


def test_a_picture_needs_matplotlib(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = call("--plot", "plan.png")
    assert done.exit_code == 2
    assert "plot needs matplotlib, which is not installed: pip install 'jaxrank[plot]'" in done.output


def test_tied_means_say_so():
    done = call("--means", "0.9,0.5,0.5,0.1", "--boundaries", "2", "--trials", 4, "--epsilon", "0.4,0")
    assert done.exit_code == 0, done.output
    assert "(never: means are tied)" in done.output


def test_an_interrupted_plan_shows_only_what_was_simulated(monkeypatch):
    def interrupted(*arguments, **options):
        calls.append(True)
        return jr.simulate(*arguments, **options)._replace(interrupted=len(calls) > 1, biased=len(calls) > 1)

    monkeypatch.setattr("jaxrank.planning.plan.simulate", interrupted)
    settings = ["--means", "0.9,0.5,0.1", "--clusters", 3, "--trials", 4, "--epsilon", "0.4,0.3,0.2", "--budget", 50]
    calls = []
    done = call(*settings)
    assert done.exit_code == 130
    assert "NOTE: interrupted: only what was simulated until then is shown" in done.output
    calls.clear()
    report = json.loads(call(*settings, "--json").stdout)
    assert [(row["epsilon"], row["source"]) for row in report["forecasts"]] == [(0.4, "simulated")]
    assert len(report["verdict"]) == 1
    assert report["at_budget"] is None
