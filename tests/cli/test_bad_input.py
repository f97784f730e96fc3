"""Bad input on the command line: one line that names the option, the rule and the value; no traceback, no silence."""

import gzip
import re

import pytest
from typer.testing import CliRunner

from jaxrank.cli.app import app

pytestmark = pytest.mark.once

GOOD = "winner,loser\na,b\nb,a\nb,c\nc,b\n"
FILES = {
    "good.csv": GOOD.encode(),
    "empty.csv": b"",
    "blank.csv": b"\n\n  \n",
    "header.csv": b"winner,loser\n",
    "twice.csv": b"winner,loser,winner\na,b,c\n",
    "nul.csv": b"winner,loser\na,b\x00\nb,a\n",
    "binary.csv": bytes(range(1, 256)) * 20,
    "picture.csv": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(range(256)) * 4,
    "mixed.csv": "winner,loser\nKöln,Bonn\n".encode() + "Köln,Ulm\n".encode("cp1252"),
    "self.csv": b"winner,loser\na,a\nb,a\nb,b\n",
    "sides.csv": b"left,right,winner\na,b,left\na,b,up\n",
    "zeros.csv": b"left,right,winner\na,b,1\nb,a,0\n",
    "codes.csv": b"left,right,winner\n1,2,1\n2,3,1\n",
    "huge.csv": b"winner,loser,count\na,b,1e300\nb,a,2\n",
    "negative.csv": b"winner,loser,count\na,b,-1\n",
    "words.csv": b"winner,loser,count\na,b,often\n",
    "gap.csv": b"winner,loser\na,\n",
    "ragged.csv": b"winner,loser\na,b\na\n",
    "strange.csv": b"picture,votes,city,year\n1,2,3,4\n",
    "cut.json": b'{"winner": 1, "loser"',
    "list.json": b"[1, 2]",
    "cut.csv.gz": gzip.compress(GOOD.encode())[:-12],
    "cut.parquet": b"PAR1" + bytes(50),
    "square.csv": b"1,2,3\n4,5,6\n",
    "diagonal.csv": b",a,b\na,3,1\nb,2,0\n",
    "minus.csv": b",a,b\na,0,-1\nb,2,0\n",
    "one_way.csv": b"winner,loser\na,b\na,c\nb,c\n",
    "two_columns.csv": b"item,first,second\na,.9,.1\nb,.2,.8\n",
    "no_header.csv": b"1,.9\n2,.2\n",
    "text.csv": b"score\n1.5\nhigh\n",
    "ragged_scores.csv": b"item,score\na,1\nb\n",
    "latin.csv": "score\n1\n2é\n".encode("cp1252"),
    "large_scores.csv": b"score\n1e308\n-1e308\n",
    "nan_scores.csv": b"score\n1\nnan\n",
}
CASES = [
    ("fit nowhere.csv", "the file of answers must exist, got '.*nowhere.csv', and there is no such file"),
    ("fit .", "the file of answers must be a file, got the folder"),
    ("fit empty.csv", "empty.csv' must hold answers, got an empty file"),
    ("fit blank.csv", "blank.csv' must hold answers, got an empty file"),
    ("fit header.csv", "answers must not be empty, got none"),
    ("fit twice.csv", "columns must have different names, got 'winner' twice"),
    ("fit nul.csv", "must be text or Parquet, got a NUL byte in line 2: a binary or damaged file"),
    ("fit binary.csv", "must be text or Parquet, got a binary file"),
    ("fit picture.csv", "must be text or Parquet, got a NUL byte in line 3: a binary or damaged file"),
    ("fit mixed.csv", r"one encoding, got UTF-8 in line 2 and something else in line 3: .* \(--encoding\)"),
    ("fit good.csv --encoding utf-9", "--encoding must fit '.*good.csv', got 'utf-9'"),
    ("fit good.csv --encoding utf-16", "--encoding must fit '.*good.csv', got 'utf-16'"),
    (
        "fit self.csv",
        r"line 2: an item must not be compared with itself, got 'a' twice; such rows, 2 .*\(--skip-self\)",
    ),
    ("fit sides.csv", "line 3: winner must be 'a', 'b', 'left', 'right', 'model_a', 'model_b' or 'tie', got 'up'"),
    ("fit zeros.csv", r"line 2: winner must be .* got '1'; say which number stands for which side.* \(--outcomes\)"),
    ("fit codes.csv", r"codes of the winner column must be told from the items, .* got 1; .*\(--outcomes\)"),
    ("fit huge.csv", r"line 2: count must be a number from 0 to 1e\+15, got '1e300'"),
    ("fit negative.csv", r"line 2: count must be a number from 0 to 1e\+15, got '-1'"),
    ("fit words.csv", "line 2: count must be a number .*, got 'often'"),
    ("fit gap.csv", "line 2: column 'loser' must not be empty"),
    ("fit ragged.csv", r"line 3: must have 2 columns \(winner, loser\), got 1"),
    ("fit strange.csv", r"the columns must be winner,loser.* got picture, votes, city, year; .* \(--columns\)"),
    ("fit cut.json", "must hold JSON objects such as"),
    ("fit list.json", "line 1: must be a JSON object, got 1"),
    ("fit cut.csv.gz", "must be a whole gzip file"),
    ("fit cut.parquet", "must be a whole Parquet file"),
    ("fit square.csv --matrix", "the table must be square to be a matrix of wins, got 3 columns"),
    ("fit diagonal.csv", "wins must have a diagonal of 0: no item meets itself, got 3 for item 0"),
    ("fit minus.csv", "wins must be finite and at least 0, got -1"),
    ("fit one_way.csv", r"'a' never lost; 'c' never won\. .* finite \(--prior\), or .* \(--largest-group\)"),
    (
        "fit one_way.csv --largest-group",
        "no two items are linked by wins in both directions",
    ),
    ("fit good.csv --delimiter ''", "--delimiter must be one character, or tab or space, got ''"),
    ("fit good.csv --delimiter ab", "--delimiter must be one character, or tab or space, got 'ab'"),
    ("fit good.csv --delimiter \\t", "the columns must be"),
    ("fit good.csv --columns best", "--columns must look like winner=best,loser=worst, got 'best'"),
    ("fit good.csv --columns top=winner", "--columns must name some of winner, loser, .*, got 'top'"),
    ("fit good.csv --columns winner=best", r"--columns must name columns of the file \(winner, loser\), got 'best'"),
    ("fit good.csv --columns winner=7", r"--columns must name columns of the file \(winner, loser\), got '7'"),
    ("fit zeros.csv --outcomes up=1", "--outcomes must say what left, right and tie are, got up"),
    ("fit good.csv --model elo", "--model must be btl or thurstone, got 'elo'"),
    ("fit good.csv --model thurstone --scale elo", "--scale must be 'centred' or 'lowest'"),
    ("fit good.csv --scale tall", "--scale must be 'centred', 'lowest' or 'elo', got tall"),
    ("fit good.csv --prior -1", "--prior must be finite and at least 0, got -1"),
    ("fit good.csv --prior nan", "--prior must not contain NaN"),
    ("fit good.csv --level 95", r"--?level must lie in \(0, 1\), got 95"),
    ("fit good.csv --clusters 2 --boundaries 1", "--boundaries and --clusters exclude each other"),
    ("fit good.csv --clusters 9", "--clusters must be at most the number of items, 3, got 9"),
    ("fit good.csv --clusters 1", "--clusters must be at least 2, got 1"),
    ("fit good.csv --boundaries 5", r"--boundaries must not exceed the number of items, 3, got \(5,\)"),
    ("fit good.csv --top 0", "--top must be at least 1, got 0"),
    ("fit good.csv --plot scores.txt", "--plot must end in .png, .svg or .pdf, got 'scores.txt'"),
    ("fit good.csv --plot nowhere/scores.png", "--plot must be in a folder that exists, got 'nowhere/scores.png'"),
    ("fit good.csv --out nowhere/scores.csv", "--out must be in a folder that exists, got 'nowhere/scores.csv'"),
    ("fit good.csv --out .", "--out must be a file that can be written, got '.'"),
    ("simulate --means 0.5,x", r"--means must be numbers, got 'x' \(entry 2 of '0.5,x'\)"),
    ("simulate --means nowhere.csv", "--means must be numbers such as 0.5,0.4,0.3 or the path of a CSV file"),
    ("simulate --means two_columns.csv", "--means must have a column named mean, or only one column of numbers, got 3"),
    ("simulate --scores no_header.csv", "--scores must have a column named score, or only one column of numbers"),
    ("simulate --scores text.csv", r"--scores must be numbers, got 'high' \(line 3"),
    ("simulate --scores ragged_scores.csv", "--scores must have 2 columns in every line, got 1 in line 3"),
    ("simulate --scores latin.csv", "--scores must be a text file in UTF-8"),
    ("simulate --scores empty.csv", "--scores must not be empty, got 'empty.csv'"),
    ("simulate --scores large_scores.csv --clusters 2", r"--scores must lie in \[-1e\+06, 1e\+06\], got 1e\+308"),
    ("simulate --scores nan_scores.csv --clusters 2", "--scores must not contain NaN, got NaN at index 1"),
    (
        "simulate --means 0.5,0.2",
        "--boundaries, --sizes or --clusters must be given for items of your own, got 2 items",
    ),
    ("simulate --means 0.5,1.2 --clusters 2", r"--means must lie in \[0, 1\], got 1.2"),
    (
        "simulate --means 0.5,0.5 --clusters 2 --epsilon 0",
        "--epsilon must be above 0, or --budget given, where",
    ),
    ("simulate --means 0.5,0.2 --scores 1,2", "--means and --scores exclude each other"),
    ("simulate --sizes 3,3", "sizes must add up to 15 items"),
    ("simulate --boundaries a", "--boundaries must be whole numbers such as 3,12, got 'a'"),
    ("simulate --delta 3", r"--delta must lie in \(0, 1\), got 3"),
    ("simulate --epsilon -1", "--epsilon must be finite and at least 0|--epsilon must lie in"),
    ("simulate --trials 0", "--trials must be at least 1, got 0"),
    ("simulate --budget 0", "--budget must be at least 1, got 0"),
    ("simulate --budget 99999999999", "--budget must be at most .*, what .*-bit counts can hold"),
    ("simulate --lanes 0", "--lanes must be at least 1, got 0"),
    ("simulate --chunk 0", "--chunk must be at least 1, got 0"),
    ("simulate --seed 99999999999999999999", r"--seed must lie in \[0, 4294967295\], got 99999999999999999999"),
    ("simulate --seed -1", r"--seed must lie in \[0, 4294967295\], got -1"),
    ("simulate --out runs.csv", "--out must end in .npz, got 'runs.csv'"),
    ("simulate --out nowhere/runs.npz", "--out must be in a folder that exists"),
    ("simulate --resume-file good.csv --trials 2", "--resume-file must be a file that simulate wrote, got 'good.csv'"),
    (
        "simulate --resume-file nowhere/x --trials 2",
        "--resume-file must be a file that can be written, got 'nowhere/x'",
    ),
    ("simulate --alpha 2", "--alpha belongs to LUCBRank's rate: give --algorithm lucbrank, got EvidenceRank"),
    ("simulate --smallest 2", "--smallest and --largest are limits for GapRank: give --algorithm gaprank"),
    ("simulate --algorithm gaprank --boundaries 3", "--boundaries and --sizes are what GapRank finds"),
    ("simulate --algorithm gaprank --smallest 0", "--smallest must be at least 1, got 0"),
    ("simulate --algorithm gaprank --clusters 99", r"--clusters must lie in \[2, 15\], got 99"),
    ("plan --items 1 --clusters 2", "--items must be at least 2, got 1"),
    ("plan --items 20", "--boundaries, --sizes or --clusters must be given for items of your own"),
    ("plan --items 5 --means 0.1,0.2 --clusters 2", "--means and --items exclude each other"),
    ("plan --means 0.5,1.5 --boundaries 1", r"--means must lie in \[0, 1\], got 1.5"),
    ("plan --plot plan.bmp", "--plot must end in .png, .svg or .pdf, got 'plan.bmp'"),
    ("plan --epsilon a", "--epsilon must be numbers such as 0.2,0.1,0.05, got 'a'"),
    ("plan --delta 2", r"--delta must lie in \(0, 1\), got 2"),
    ("plan --price 0", "--price must be finite and above 0, got 0"),
    ("plan --budget 3", "--budget must be at least 15, got 3"),
    ("plan --trials 1", "--trials must be at least 2, got 1"),
    ("plan --seed -3", r"--seed must lie in \[0, 4294967295\], got -3"),
    ("plan --algorithm gaprank", "--algorithm must be EvidenceRank or LUCBRank"),
    ("plan --answers nowhere.csv --clusters 2", "the file of answers must exist"),
    ("plan --answers self.csv --clusters 2", r"an item must not be compared with itself.*\(--skip-self\)"),
    ("plan --answers one_way.csv --clusters 2", r"--answers are too few to plan from: .* \(--prior\)"),
    ("plan --out nowhere/x.json", "--out must be in a folder that exists"),
    ("reproduce nothing", "name must be all, list or one of"),
    ("reproduce bounds --scores nowhere.csv", "--scores must be the path of a file with one number per line"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("bad")
    for name, data in FILES.items():
        (path / name).write_bytes(data)
    return path


@pytest.mark.parametrize(("command", "message"), CASES, ids=[command for command, _ in CASES])
def test_one_line_and_exit_code_2(command, message, folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr("jaxrank.keep_compiled_programs", lambda: None)
    done = CliRunner().invoke(app, ["" if word == "''" else word for word in command.split()])
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert re.search(message, done.stderr), done.stderr


def test_there_are_many():
    assert len(CASES) >= 60
