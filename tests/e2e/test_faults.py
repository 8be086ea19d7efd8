"""Faults that users reported elsewhere, each through the command: named after its kind."""

import json
import os
import pickle
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from subquad import checkpoint
from subquad.cli import run
from tests.e2e.conftest import TINY

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


def test_b25_a_resume_without_its_optimiser_is_refused(cli):
    csv("a.csv")
    assert train(cli, "a.csv", "run", "--save-every", "2")[0] == 0
    for piece in Path("run/checkpoints").glob("*/optimizer.safetensors"):
        piece.unlink()
    code, _, err = train(cli, "a.csv", "run", "--save-every", "2", "--resume")
    assert code == 1
    assert "optimizer.safetensors is missing" in err


def test_b25_a_resume_on_other_data_is_refused(cli):
    csv("a.csv")
    assert train(cli, "a.csv")[0] == 0
    csv("a.csv", [("other words", "sport"), ("still others", "money")] * 20)
    code, _, err = train(cli, "a.csv", "run", "--resume")
    assert code == 1
    assert "a.csv has changed" in err


def test_b27_missing_and_unexpected_weights_are_listed(cli):
    csv("a.csv")
    train(cli, "a.csv")
    tensors = checkpoint.read_tensors(Path("run/model.safetensors"))
    tensors["stranger"] = tensors.pop("head.bias")
    from safetensors.torch import save_file

    save_file(tensors, "run/model.safetensors")
    code, _, err = cli("evaluate", "run", "a.csv")
    assert code == 1
    assert "missing ['head.bias']" in err
    assert "unexpected ['stranger']" in err


class Payload:
    def __reduce__(self):
        return (Path.touch, (Path("code-ran"),))


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "labels.json"])
def test_b29_no_file_of_a_run_is_unpickled(cli, name):
    csv("a.csv")
    train(cli, "a.csv")
    Path("run", name).write_bytes(pickle.dumps(Payload()))
    code, _, err = cli("evaluate", "run", "a.csv")
    assert code == 1
    assert name in err
    assert not Path("code-ran").exists()


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "progress.json"])
def test_b29_no_file_of_a_checkpoint_is_unpickled(cli, name):
    csv("a.csv")
    train(cli, "a.csv")
    newest = checkpoint.checkpoints(Path("run"))[-1]
    (newest / name).write_bytes(pickle.dumps(Payload()))
    code, _, err = train(cli, "a.csv", "run", "--resume")
    assert code == 1
    assert name in err
    assert not Path("code-ran").exists()


def test_b30_a_byte_order_mark_is_accepted_everywhere(cli):
    csv("a.csv", encoding="utf-8-sig")
    lines = [json.dumps({"text": t, "label": label}) for t, label in ROWS]
    Path("a.jsonl").write_text("\ufeff" + "\n".join(lines) + "\n", encoding="utf-8")
    for path in ("a.csv", "a.jsonl"):
        assert train(cli, path, f"run-{path}")[0] == 0
        code, out, _ = cli("evaluate", "run-a.csv", path, "--json")
        assert (code, json.loads(out)["examples"]) == (0, 40)
        code, out, _ = cli("predict", "run-a.csv", path)
        assert (code, len(out.splitlines())) == (0, 40)


def test_b31_na_words_stay_text(cli):
    words = ["NA", "null", "None", "n/a", "1e5", "007"]
    csv("a.csv", [(w, "sport" if i % 2 else "money") for i, w in enumerate(words * 8)])
    assert train(cli, "a.csv")[0] == 0
    code, out, _ = cli("predict", "run", "a.csv")
    assert code == 0
    assert all("label" in json.loads(line) for line in out.splitlines())


def test_b32_an_undecodable_byte_is_named_with_the_way_out(cli):
    rows = [("se\u00f1or match", "sport"), ("bank loan", "money")] * 10
    csv("a.csv", rows, encoding="latin-1")
    code, _, err = train(cli, "a.csv")
    assert code == 1
    assert "a.csv" in err
    assert "0xf1" in err.lower()
    assert "--encoding" in err
    assert not Path("run").exists()
    assert train(cli, "a.csv", "run", "--encoding", "latin-1")[0] == 0


def test_b33_a_long_field_is_read_and_a_quote_never_closed_is_named(cli):
    csv("long.csv", [("word " * 40_000, "sport"), *ROWS])
    assert train(cli, "long.csv")[0] == 0
    csv("open.csv", [*ROWS, ('"never closed', "sport"), *ROWS])
    code, _, err = train(cli, "open.csv", "other")
    assert code == 1
    assert "42" in err  # the line where it begins


def test_b35_labels_have_one_order_and_unseen_ones_are_named(cli):
    csv("a.csv", [(f"w{i}", label) for i in range(10) for label in ("2", "10", "1")])
    assert train(cli, "a.csv")[0] == 0
    assert json.loads(Path("run/labels.json").read_text()) == ["1", "2", "10"]
    csv("b.csv", [("w1", "1"), ("w2", "3")])
    code, _, err = cli("evaluate", "run", "b.csv")
    assert code == 1
    assert "row 2" in err
    assert "'3'" in err


def test_b35_a_missing_label_is_named_by_row(cli):
    csv("a.csv", [*ROWS, ("text without", "")])
    code, _, err = train(cli, "a.csv")
    assert code == 1
    assert "row 41" in err
    assert train(cli, "a.csv", "run", "--on-bad-row", "skip")[0] == 0


def test_b36_one_class_is_refused_and_a_rare_one_kept(cli):
    csv("one.csv", [("a", "x"), ("b", "x")])
    assert train(cli, "one.csv")[0] == 1
    csv("rare.csv", [*ROWS, ("alone", "weather")])
    code, _, err = train(cli, "rare.csv")
    assert code == 0
    assert "a single row" in err
    metrics = json.loads(cli("evaluate", "run", "rare.csv", "--json")[1])
    assert set(metrics["classes"]) == {"sport", "money", "weather"}
    assert metrics["majority"] == pytest.approx(20 / 41)


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
    flags = [*TINY, "--steps", "3", "--length", "32"]
    assert cli("train", "book.txt", "--task", "language", "--out", "run", *flags)[0] == 0
    code, _, err = cli("generate", "run", "--prompt", "a", "--length", "40")
    assert code == 2
    assert "40 more" in err
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
