import json
from pathlib import Path

import numpy as np
import pytest

import jaxrank as jr
from jaxrank.data.connectivity import connectivity, is_strong

pytestmark = pytest.mark.once

DATA = Path(__file__).parents[3] / "shared" / "data"


def test_pairs_matrix_rankings_and_records_say_the_same():
    pairs = jr.Comparisons.from_pairs([0, 0, 1, 0], [1, 2, 2, 1])
    np.testing.assert_array_equal(pairs.matrix(), [[0, 2, 1], [0, 0, 1], [0, 0, 0]])
    assert (pairs.num_items, pairs.total) == (3, 4)
    np.testing.assert_array_equal(pairs.wins, [3, 1, 0])
    np.testing.assert_array_equal(pairs.losses, [0, 2, 2])
    np.testing.assert_array_equal(pairs.degrees, [2, 2, 2])
    np.testing.assert_allclose(pairs.borda_scores, [1, 1 / 3, 0])
    for other in (
        jr.Comparisons.from_matrix([[0, 2, 1], [0, 0, 1], [0, 0, 0]]),
        jr.Comparisons.from_rankings([[0, 1, 2], [0, 1]]),
        jr.Comparisons.from_records(
            [{"winner": a, "loser": b, "count": n} for a, b, n in [(0, 1, 2), (0, 2, 1), (1, 2, 1)]]
        ),
    ):
        np.testing.assert_array_equal(other.matrix(), pairs.matrix())
        assert other.labels == ("0", "1", "2")


FILES = {
    "winner,loser": ("winner,loser\nb,a\nb,c\na,c\n", [[0, 0, 1], [1, 0, 1], [0, 0, 0]]),
    "count": ("Winner;Loser;Count\nb;a;2\nb;c;1.5\n", [[0, 0, 0], [2, 0, 1.5], [0, 0, 0]]),
    "no header": ("b\ta\nb\tc\na\tc\n", [[0, 0, 1], [1, 0, 1], [0, 0, 0]]),
    "no header, counts": ("b,a,2\nb,c,1\n", [[0, 0, 0], [2, 0, 1], [0, 0, 0]]),
    "sides": ("left,right,winner,worker\na,b,right,x\nb,c,left,y\na,c,tie,x\n", [[0, 0, 0.5], [1, 0, 1], [0.5, 0, 0]]),
    "named winner": ("left,right,label\na,b,b\nb,c,b\na,c,a\n", [[0, 0, 1], [1, 0, 1], [0, 0, 0]]),
    "models": (
        'model_a,model_b,winner\n"a",b,model_b\nb,c,model_a\na,c,tie (bothbad)\n',
        [[0, 0, 0.5], [1, 0, 1], [0.5, 0, 0]],
    ),
    "blank lines, spaces": ("\nwinner, loser\n\nb, a\nb, c\n\na, c\n\n", [[0, 0, 1], [1, 0, 1], [0, 0, 0]]),
}


@pytest.mark.parametrize("name", FILES)
def test_usual_files(name, tmp_path):
    text, expected = FILES[name]
    path = tmp_path / "answers.csv"
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        path.write_text(text, encoding=encoding)
        read = jr.Comparisons.read(path)
        assert read.labels == ("a", "b", "c")
        np.testing.assert_array_equal(read.matrix(), expected)


def test_json_lines_and_lists(tmp_path):
    rows = [{"model_a": "x", "model_b": "y", "winner": "model_a", "judge": "j"}, {"model_a": "x", "model_b": "y"}]
    rows[1] |= {"winner": "tie", "judge": "k"}
    for name, text in (("a.jsonl", "\n".join(map(json.dumps, rows))), ("a.json", json.dumps(rows))):
        (tmp_path / name).write_text(text)
        read = jr.Comparisons.read(tmp_path / name)
        np.testing.assert_array_equal(read.matrix(), [[0, 1.5], [0.5, 0]])
        assert read.total == 2
        np.testing.assert_array_equal(read.by_rater("k").matrix(), [[0, 0.5], [0.5, 0]])


