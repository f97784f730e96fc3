"""No command destroys a file: not an input, not one that exists, and not by stopping half-way."""

import inspect
import os
import subprocess
import sys

import jax
import pytest
from typer.testing import CliRunner

import jaxrank as jr
from jaxrank.cli.app import app
from jaxrank.cli.fit import fit
from jaxrank.cli.plan import plan
from jaxrank.cli.simulate import simulate

pytestmark = pytest.mark.once

ANSWERS = b"winner,loser\na,b\nb,a\nb,c\nc,b\n"
SCORES = b"item,score\na,1\nb,0\nc,-1\n"
MEANS = b"item,mean\na,.9\nb,.5\nc,.1\n"
INPUTS = [  # command, the option that names an input (none for an argument), its content, what else is needed
    ("fit", None, ANSWERS, []),
    ("plan", "--answers", ANSWERS, ["--clusters", "2"]),
    ("plan", "--scores", SCORES, ["--clusters", "2"]),
    ("plan", "--means", MEANS, ["--clusters", "2"]),
    ("simulate", "--scores", SCORES, ["--clusters", "2", "--trials", "2"]),
    ("simulate", "--means", MEANS, ["--clusters", "2", "--trials", "2"]),
]
OUTPUTS = {
    "fit": {"--out": "", "--plot": ".png"},
    "plan": {"--out": "", "--plot": ".png"},
    "simulate": {"--out": ".npz", "--resume-file": ""},
}
CASES = [(*source, option, suffix) for source in INPUTS for option, suffix in OUTPUTS[source[0]].items()]


@pytest.fixture(autouse=True)
def own_cache(monkeypatch):
    monkeypatch.setattr("jaxrank.keep_compiled_programs", lambda: None)


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def command_line(command, option, path, others):
    return [command, *([] if option is None else [option]), path, *others]


def test_every_option_with_a_path_is_here():
    for command in (fit, plan, simulate):
        paths = {
            "--" + name.replace("_", "-")
            for name, parameter in inspect.signature(command).parameters.items()
            if "Path" in str(parameter.annotation)
        }
        assert paths == set(OUTPUTS[command.__name__]), command.__name__


@pytest.mark.parametrize("way", ["itself", "symbolic link", "hard link", "through a folder"])
@pytest.mark.parametrize(
    ("command", "option", "content", "others", "output", "suffix"), CASES, ids=[f"{c[0]} {c[1]} {c[4]}" for c in CASES]
)
def test_no_output_replaces_an_input(command, option, content, others, output, suffix, way, tmp_path):
    source = tmp_path / ("file" + (suffix or ".csv"))
    source.write_bytes(content)
    target = tmp_path / ("other" + source.suffix)
    if way == "itself":
        target = source
    elif way == "symbolic link":
        target.symlink_to(source)
    elif way == "hard link":
        target.hardlink_to(source)
    else:
        (tmp_path / "inner").mkdir()
        target = tmp_path / "inner" / ".." / source.name
    for force in ([], ["--force"]):
        done = call(*command_line(command, option, source, others), output, target, *force)
        assert done.exit_code == 2, done.output
        what = option or "answers"
        assert f"{output} must not be the file of another option ({what})" in done.stderr
        assert source.read_bytes() == content


@pytest.mark.parametrize(
    ("command", "option", "content", "others", "output", "suffix"), CASES, ids=[f"{c[0]} {c[1]} {c[4]}" for c in CASES]
)
def test_what_exists_is_replaced_only_by_force(command, option, content, others, output, suffix, tmp_path):
    source, target = tmp_path / "file.csv", tmp_path / ("other" + (suffix or ".csv"))
    source.write_bytes(content)
    target.write_bytes(b"precious")
    line = [*command_line(command, option, source, others), output, target]
    done = call(*line)
    assert done.exit_code == 2, done.output
    rule = (
        "a file that simulate wrote" if output == "--resume-file" else "a new file unless it may be replaced (--force)"
    )
    assert f"{output} must be {rule}" in done.stderr
    assert target.read_bytes() == b"precious"


def test_by_force_it_is_replaced_and_keeps_its_permissions(tmp_path):
    source, target, link = (tmp_path / name for name in ("file.csv", "scores.csv", "link.csv"))
    source.write_bytes(ANSWERS)
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    assert call("fit", source, "--out", link, "--force").exit_code == 0
    assert target.read_text().startswith("item,score")
    assert target.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file.csv", "link.csv", "scores.csv"]


def test_an_experiment_does_not_replace_its_scores(tmp_path):
    scores = tmp_path / "street_view.json"
    scores.write_text("1\n0\n")
    done = call("reproduce", "street_view", "--quick", "--scores", scores, "--out", tmp_path)
    assert done.exit_code == 2, done.output
    assert "--scores must not be a file that the experiment writes" in done.stderr
    assert scores.read_text() == "1\n0\n"


def test_two_outputs_are_two_files(tmp_path):
    source, target = tmp_path / "file.csv", tmp_path / "scores.png"
    source.write_bytes(ANSWERS)
    done = call("fit", source, "--out", target, "--plot", target)
    assert "--plot must not be the file of another option (--out)" in done.stderr
    assert not target.exists()


def test_standard_input_is_an_input_too(tmp_path):
    source = tmp_path / "file.csv"
    source.write_bytes(ANSWERS)
    program = "import sys; from jaxrank.cli import main; sys.argv = ['jaxrank', *sys.argv[1:]]; main()"
    with open(source, "rb") as file:
        done = subprocess.run(
            [sys.executable, "-c", program, "fit", "-", "--out", str(source), "--force"],
            stdin=file,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 2, done.stderr
    assert "--out must not be the file of another option (answers)" in done.stderr
    assert source.read_bytes() == ANSWERS


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "numbers.txt"
    path.write_text("old")

    def stop_half_way():
        with jr.atomic_write(path) as temporary:
            temporary.write_text("new, but not all of it")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        stop_half_way()
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["numbers.txt"]


def test_a_pipe_is_written_to(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with jr.atomic_write(pipe) as temporary:
        temporary.write_text("1 2 3")
    assert os.read(reader, 100) == b"1 2 3"
    os.close(reader)


def runs():
    arms = jr.BernoulliArms(means=[0.9, 0.1])
    return jr.simulate(jax.random.key(0), jr.Uniform(num_items=2), arms, 2, max_samples=4, progress=False)


def comparisons():
    return jr.Comparisons.from_pairs(["a", "b"], ["b", "a"])


WRITERS = {
    "Runs.save": (runs, lambda thing, path: thing.save(path), ".npz"),
    "Comparisons.save": (comparisons, lambda thing, path: thing.save(path), ".csv"),
    "Fit.save": (lambda: jr.fit_btl(comparisons()), lambda thing, path: thing.save(path), ".csv"),
    "draw_fit": (lambda: jr.fit_btl(comparisons()), jr.plots.draw_fit, ".png"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_save_writes_whole_files(name, tmp_path, monkeypatch):
    """The file is as it was until the new one is complete, and then complete at once."""
    make, write, suffix = WRITERS[name]
    path = tmp_path / f"file{suffix}"
    thing, seen, replace = make(), [], os.replace
    path.write_bytes(b"old")

    def watched(source, target):
        if os.path.basename(target) == path.name:
            seen.append((path.read_bytes(), os.path.getsize(source)))
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched)
    write(thing, path)
    assert seen == [(b"old", path.stat().st_size)]
