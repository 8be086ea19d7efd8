"""Faults of running: signals, full disks, numbers that explode, damaged runs."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from subquad import checkpoint
from tests.e2e.conftest import TINY, csv, train


def start(folder, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "subquad", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def endless(folder):
    """A run that takes minutes, once it has begun to step."""
    flags = [*TINY, "--steps", "1000000", "--save-every", "50"]
    process = start(folder, "train", "digits", "--task", "classify", "--out", "run", *flags)
    deadline = time.monotonic() + 120
    while not checkpoint.checkpoints(Path(folder, "run")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process


@pytest.mark.parametrize(("which", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_b40_a_signal_saves_and_says_how_to_go_on(tmp_path, which, code):
    process = endless(tmp_path)
    process.send_signal(which)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert out == ""
    assert "saved at step" in err
    assert "Traceback" not in err
    step = int(err.split("saved at step ")[1].split()[0])
    newest = checkpoint.checkpoints(tmp_path / "run")[-1]
    assert newest.name == f"step-{step:08d}"


def test_x03_workers_see_the_same_rows(cli):
    csv("a.csv")
    for workers in ("0", "2"):
        assert train(cli, "a.csv", f"run{workers}", "--workers", workers)[0] == 0
    first, second = (checkpoint.read_metrics(Path(f"run{w}")) for w in ("0", "2"))
    assert [m["loss"] for m in first] == [m["loss"] for m in second]


@pytest.mark.parametrize("limit", [2_000, 20_000])
def test_x05_a_full_disk_keeps_the_old_checkpoint(tmp_path, limit):
    """A limit on the size of files fails like a full disk: in the middle of a write."""
    process = endless(tmp_path)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, limit))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Traceback" not in err
    assert "cannot write" in err
    assert "unexpected" not in err
    for path in checkpoint.checkpoints(tmp_path / "run"):
        assert checkpoint.read_tensors(path / checkpoint.MODEL)
        assert checkpoint.read_tensors(path / checkpoint.OPTIMIZER)
    assert not list((tmp_path / "run").rglob(".part-*"))


def test_x13_generation_past_the_learned_positions_names_both_numbers(cli):
    Path("book.txt").write_text("a dark and stormy night. " * 100)
    flags = [*TINY, "--mixer", "linear", "--steps", "3", "--length", "32"]
    assert cli("train", "book.txt", "--task", "language", "--out", "run", *flags)[0] == 0
    code, _, err = cli("generate", "run", "--prompt", "a", "--length", "40")
    assert code == 2
    assert "40 new ones" in err
    assert "32 positions" in err


def test_x17_a_learning_rate_that_explodes_stops_the_run_and_keeps_a_checkpoint(cli):
    csv("a.csv")
    flags = ["--lr", "1e30", "--steps", "50", "--save-every", "1", "--precision", "fp32"]
    code, _, err = train(cli, "a.csv", "run", *flags)
    assert code == 1
    assert "not finite at step" in err
    assert "training rows" in err


@pytest.mark.usefixtures("cli")
def test_x08_memory_is_flat_over_steps():
    csv("a.csv")
    sizes = []

    def watch(line, spent):  # noqa: ARG001
        if line["kind"] == "train" and line["step"] % 100 == 0:
            sizes.append(int(Path("/proc/self/statm").read_text().split()[1]) * 4096)

    from subquad.cli.flags import configure
    from subquad.training import train as direct

    values = {"layers": 1, "d": 16, "heads": 2, "ff": 16, "steps": 1000, "batch": 8}
    if not Path("/proc/self/statm").exists():
        pytest.skip("needs /proc to see the memory in use")
    direct(configure("classify", "a.csv", values), "run", watch=watch)
    assert max(sizes[3:]) - sizes[2] < 8 * 2**20


def test_a_folder_of_other_things_is_not_overwritten(cli):
    csv("a.csv")
    Path("mine").mkdir()
    Path("mine/README.md").write_text("my own")
    for out in ("mine", "."):
        code, _, err = train(cli, "a.csv", out)
        assert code == 2
        assert "is no run" in err
    assert Path("mine/README.md").read_text() == "my own"
    assert [p.name for p in Path("mine").iterdir()] == ["README.md"]


def test_b40_a_signal_to_the_whole_group_saves_with_workers_too(tmp_path):
    flags = ["--task", "classify", "--out", "run", *TINY]
    flags += ["--steps", "1000000", "--save-every", "50", "--workers", "1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "subquad", "train", "digits", *flags],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not checkpoint.checkpoints(tmp_path / "run"):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert "saved at step" in err


@pytest.mark.parametrize("moment", ["exp_avg", "exp_avg_sq"])
def test_b25_a_moment_of_another_shape_is_refused(cli, moment):
    from safetensors.torch import save_file

    csv("a.csv")
    train(cli, "a.csv")
    path = checkpoint.checkpoints(Path("run"))[-1] / checkpoint.OPTIMIZER
    tensors = checkpoint.read_tensors(path)
    name = f"{moment}.head.weight"
    tensors[name] = tensors[name][:1, :1].contiguous()
    save_file(tensors, path)
    code, _, err = train(cli, "a.csv", "run", "--resume")
    assert code == 1
    assert name in err


def test_b35_missing_numbers_are_no_classes(cli):
    csv("a.csv", [(f"w{i}", label) for i in range(9) for label in ("1", "2", "NaN", "None")])
    code, _, err = train(cli, "a.csv")
    assert code == 1
    assert "stands among numbers" in err


def test_x17_weights_that_score_nan_are_never_kept(cli):
    csv("a.csv")
    code, _, err = train(cli, "a.csv", "run", "--lr", "1e30", "--save-every", "1")
    assert code == 1
    assert "not finite" in err
    assert not Path("run/model.safetensors").exists()


def test_bits_per_byte_are_not_given_by_a_tokenizer_that_loses_text(cli):
    Path("a.txt").write_text("abc abd abe " * 60)
    Path("b.txt").write_text("αβγ δεζ " * 60, encoding="utf-8")
    flags = [*TINY, "--mixer", "linear", "--steps", "2", "--length", "16"]
    for kind, given in (("bytes", True), ("chars", False), ("words", False)):
        made = ["train", "a.txt", "--task", "language", "--tokenizer", kind, "--out", kind, *flags]
        assert cli(*made)[0] == 0
        metrics = json.loads(cli("evaluate", kind, "b.txt", "--json")[1])
        assert ("bits_per_byte" in metrics) is given
        assert "bits_per_token" in metrics


def test_evaluate_and_predict_can_read_otherwise_than_training(cli):
    csv("a.csv")
    train(cli, "a.csv")
    csv("b.csv", [("señor", "sport"), ("bank", "money")], encoding="latin-1", header="words,kind")
    flags = ["--text", "words", "--encoding", "latin-1"]
    assert cli("predict", "run", "b.csv", *flags)[0] == 0
    code, out, _ = cli("evaluate", "run", "b.csv", *flags, "--label", "kind", "--json")
    assert (code, json.loads(out)["examples"]) == (0, 2)


@pytest.mark.parametrize(
    "damage",
    ['{"step": "x", "seconds": 1, "best": 1, "stale": 0}', '{"step": 5}', "[]", "", "{"],
)
def test_b23_damaged_progress_is_refused_by_name(cli, damage):
    csv("a.csv")
    train(cli, "a.csv")
    (checkpoint.checkpoints(Path("run"))[-1] / checkpoint.PROGRESS).write_text(damage)
    code, _, err = train(cli, "a.csv", "run", "--resume")
    assert code == 1
    assert "progress.json" in err


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        ("model", "mixers", ["attention"]),
        ("model", "heads", 3),
        ("model", "d", "wide"),
        ("training", "precision", "fp8"),
    ],
)
def test_a_damaged_configuration_is_refused_by_name(cli, part, field, value):
    csv("a.csv")
    train(cli, "a.csv")
    document = json.loads(Path("run/config.json").read_text())
    document[part][field] = value
    Path("run/config.json").write_text(json.dumps(document))
    code, _, err = cli("evaluate", "run", "a.csv")
    assert code == 1
    assert "config.json" in err
    assert "unexpected" not in err