def test_western_code_page_and_own_columns(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_bytes("besser,schlechter,wer\nM\xfcnchen,K\xf6ln,Eva\nK\xf6ln,Bonn,Jan\n".encode("cp1252"))
    read = jr.Comparisons.read(path, columns={"winner": "besser", "loser": "schlechter", "rater": "wer"})
    assert read.labels == ("Bonn", "Köln", "München")
    assert read.rater_labels == ("Eva", "Jan")
    assert read.by_rater("Eva").total == 1


BAD_FILES = {
    "winner,loser\na,a\n": r"line 2: an item must not be compared with itself, got 'a' twice",
    "left,right,winner\na,b,left\na,b,up\n": r"line 3: winner must be 'a', 'b', 'left', .* or 'tie', got 'up'",
    "winner,loser,count\na,b,-1\n": r"line 2: count must be a number from 0 to 1e\+15, got '-1'",
    "winner,loser,count\na,b,nan\n": r"line 2: column 'count' must not be empty",
    "winner,loser\na,b\na\n": r"line 3: must have 2 columns \(winner, loser\), got 1",
    "winner,loser\na,\n": r"line 2: column 'loser' must not be empty",
    "picture,votes,city,year\n1,2,3,4\n": r"columns must be winner,loser.* got picture, votes, city, year; say which",
    "": r"answers.csv' must hold answers, got an empty file",
    "winner,loser\n": r"answers must not be empty",
    '{"winner": 1, "loser"': r"must hold JSON objects such as",
    "[1, 2]": r"line 1: must be a JSON object",
}


@pytest.mark.parametrize("text", BAD_FILES)
def test_bad_files(text, tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=BAD_FILES[text]):
        jr.Comparisons.read(path)


def test_more_bad_files(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_bytes("winner,loser\nKöln,Bonn\n".encode() + "Köln,Ulm\n".encode("cp1252"))
    with pytest.raises(ValueError, match=r"must have one encoding, got UTF-8 in line 2 and something else in line 3"):
        jr.Comparisons.read(path)
    with pytest.raises(ValueError, match=r"encoding must fit .*, got 'ascii'"):
        jr.Comparisons.read(path, encoding="ascii")
    with pytest.raises(ValueError, match=r"file of answers must exist, got '.*nowhere.csv'"):
        jr.Comparisons.read(tmp_path / "nowhere.csv")
    path.write_text("winner,loser\na,b\n")
    with pytest.raises(ValueError, match=r"columns must name columns of the file \(winner, loser\), got 'best'"):
        jr.Comparisons.read(path, columns={"winner": "best"})
    with pytest.raises(ValueError, match=r"columns must name some of winner, loser, .*, got 'top'"):
        jr.Comparisons.read(path, columns={"top": "winner"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [1]), r"losers must be as long as winners, 2, got 1"),
        (([0, 5], [1, 2], None, 3), r"winners must lie in \[0, 2\], the numbers of the items, got 5 at position 1"),
        (([0, 1], [1, -1]), r"losers must lie in \[0, 1\], .*, got -1 at position 1"),
        (([0, 1], [1, 1]), r"winners and losers must not compare an item with itself, got item 1 twice at position 1"),
        (([0.5], [1]), r"winners must be whole item numbers from 0, got float64"),
        (([[0]], [[1]]), r"winners must be a one-dimensional array"),
        (([0], [1], [float("nan")]), r"weights must not contain NaN"),
        (([0], [1], [-1.0]), r"weights must be finite and at least 0, got -1"),
        (([0], [1], [1.0, 2.0]), r"weights must be as long as winners, 1, got 2"),
        (([0], [1], None, 2, ["a", "a"]), r"labels must be different from each other, got 'a' twice"),
        (([0], [1], None, 3, ["a", "b"]), r"labels must name all 3 items, got 2"),
    ],
)
def test_bad_pairs(arguments, message):
    with pytest.raises(ValueError, match=message):
        jr.Comparisons.from_pairs(*arguments)


def test_bad_matrices_and_rankings():
    with pytest.raises(ValueError, match=r"wins must be a K x K matrix, got shape \(2, 3\)"):
        jr.Comparisons.from_matrix(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"wins must have a diagonal of 0: .*, got 4 for item 1"):
        jr.Comparisons.from_matrix([[0, 1], [1, 4]])
    with pytest.raises(ValueError, match=r"rankings must not name an item twice in one order, got 'a'"):
        jr.Comparisons.from_rankings([["a", "b", "a"]])
    with pytest.raises(ValueError, match=r"labels must name every item in the answers, got no \['b'\]"):
        jr.Comparisons.from_rankings([["a", "b"]], labels=["a", "c"])


def test_connectivity_names_what_is_missing():
    """0 and 1 beat each other; so do 2 and 3; 4 beat 0 and never lost; 5 lost to 2 and never won; 6 never played."""
    report = jr.Comparisons.from_pairs([0, 1, 2, 3, 4, 2], [1, 0, 3, 2, 0, 5], num_items=7).connectivity()
    assert report.never_compared == [6]
    assert report.never_lost == [4]
    assert report.never_won == [5]
    assert sorted(map(sorted, report.groups)) == [[0, 1, 4], [2, 3, 5]]
    assert sorted(map(sorted, report.strong_groups)) == [[0, 1], [2, 3], [4], [5]]
    assert not report.scores_exist
    text = report.explain("abcdefg")
    assert text.startswith("'g' was never compared; 'e' never lost; 'f' never won; 2 groups never met: ")
    one_way = jr.Comparisons.from_pairs([0, 1, 2, 3, 0], [1, 0, 3, 2, 2]).connectivity()
    assert "2 groups met, but one won every time: '0', '1' and '2', '3'" in one_way.explain("0123")
    assert jr.Comparisons.from_pairs([0, 1], [1, 0]).connectivity().scores_exist
    # A row of weight 0 links nothing.
    assert not jr.Comparisons.from_pairs([0, 1], [1, 0], [1.0, 0.0]).connectivity().scores_exist


