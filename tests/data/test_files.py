"""Files as people have them, each read by the command that docs/fitting.md gives for it."""

import gzip
import io
import json
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import jaxrank as jr
from jaxrank.cli.app import app
from jaxrank.data import tables

pytestmark = pytest.mark.once

PAGE = (Path(__file__).parents[2] / "docs" / "fitting.md").read_text()
WINS = [("a", "b"), ("a", "b"), ("b", "a"), ("b", "c"), ("c", "a"), ("c", "b"), ("a", "c")]
"""The same seven answers in every file."""
WINNERS, LOSERS = map(list, zip(*WINS, strict=True))


def lines(rows, mark=","):
    return "\n".join(mark.join(map(str, row)) for row in rows) + "\n"


def sides(rows, code):
    """Left, right and who won, coded; every other row has the winner on the right."""
    return [(a, b, code[0]) if place % 2 else (b, a, code[1]) for place, (a, b) in enumerate(rows)]


def parquet():
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"winner": WINNERS, "loser": LOSERS}), buffer)
    return buffer.getvalue()


PAIRS = "winner,loser\n" + lines(WINS)
MATRIX = [[0, 2, 1], [1, 0, 1], [1, 1, 0]]
CASES = {
    "answers.csv": PAIRS,
    "list.txt": lines(WINS, "  "),
    "essays.csv --columns left=essay_1,right=essay_2,winner=better,rater=judge": "essay_1,essay_2,better,judge\n"
    + lines([(b, a, a, f"judge {place % 2}") for place, (a, b) in enumerate(WINS)]),
    "plain.csv --columns winner=2,loser=4": lines([(7, a, "over", b) for a, b in WINS]),
    "coded.csv": "left,right,winner\n" + lines(sides(WINS, (1, 2))),
    "bits.csv --outcomes left=1,right=0": "left,right,winner\n" + lines(sides(WINS, (1, 0))),
    "survey.csv": "left,right,winner,age\n"
    + lines([*[(*row, "NA") for row in sides(WINS, ("left", "right"))], ("a", "b", "NA", 31), ("a", "c", "", 20)]),
    "wins.csv": ",a,b,c\n" + lines([(name, *row) for name, row in zip("abc", MATRIX, strict=True)]).replace("0", "NA"),
    "wins.txt --matrix": lines(MATRIX, " "),
    "answers.csv.gz": gzip.compress(PAIRS.encode()),
    "answers.parquet": parquet(),
    "answers.jsonl": "\n".join(json.dumps({"winner": a, "loser": b}) for a, b in WINS),
    "-": PAIRS,
}


def call(command, monkeypatch, data=None):
    monkeypatch.setattr("jaxrank.keep_compiled_programs", lambda: None)
    return CliRunner().invoke(app, command.split(), input=data)


@pytest.mark.parametrize("command", CASES)
def test_read_as_it_comes(command, tmp_path, monkeypatch):
    assert f"`jaxrank fit {command}`" in PAGE
    monkeypatch.chdir(tmp_path)
    content = CASES[command]
    data = content.encode() if isinstance(content, str) else content
    name = command.split()[0]
    if name != "-":
        Path(name).write_bytes(data)
    done = call(f"fit {command} --json", monkeypatch, data if name == "-" else None)
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    expected = jr.fit_btl(jr.Comparisons.from_pairs(WINNERS, LOSERS))
    scores = {row["item"]: row["score"] for row in report["items"]}
    numbered = dict(zip("123", "abc", strict=True)) if name == "wins.txt" else {}
    scores = {numbered.get(item, item): score for item, score in scores.items()}
    for label, score in zip(expected.labels, expected.scores, strict=True):
        assert scores[label] == pytest.approx(score, abs=1e-8)
    assert report["answers"] == 7
    assert any("2 rows without an answer were left out" in text for text in report["warnings"]) == (
        name == "survey.csv"
    )
    if name == "essays.csv":
        assert {row["rater"]: row["answers"] for row in report["raters"]} == {"judge 0": 4, "judge 1": 3}


