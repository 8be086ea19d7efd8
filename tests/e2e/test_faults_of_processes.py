"""Several processes, and processes that die: one run, one writer; what the dead leave is no bar."""

import shutil
import signal
import time
from pathlib import Path

import pytest

from subquad import checkpoint
from subquad.locking import alone_in
from tests.e2e.conftest import TINY, csv
from tests.e2e.test_faults_of_runs import endless, start

ENDLESS = [*TINY, "--steps", "1000000", "--save-every", "50"]


def classify(*more):
    return ["train", "digits", "--task", "classify", "--out", "run", *ENDLESS, *more]


def test_a_run_in_use_is_refused_to_a_second_process(tmp_path, cli):
    first = endless(tmp_path)
    try:
        before = checkpoint.read_metrics(tmp_path / "run")
        for more in ([], ["--resume"]):
            code, out, err = cli(*classify(*more))
            assert (code, out) == (1, ""), err
            assert err == (
                f"subquad: run is in use by process {first.pid}: wait until it ends, or stop it\n"
            )
        after = checkpoint.read_metrics(tmp_path / "run")
        assert after[: len(before)] == before  # nobody cut or doubled them
        steps = [line["step"] for line in after if line["kind"] == "train"]
        assert steps == list(range(1, len(steps) + 1))
        assert first.poll() is None
    finally:
        first.kill()
        first.communicate()
    # It died without a chance to tidy up; the next one is not kept out.
    resumed = start(tmp_path, *classify("--resume"))
    deadline = time.monotonic() + 60
    while len(checkpoint.read_metrics(tmp_path / "run")) <= len(after) + 10:
        assert resumed.poll() is None, resumed.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    resumed.send_signal(signal.SIGTERM)
    resumed.communicate(timeout=60)
    assert resumed.returncode == 143


def test_asking_a_run_needs_no_lock(cli):
    csv("a.csv")
    assert cli("train", "a.csv", "--task", "classify", "--out", "run", *TINY)[0] == 0
    with alone_in(Path("run")):
        for verb in (["evaluate", "run", "a.csv"], ["predict", "run", "a.csv"]):
            assert cli(*verb)[0] == 0
    assert not list(Path("run").glob(".*"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "a.csv", "--task", "classify", "--mixers", "none", "--seeds", "1"],
        ["recipe", "copy-task"],
        ["demo"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_folder_of_runs_has_one_writer_too(tmp_path, arguments):
    csv(tmp_path / "a.csv")
    with alone_in(tmp_path / "out"):
        process = start(tmp_path, *arguments, "--out", "out")
        out, err = process.communicate(timeout=100)
    assert (process.returncode, out) == (1, "")
    assert "out is in use by process" in err.splitlines()[-1]
    assert not list(tmp_path.glob("out"))


def test_killed_while_tokenising_the_same_command_starts_anew(tmp_path, cli):
    csv("a.csv", [("goal match team " * 10, "sport"), ("bank loan price " * 10, "money")] * 20_000)
    arguments = ["train", "a.csv", "--task", "classify", "--out", "run", *TINY, "--steps", "2"]
    process = start(tmp_path, *arguments)
    deadline = time.monotonic() + 100
    while not list(tmp_path.glob("run/store.building-*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.001)
    process.kill()
    process.communicate()
    assert list(tmp_path.glob("run/store.building-*")), "the kill came too late to show anything"
    shutil.copytree("run", "again")
    for out, more in (("run", []), ("again", ["--resume"])):
        code, _, err = cli(*arguments, "--out", out, *more)
        assert code == 0, err
        assert not list(Path(out).glob("store.*"))
        assert not list(Path(out).glob(".*"))


def test_killed_while_the_run_is_begun_it_can_be_resumed(cli):
    """Whatever of a run's first files is there, the command that a person would type works."""
    csv("a.csv")
    arguments = ["train", "a.csv", "--task", "classify", "--out", "run", *TINY, "--steps", "2"]
    assert cli(*arguments)[0] == 0
    for path in Path("run").iterdir():
        if path.name not in (checkpoint.CONFIG, "store"):
            checkpoint.remove(path)
    code, _, err = cli(*arguments)
    assert code == 2
    assert "already holds a run: resume it" in err
    assert cli(*arguments, "--resume")[0] == 0
