import functools
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


@pytest.fixture
def answers(tmp_path):
    rng = np.random.default_rng(0)
    names = np.array(["fox", "owl", "elk", "cat", "dog", "bat"])
    truth = np.array([2.0, 1.0, 0.5, 0.0, -1.0, -2.0])
    left = rng.integers(0, 6, 400)
    right = (left + rng.integers(1, 6, 400)) % 6
    first = rng.random(400) < 1 / (1 + np.exp(truth[right] - truth[left]))
    winners, losers = np.where(first, left, right), np.where(first, right, left)
    path = tmp_path / "answers.csv"
    path.write_text(
        "winner,loser\n" + "".join(f"{names[a]},{names[b]}\n" for a, b in zip(winners, losers, strict=True))
    )
    return path


def call(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_table_json_scores_and_picture(answers, tmp_path):
    out, plot = tmp_path / "scores.csv", tmp_path / "scores.png"
    done = call("fit", answers, "--clusters", 3, "--out", out, "--plot", plot)
    assert done.exit_code == 0, done.output
    assert "BTL scores (centred) of 6 items, 400 answers" in done.output
    assert plot.stat().st_size > 10_000
    report = json.loads(call("fit", answers, "--clusters", 3, "--json").stdout)
    fit = jr.fit_btl(jr.Comparisons.read(answers))
    assert [row["item"] for row in report["items"]] == [fit.labels[i] for i in fit.order]
    assert [row["tier"] for row in report["items"]] == [1, 1, 2, 2, 3, 3]
    assert report["items"][0]["score"] == fit.scores.max()
    assert report["items"][0]["interval"] == fit.intervals()[fit.order[0]].tolist()
    assert report["converged"]
    used = call("simulate", "--scores", out, "--clusters", 3, "--trials", 2, "--epsilon", 0.4, "--json")
    assert used.exit_code == 0, used.output
    expected = jr.Duels.btl(fit.scores).means
    np.testing.assert_allclose(json.loads(used.stdout)["true_means"], expected, rtol=1e-5)


def test_warnings_stand_on_top(tmp_path):
    path = tmp_path / "thin.csv"
    path.write_text("a,b\nb,a\na,c\n")
    refused = call("fit", path)
    assert refused.exit_code == 2
    assert "error: scores of largest likelihood do not exist: 'c' never won" in refused.stderr
    kept = call("fit", path, "--prior", 0.5, "--boundaries", "1")
    assert kept.exit_code == 0, kept.output
    assert kept.output.startswith("WARNING: 'c' never won: only the prior keeps their scores finite")
    assert "only 2.0 answers per item" in kept.output
    assert "the boundary after rank 1 is not settled" in kept.output


def test_labels_with_dollars_foreign_letters_and_escape_codes(tmp_path):
    """Drawn and printed letter by letter; matplotlib's warnings would be errors here."""
    path, plot = tmp_path / "odd.csv", tmp_path / "odd.png"
    names = ["$5 & $6", "\u65e5\u672c", "\x1b[31mred"]
    pairs = [(a, b) for a in names for b in names if a != b]
    path.write_text("winner,loser\n" + "".join(f"{a},{b}\n" for a, b in pairs))
    done = call("fit", path, "--plot", plot)
    assert done.exit_code == 0, done.output
    assert "\x1b" not in done.output
    assert "$5 & $6" in done.output
    assert plot.stat().st_size > 5_000


@pytest.mark.parametrize(
    "command", [("fit",), ("plan", "--clusters", 2, "--epsilon", 0.3, "--trials", 10, "--answers")]
)
def test_a_fit_that_does_not_converge_is_said_once(command, answers, monkeypatch):
    monkeypatch.setattr("jaxrank.fit_btl", functools.partial(jr.fit_btl, tolerance=1e-300))
    done = call(*command, answers)
    assert done.exit_code == 0, done.output
    assert done.output.count("did not converge: scores may be off by") == 1
    assert "RuntimeWarning" not in done.output


def test_a_matrix_whose_columns_beat_rows(tmp_path):
    shares = np.array([[0.5, 0.9, 0.95], [0.1, 0.5, 0.8], [0.05, 0.2, 0.5]])
    table, names = tmp_path / "worse.csv", tmp_path / "names.txt"
    np.savetxt(table, shares.T, delimiter=",")
    names.write_text("homicide\narson\nvagrancy\n")
    matrix = ("fit", table, "--matrix", "--labels", names)
    done = call(*matrix)
    assert done.exit_code == 2
    assert "(--answers-per-pair)" in done.output
    done = call(*matrix, "--answers-per-pair", 200, "--transpose")
    assert done.exit_code == 0, done.output
    assert "read so that 'homicide' beat 'vagrancy' 190 times, and lost 10 times" in done.output
    report = json.loads(call(*matrix, "--answers-per-pair", 200, "--transpose", "--json").stdout)
    assert [row["item"] for row in report["items"]] == ["homicide", "arson", "vagrancy"]
    assert call(*matrix, "--answers-per-pair", 200, "--out", names, "--force").exit_code == 2
    assert names.read_text().startswith("homicide")
    done = call("fit", table, "--matrix", "--labels", tmp_path / "none.txt")
    assert "--labels must be a file of names" in done.output
    plan = call("plan", "--answers", *matrix[1:], "--answers-per-pair", 200, "--clusters", 3, "--trials", 5)
    assert "read so that 'vagrancy' beat 'homicide'" in " ".join(plan.output.split()), plan.output