def test_minus_one_zero_and_one(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text("left,right,winner\na,b,1\na,b,-1\na,b,0\n")
    read = jr.Comparisons.read(path)
    np.testing.assert_array_equal(read.matrix(), [[0, 1.5], [1.5, 0]])
    assert (read.total, read.ties) == (3, 1)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-32", "cp1252"])
def test_encodings_without_a_mark(encoding, tmp_path):
    path = tmp_path / "answers.csv"
    path.write_bytes("winner,loser\nKöln,Bonn\nBonn,Köln\n".encode(encoding))
    assert jr.Comparisons.read(path).labels == ("Bonn", "Köln")


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_line_ends(end, tmp_path):
    path = tmp_path / "answers.csv"
    path.write_bytes(PAIRS.replace("\n", end).encode())
    assert jr.Comparisons.read(path).total == 7


@pytest.mark.parametrize("name", ["\\t", "tab", "\t"])
def test_a_tab_by_any_name(name, tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text(PAIRS.replace(",", "\t"))
    assert jr.Comparisons.read(path, delimiter=name).total == 7


def test_data_frames():
    import pandas
    import polars

    columns = {
        "left": ["a", "b", "a"],
        "right": ["b", "c", "c"],
        "winner": ["left", "tie", None],
        "judge": ["x", "y", "x"],
    }

    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return pyarrow.table(columns).__arrow_c_stream__(requested_schema)

    frames = [pandas.DataFrame(columns), polars.DataFrame(columns), pyarrow.table(columns), Stream()]
    for frame in frames:
        read = jr.Comparisons.from_dataframe(frame)
        np.testing.assert_array_equal(read.matrix(), [[0, 1, 0], [0, 0, 0.5], [0, 0.5, 0]])
        assert read.rater_labels == ("x", "y")
        assert read.left_out == {"without an answer": 1}
    with pytest.raises(ValueError, match=r"frame must be a data frame .*, got list"):
        jr.Comparisons.from_dataframe([1, 2])


def test_without_pyarrow(tmp_path, monkeypatch):
    import pandas

    monkeypatch.setattr(tables.importlib.util, "find_spec", lambda name: None)
    frame = pandas.DataFrame({"winner": ["a", "b"], "loser": ["b", "a"], "count": [2, 1]})
    np.testing.assert_array_equal(jr.Comparisons.from_dataframe(frame).matrix(), [[0, 2], [1, 0]])
    (tmp_path / "answers.parquet").write_bytes(parquet())
    with pytest.raises(ValueError, match=r"is a Parquet file, which needs pyarrow: pip install 'jaxrank\[files\]'"):
        jr.Comparisons.read(tmp_path / "answers.parquet")


def test_both_readers_read_the_same(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, 30, (2, 3_000))
    rows = [
        (f'"item, {a}"', f"item {b}", rng.choice(["left", "right", "tie", "NA"]), f"r{rng.integers(5)}")
        for a, b in zip(left, right + 30, strict=True)
    ]
    path = tmp_path / "answers.csv"
    path.write_text("left,right,winner,rater\n" + lines(rows))
    plain = jr.Comparisons.read(path)
    monkeypatch.setattr(tables, "MIN_PYARROW_BYTES", 0)
    assert tables.is_fast(tables.read_table(path))
    fast = jr.Comparisons.read(path)
    for name in ("winners", "losers", "weights", "raters", "tied"):
        np.testing.assert_array_equal(getattr(fast, name), getattr(plain, name))
    assert (fast.labels, fast.rater_labels, fast.left_out) == (plain.labels, plain.rater_labels, plain.left_out)
    # The plain reader knows the line, blank lines included.
    path.write_text("left,right,winner\n\na,b,left\n\na,b,up\n")
    with pytest.raises(ValueError, match=r"line 5: winner must be 'a', 'b', .*, got 'up'"):
        jr.Comparisons.read(path)


def test_exports_raters_and_the_largest_group(tmp_path, monkeypatch):
    path, out = tmp_path / "answers.csv", tmp_path / "scores.csv"
    path.write_text(
        "left,right,winner,judge\n" + lines([(a, b, a, "j") for a, b in WINS]) + "x,y,x,k\ny,x,y,k\nx,a,a,k\n"
    )
    done = call(f"fit {path} --clusters 3 --largest-group --out {out} --top 2", monkeypatch)
    assert done.exit_code == 0, done.output
    assert "only the largest group was fitted; 2 items with 3 answers were left out: 'x', 'y'" in done.output
    assert "... 1 more" in done.output
    head, *rows = out.read_text().splitlines()
    assert head == "item,score,standard_error,low,high,tier"
    fit = jr.fit_btl(jr.Comparisons.read(path).largest_group(strong=True))
    for row, label, score, error in zip(rows, fit.labels, fit.scores, fit.standard_errors, strict=True):
        cells = row.split(",")
        assert cells[0] == label
        assert [float(cell) for cell in cells[1:3]] == pytest.approx([score, error])
    used = call(f"simulate --scores {out} --clusters 3 --trials 2 --epsilon 0.4 --json", monkeypatch)
    np.testing.assert_allclose(json.loads(used.stdout)["true_means"], jr.Duels.btl(fit.scores).means, rtol=1e-5)


def test_a_stray_pair_does_not_take_every_interval(tmp_path):
    answers = jr.Comparisons.from_pairs([*WINNERS, "x", "y"], [*LOSERS, "y", "x"])
    fit = jr.fit_btl(answers, prior=1e-6)
    alone = jr.fit_btl(jr.Comparisons.from_pairs(WINNERS, LOSERS))
    np.testing.assert_allclose(fit.standard_errors[:3], alone.standard_errors, rtol=1e-4)
    assert np.isinf(fit.difference("a", "x").standard_error)
    assert answers.largest_group().labels == ("a", "b", "c")
