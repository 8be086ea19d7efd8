"""Standard streams that are closed, left by their reader, slow, or in a small encoding."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from threading import Timer

import pytest

from subquad.cli import run
from tests.e2e.conftest import TINY, csv

ODD = [
    ("caf\u00e9 goal \u2026", "Fu\u00dfball"),
    (
        "\u0434\u0435\u043d\u044c\u0433\u0438 bank",
        "\u0434\u0435\u043d\u044c\u0433\u0438 \U0001f98a",
    ),
] * 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a classifier and a writer, and what they have learned from."""
    folder = tmp_path_factory.mktemp("streams")
    csv(folder / "a.csv", ODD)
    csv(folder / "many.csv", ODD * 200)
    (folder / "b.txt").write_text(
        "\u0434\u0435\u043d\u044c\u0433\u0438 \u20ac " * 200, encoding="utf-8"
    )
    flags = [*TINY, "--steps", "3", "--length", "16"]
    words = ["--tokenizer", "chars", "--mixer", "linear"]
    for arguments in (
        ["train", "a.csv", "--task", "classify", "--out", "run", *flags],
        ["train", "b.txt", "--task", "language", "--out", "writer", *flags, *words],
    ):
        arguments[1], arguments[5] = str(folder / arguments[1]), str(folder / arguments[5])
        assert run(arguments) == 0
    return folder


@pytest.fixture
def shell(folder):
    """``shell("predict run a.csv", ">&-")`` → CompletedProcess of subquad under bash."""

    def call(arguments, redirection="", **env):
        line = f"{shlex.quote(sys.executable)} -m subquad {arguments} {redirection}"
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            cwd=folder,
            capture_output=True,
            timeout=300,
            env=os.environ | {"OMP_NUM_THREADS": "1"} | env,
            check=False,
        )

    return call


VERBS = {
    "info": "info",
    "mixers": "mixers --json",
    "train": f"train a.csv --task classify --out new {' '.join(TINY)} --steps 2",
    "evaluate": "evaluate run a.csv",
    "predict": "predict run a.csv",
    "inspect": "inspect run caf\u00e9",
    "export": "export run --to web --out page.html",
    "help": "--help",
}


@pytest.mark.parametrize("verb", VERBS)
def test_finished_work_is_a_success_also_where_all_streams_are_closed(shell, folder, verb):
    done = shell(VERBS[verb], "<&- >&- 2>&-")
    assert done.returncode == 0
    assert done.stdout == done.stderr == b""
    for made in {"train": "new/model.safetensors", "export": "page.html"}.get(verb, "").split():
        assert (folder / made).stat().st_size > 1000
    assert all(b"\x1b[" not in p.read_bytes() for p in folder.glob("new/*.json*"))


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- 2>&-"])
def test_one_closed_stream_leaves_the_others(shell, closed):
    done = shell("predict run a.csv", closed)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == (0 if closed == ">&-" else 40)
    assert (b"40 rows in" in done.stderr) == ("2>" not in closed)


def test_closed_standard_input_is_said(shell):
    for verb in ("predict run -", "evaluate run -"):
        done = shell(verb, "<&-")
        assert done.returncode == 1
        *_, line = done.stderr.decode().splitlines()
        assert line == "subquad: standard input is closed: there is nothing to be read"


def test_the_reader_of_a_pipe_leaves_and_nothing_is_said(shell):
    done = shell("predict run many.csv", "| head -1")
    assert done.returncode == 141
    assert json.loads(done.stdout)["row"] == 1
    assert b"subquad:" not in done.stderr
    assert b"rror" not in done.stderr
    assert b"terminated" not in done.stderr


def test_work_goes_on_when_nobody_reads_the_messages(shell, folder):
    line = VERBS["train"].replace("--out new", "--out unread") + " --evaluations 2"
    done = shell(line, "2>&1 >result | head -1; exit ${PIPESTATUS[0]}")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 1
    assert (folder / "unread" / "README.md").exists()
    assert b"run unread" in (folder / "result").read_bytes()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_under_standard_output_is_said_once(shell):
    done = shell("predict run a.csv", ">/dev/full")
    assert done.returncode == 1
    assert (
        done.stderr.decode().splitlines()[-1] == "subquad: input or output: No space left on device"
    )


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_any_encoding_of_the_output(shell, encoding):
    env = {"PYTHONIOENCODING": encoding}
    labels = {label for _, label in ODD}
    done = shell("predict run a.csv", **env)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line.decode()) for line in done.stdout.splitlines()]
    assert len(rows) == 40
    assert set(rows[0]["probabilities"]) == labels
    done = shell("evaluate run a.csv --json", **env)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout.decode())["classes"]) == labels
    done = shell("evaluate run a.csv", **env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"examples 40") or b"accuracy" in done.stdout


def test_the_plainest_locale(shell):
    env = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    done = shell("predict run a.csv", **env)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[1].decode("ascii"))["row"] == 2


def test_texts_degrade_where_the_stream_cannot_hold_them(shell):
    for redirection, env in ((" ", {"PYTHONIOENCODING": "cp1252"}), (">&-", {})):
        done = shell(
            "generate writer --prompt '\u0434\u0435 \u20ac' --length 8", redirection, **env
        )
        assert done.returncode == 0, done.stderr
        assert b"subquad:" not in done.stderr
        if env:
            assert done.stdout.startswith(b"?? \x80")
    done = shell("generate writer --prompts -", "<&-")
    assert done.stderr == b"subquad: standard input is closed: there is nothing to be read\n"
    assert done.returncode == 1


def answer_in_time(process, line):
    process.stdin.write(line)
    process.stdin.flush()
    return json.loads(process.stdout.readline())


@pytest.mark.parametrize("lines", [[b"goal match\n", b"bank\n"], [b'{"text": "goal"}\n'] * 2])
def test_a_live_pipe_is_answered_line_by_line(folder, lines):
    more = ["--format", "jsonl"] if lines[0].startswith(b"{") else []
    process = subprocess.Popen(
        [sys.executable, "-m", "subquad", "predict", "run", "-", *more],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    too_late = Timer(100, process.kill)
    too_late.start()
    try:
        for row, line in enumerate([*lines, lines[0] * 3], start=1):
            assert answer_in_time(process, line)["row"] == row
        assert [json.loads(process.stdout.readline())["row"] for _ in range(2)] == [4, 5]
    finally:
        too_late.cancel()
        process.kill()
        process.communicate()
