"""The command as a person runs it, in an empty directory: a process of its own, or this one."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from subquad.cli import run

WORDS = {"sport": "match goal team coach win league", "money": "bank market stock price trade loan"}


@pytest.fixture
def process(tmp_path):
    """``process("train", …)`` → CompletedProcess; nothing but the arguments reaches it."""

    def call(*arguments, input=None, env=None, timeout=300):
        return subprocess.run(
            [sys.executable, "-m", "subquad", *map(str, arguments)],
            cwd=tmp_path,
            input=input,
            stdin=None if input is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=timeout,
            env=os.environ | {"OMP_NUM_THREADS": "1"} | (env or {}),
            check=False,
        )

    return call


@pytest.fixture
def command(cli, monkeypatch):
    """The same in this process, which has imported everything already."""

    def call(*arguments, input=""):
        stdin = io.TextIOWrapper(io.BytesIO(input.encode()), encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", stdin)
        return subprocess.CompletedProcess(arguments, *cli(*arguments))

    return call


@pytest.fixture
def reviews(tmp_path) -> Path:
    """A small labelled CSV that any model can learn."""
    lines = ["text,label"]
    for i in range(60):
        label = "sport" if i % 2 else "money"
        words = WORDS[label].split()
        lines.append(f"{words[i % 6]} {words[(i * 5 + 1) % 6]} the {i % 7},{label}")
    path = tmp_path / "reviews.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


#: Flags of a model that trains in a moment.
TINY = ("--layers", "1", "--d", "16", "--heads", "2", "--ff", "16", "--steps", "80", "--batch", "8")


@pytest.fixture
def trained(command, reviews):
    done = command(
        "train", reviews, "--task", "classify", "--mixer", "fastformer", "--out", "run", *TINY
    )
    assert done.returncode == 0, done.stderr
    return reviews.parent / "run"


ROWS = [("goal match team", "sport"), ("bank loan price", "money")] * 20


@pytest.fixture
def cli(tmp_path, monkeypatch, capsys):
    """``cli("train", …)`` → (exit code, stdout, stderr), in this process and an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        code = run([str(a) for a in arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return call


def csv(path, rows=ROWS, encoding="utf-8", header="text,label"):
    text = "\n".join([header, *(f"{t},{label}" for t, label in rows)]) + "\n"
    Path(path).write_bytes(text.encode(encoding))
    return path


def train(cli, path, out="run", *more):
    return cli("train", path, "--task", "classify", "--out", out, *TINY, "--steps", "6", *more)
