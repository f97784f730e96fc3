"""Every experiment runs at a smoke size, from the command line, and goes on after an interrupt."""

import ast
import dataclasses
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import jaxrank as jr
from jaxrank.cli.app import app
from jaxrank.cli.reproduce import EXPERIMENTS, ON_STREET_VIEW

pytestmark = pytest.mark.once

FOLDER = Path(__file__).parents[2] / "experiments"
HELPERS = {"figure", "instances"}


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """One folder of compiled programs for all experiments of a test process."""
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture
def reproduce(monkeypatch, cache):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(cache))
    return lambda *arguments: CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


@pytest.fixture
def figure(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setattr("jaxrank.keep_compiled_programs", lambda: None)
    import figure

    return figure


def test_the_command_knows_every_experiment():
    assert {path.stem for path in FOLDER.glob("*.py")} - HELPERS == set(EXPERIMENTS)
    for name in EXPERIMENTS:
        text = (FOLDER / f"{name}.py").read_text()
        assert f'name="{name}"' in text
        assert ("on_street_view=True" in text) == (name in ON_STREET_VIEW)
        assert ast.get_docstring(ast.parse(text))


@pytest.mark.parametrize(
    "name", [name if name == "algorithm" else pytest.param(name, marks=pytest.mark.slow) for name in EXPERIMENTS]
)
def test_an_experiment(name, reproduce, tmp_path):
    done = reproduce(name, "--quick", "--out", tmp_path, "--json")
    assert done.exit_code == 0, done.output
    (step,) = json.loads(done.stdout)
    data = json.loads((tmp_path / f"{name}.json").read_text())
    assert data["experiment"] == name
    assert data["versions"]["jaxrank"] == jr.__version__
    assert isinstance(data["config"]["seed"], int)
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    assert "<svg" in (tmp_path / f"{name}.svg").read_text()[:2000]
    assert ("STAND-IN" in step["summary"]) == (name in ON_STREET_VIEW)
    assert ("STAND-IN" in (tmp_path / f"{name}.svg").read_text()) == (name in ON_STREET_VIEW)
    assert not list(tmp_path.glob("*unfinished"))
    for curve in data["result"].get("curves", {}).values():
        assert len(curve["value"]) == len(data["result"]["samples"])
        assert (np.asarray(curve["low"]) <= np.asarray(curve["value"])).all()
        assert (np.asarray(curve["value"]) <= np.asarray(curve["high"])).all()
    if name == "bounds":
        for row in data["result"]["instances"]:
            assert row["theorem_3"] < row["sharp_lower_bound"] < np.mean(row["samples"]) < row["upper_bound"]


@pytest.mark.slow
def test_what_is_there_is_drawn_again_but_not_computed_again(reproduce, tmp_path):
    scores = tmp_path / "scores.csv"
    scores.write_text("\n".join(str(value) for value in np.linspace(0, 4, 100)))
    for path in (None, scores, scores):
        arguments = [] if path is None else ["--scores", path]
        done = reproduce("street_view", "--out", tmp_path, *arguments)
        assert done.exit_code == 0, done.output
        assert ("STAND-IN" in done.stdout) == (path is None)
        if path is not None:
            data = json.loads((tmp_path / "street_view.json").read_text())
            assert "scores.csv" in data["instance"]["name"]
            data["result"]["sum_of_inverse_squared_gaps"] = 7e6
            (tmp_path / "street_view.json").write_text(json.dumps(data))
            (tmp_path / "street_view.png").unlink()
    assert "7.0 million" in done.stdout
    assert "7.0 million" not in reproduce("street_view", "--out", tmp_path, *arguments, "--fresh").stdout


@dataclasses.dataclass(frozen=True)
class Config:
    trials: int = 6
    seed: int = 1


def test_an_interrupted_experiment_goes_on_where_it_was(figure, tmp_path, monkeypatch, capsys):
    arms = jr.BernoulliArms(means=np.asarray([0.9, 0.5, 0.1]))
    algorithm = jr.LUCBRank(num_items=3, boundaries=(1,), delta=0.1, epsilon=0.2)
    asked, stop = [], True

    def compute(config, recorder):
        first = recorder.simulate("first", algorithm, arms, config)
        if stop:
            raise KeyboardInterrupt
        second = recorder.simulate("second", algorithm, arms, config)
        return {"samples": [first.samples.tolist(), second.samples.tolist()]}

    real = jr.simulate

    def simulate(*arguments, resume_file, **settings):
        asked.append((resume_file.stem, resume_file.exists()))
        return real(*arguments, resume_file=resume_file, **settings)

    monkeypatch.setattr(jr, "simulate", simulate)
    experiment = figure.Experiment(
        name="small",
        about="A small one.",
        config=Config(),
        quick=Config(),
        compute=compute,
        draw=lambda data, plt: plt.figure(),
        summary=lambda data: str(data["samples"]),
    )
    monkeypatch.setattr(sys, "argv", ["small", "--out", str(tmp_path / "a")])
    with pytest.raises(SystemExit) as end:
        figure.main(experiment)
    assert end.value.code == 130
    assert "the same command goes on" in capsys.readouterr().err
    stop = False
    figure.main(experiment)
    assert asked == [("first", False), ("first", True), ("second", False)]
    monkeypatch.setattr(sys, "argv", ["small", "--out", str(tmp_path / "b")])
    figure.main(experiment)
    results = [json.loads((tmp_path / folder / "small.json").read_text())["result"] for folder in "ab"]
    assert results[0] == results[1]
    first, second = results[0]["samples"]
    assert first != second


def test_levels_are_read_off_a_curve(figure):
    from against_active_ranking import reached

    marks = np.asarray([100.0, 200.0, 400.0])
    assert reached(np.asarray([0.8, 0.4, 0.2]), marks, 0.4) == pytest.approx(200)
    # Halfway between .4 and .2, so halfway between the logarithms of 200 and 400.
    assert reached(np.asarray([0.8, 0.4, 0.2]), marks, 0.3) == pytest.approx(200 * 2**0.5)
    # A curve that rises again has been there all the same.
    assert reached(np.asarray([[0.3, 0.5, 0.2], [0.9, 0.8, 0.7]]), marks, 0.3).tolist() == [100, np.inf]


def test_bad_input(reproduce, tmp_path):
    done = reproduce("pentile")
    assert done.exit_code == 2
    assert "name must be all, list or one of algorithm" in done.output
    done = reproduce("pentiles", "--scores", tmp_path / "none.csv")
    assert done.exit_code == 2
    assert "scores must be the path of a file" in done.output
    assert "pentiles" in reproduce("list").stdout
    short = tmp_path / "short.csv"
    short.write_text("1\n2\n")
    assert reproduce("street_view", "--scores", short, "--out", tmp_path).exit_code == 1
