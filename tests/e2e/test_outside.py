"""A mixer of another package, found by its entry point, goes through every verb; nothing here names
it but the command line."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from subquad.errors import SubquadError
from subquad.mixers import MIXERS, Entry, register
from subquad.mixers.none import NoMixing
from subquad.mixers.registry import Registry

#: Runs command after command in one process; says what each answered.
DRIVER = """
import contextlib, io, json, sys
from subquad.cli import run
answers = []
for argv in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(argv)
    answers.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(answers))
"""
TINY = ["--layers", "1", "--d", "16", "--heads", "2", "--ff", "16", "--steps", "4", "--batch", "8"]
OUTSIDE = ["--mixer", "mean_of_all", "--mixer-option", "gain=0.5", *TINY]


def plugin(folder: Path, points: str = "mean_of_all = outside_mixers:entry") -> Path:
    """A folder that holds the package as if it had been installed there."""
    about = folder / "outside_mixers-1.0.dist-info"
    about.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("outside_mixers.py"), folder)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: outside-mixers\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[subquad.mixers]\n{points}\n")
    return folder


def commands(folder: Path, site: Path, *argvs: list[str]) -> list[tuple[int, str, str]]:
    """(exit code, stdout, stderr) of each."""
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", DRIVER],
        cwd=folder,
        input=json.dumps(argvs),
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [tuple(answer) for answer in json.loads(done.stdout.splitlines()[-1])]


def check(answers: list[tuple[int, str, str]]) -> list[str]:
    """All succeeded; what they printed."""
    for code, _, err in answers:
        assert code == 0, err
    return [out for _, out, _ in answers]


def test_it_classifies(tmp_path):
    rows = [f"{w} and {i},{w}" for i in range(30) for w in ("up", "down")]
    (tmp_path / "rows.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    classify = ["rows.csv", "--task", "classify", "--out"]
    answers = commands(
        tmp_path,
        plugin(tmp_path / "site"),
        ["mixers", "--json"],
        ["train", *classify, "run", *OUTSIDE],
        ["evaluate", "run", "rows.csv", "--json"],
        ["predict", "run", "rows.csv"],
        ["compare", *classify, "study", "--mixers", "mean_of_all,none", "--seeds", "1", *TINY],
        ["inspect", "run", "up and 3", "--out", "look"],
        ["export", "run", "--to", "web", "--out", "page.html"],
    )
    code, _, err = answers.pop()
    assert code == 2
    assert err.count("\n") == 1
    assert "layer 0 is Mean, but pages only support linear, fnet" in err
    listed, _, evaluated, predicted, *_ = check(answers)
    mine = next(row for row in json.loads(listed) if row["name"] == "mean_of_all")
    assert mine["options"] == "gain=1.0, heads"
    assert json.loads(evaluated)["examples"] == 60
    assert len(predicted.splitlines()) == 60
    assert "mean_of_all" in (tmp_path / "study" / "report.html").read_text("utf-8")
    assert (tmp_path / "look" / "inspect.html").is_file()


def test_it_generates(tmp_path):
    (tmp_path / "book.txt").write_text("It was a dark and stormy night.\n" * 60)
    answers = commands(
        tmp_path,
        plugin(tmp_path / "site"),
        ["train", "book.txt", "--task", "language", "--out", "run", "--length", "32", *OUTSIDE],
        ["evaluate", "run", "book.txt", "--json"],
        ["generate", "run", "--prompt", "It was", "--length", "5", "--save-state", "s"],
        ["generate", "run", "--state", "s", "--length", "5"],
        ["inspect", "run", "It was", "--out", "look"],
        ["export", "run", "--to", "web", "--out", "page.html"],
    )
    code, _, err = answers.pop()
    assert code == 2
    assert err.count("\n") == 1
    assert "layer 0 is RunningMean; the engine supports linear, convolution" in err
    _, evaluated, written, *_ = check(answers)
    assert json.loads(evaluated)["bits_per_byte"] > 0
    assert written.startswith("It was")
    seen = json.loads((tmp_path / "look" / "inspect.json").read_text("utf-8"))
    assert seen["texts"][0]["weights"][0]["channel"] == "added to the mean"


def test_it_goes_to_onnx(tmp_path):
    pytest.importorskip("onnxruntime", reason="NOT TESTED: the extra `onnx` is not installed")
    pytest.importorskip("onnxscript", reason="NOT TESTED: the extra `onnx` is not installed")
    (tmp_path / "rows.csv").write_text("text,label\n" + "a b,x\nc d,y\n" * 20)
    (tmp_path / "book.txt").write_text("It was a dark and stormy night.\n" * 60)
    length = ["--length", "32", *OUTSIDE]
    check(
        commands(
            tmp_path,
            plugin(tmp_path / "site"),
            ["train", "rows.csv", "--task", "classify", "--out", "one", *length],
            ["train", "book.txt", "--task", "language", "--out", "two", *length],
            ["export", "one", "--to", "onnx", "--out", "classes"],
            ["export", "two", "--to", "onnx", "--out", "steps"],
            ["export", "--check", "steps"],
        )
    )
    assert (tmp_path / "steps" / "step.onnx").is_file()


@pytest.mark.parametrize(
    ("points", "says"),
    [
        (
            "linear = outside_mixers:entry",
            "the name 'linear' already belongs to subquad.mixers.linear",
        ),
        (
            "raster = outside_mixers:entry",
            "the name 'raster' already belongs to subquad.mixers.masked",
        ),
        ("mine = outside_mixers:missing", "mixer 'mine' of outside-mixers cannot be loaded from"),
        ("mine = outside_mixers:Mean", "mixer 'mine' must be an Entry, not <class"),
    ],
)
def test_a_plugin_that_does_not_fit_is_refused_in_one_line(tmp_path, points, says):
    ((code, _, err),) = commands(tmp_path, plugin(tmp_path / "site", points), ["mixers"])
    assert code == 1
    assert says in err
    assert err.count("\n") == 1


def test_a_mixer_is_registered_in_python(monkeypatch):
    monkeypatch.setattr("subquad.mixers.MIXERS", Registry(dict(MIXERS.items())))
    mine = Entry(NoMixing, None, "0", "me", aliases=("mine_once",))
    register("mine", mine)
    from subquad import mixers

    assert mixers.MIXERS["mine_once"] is mine
    assert "mine" in mixers.names(causal=False)
    assert "mine_once" not in mixers.names(causal=False)
    assert isinstance(mixers.build("mine_once", 4, causal=False), NoMixing)
    for name in ("mine", "mine_once", "none"):
        with pytest.raises(SubquadError, match=f"the name {name!r} already belongs to subquad"):
            register(name, Entry(NoMixing, None, "0", "me"))
    with pytest.raises(SubquadError, match="mixer 'other' has no class in either direction"):
        register("other", Entry(None, None, "0", "me"))