def test_the_quick_check_agrees_with_the_report():
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(300):
        count = rng.integers(2, 6)
        winners = rng.integers(0, count, rng.integers(1, 12))
        losers = (winners + rng.integers(1, count, len(winners))) % count
        exist = connectivity(winners, losers, count).scores_exist
        assert is_strong(winners, losers, count) == exist
        seen.add(exist)
    assert seen == {True, False}


def test_merge_split_and_save(tmp_path):
    first = jr.Comparisons.from_records([{"winner": "a", "loser": "b", "rater": "x"}])
    second = jr.Comparisons.from_records([{"winner": "c", "loser": "a", "count": 2}])
    both = first.merge(second)
    assert both.labels == ("a", "b", "c")
    np.testing.assert_array_equal(both.matrix(), [[0, 1, 0], [0, 0, 0], [2, 0, 0]])
    assert both.by_rater("x").total == 1
    both.save(tmp_path / "both.csv")
    text = (tmp_path / "both.csv").read_text()
    assert text == "winner,loser,count,rater\na,b,1.0,x\nc,a,2.0,\n"
    np.testing.assert_array_equal(jr.Comparisons.read(tmp_path / "both.csv").matrix(), both.matrix())
    with pytest.raises(ValueError, match="rater must be one of the 1 raters, got 'y'"):
        both.by_rater("y")
    with pytest.raises(ValueError, match="by_rater needs answers with a rater column"):
        second.by_rater("x")
    many = jr.Comparisons.from_pairs(np.tile([0, 1], 500), np.tile([1, 0], 500))
    train, test = many.split(0, 0.3)
    assert train.total + test.total == 1000
    # Binomial(1000, .3): 5 standard deviations are 72.
    assert abs(test.total - 300) < 72
    np.testing.assert_array_equal(many.split(0, 0.3)[1].winners, test.winners)


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the data folder beside the project")
def test_real_files():
    duels = jr.Comparisons.read(DATA / "chicago" / "wins.csv")
    assert (duels.num_items, duels.total) == (100, 7109)
    models = jr.Comparisons.read(DATA / "llmfao" / "llmfao.csv")
    assert (models.num_items, models.total, len(models.rater_labels)) == (59, 8931, 124)


CRIMES = ["arson", "theft", "vagrancy", "fraud"]
WORSE = np.array([[0, 12, 19, 15], [8, 0, 16, 11], [1, 4, 0, 6], [5, 9, 14, 0]])


@pytest.mark.parametrize("whole", [1, 100, 1000])
@pytest.mark.parametrize("digits", [2, 6])
def test_shares_are_not_counts(whole, digits):
    """Thurstone's kind of table: shares of judges, halves on the diagonal, columns that beat rows."""
    shares = np.round(WORSE / 20 + np.eye(4) / 2, digits) * whole
    with pytest.raises(ValueError, match=rf"must hold counts, but all pairs add up to {whole}: .*answers_per_pair"):
        jr.Comparisons.from_matrix(shares)
    for given, transpose in ((shares, False), (shares.T, True)):
        read = jr.Comparisons.from_matrix(given, CRIMES, transpose=transpose, answers_per_pair=20)
        np.testing.assert_allclose(read.matrix(), WORSE, atol=1e-9)
        assert read.in_words() == "'arson' beat 'vagrancy' 19 times, and lost 1 time"


def test_counts_are_not_shares():
    for counts in (WORSE, np.triu(np.ones((5, 5)), 1), [[0, 60], [40, 0]], [[0, 0.25], [0.75, 0]]):
        np.testing.assert_array_equal(jr.Comparisons.from_matrix(counts).matrix(), counts)
    with pytest.raises(
        ValueError, match=r"answers_per_pair is for shares, where .* add up to .* for every pair, got 20"
    ):
        jr.Comparisons.from_matrix(WORSE, answers_per_pair=20)
    with pytest.raises(ValueError, match="answers_per_pair must be finite and above 0, got -1"):
        jr.Comparisons.from_matrix(WORSE / 20, answers_per_pair=-1)
    for name, value in (("transpose", True), ("answers_per_pair", 3), ("labels", ["a", "b"])):
        with pytest.raises(ValueError, match=f"{name} is for a matrix of wins"):
            jr.Comparisons.from_records([{"winner": "a", "loser": "b"}], **{name: value})
