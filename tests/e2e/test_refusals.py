"""What is refused is refused early, in one line, and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from subquad.tasks import classify
from tests.e2e.conftest import TINY, csv, train


@pytest.mark.parametrize("name", ["y.jpg", "y", "y.tiff"])
def test_images_are_only_written_as_what_they_are(cli, name):
    flags = ["--task", "pixels", "--out", "run", *TINY, "--steps", "2"]
    assert cli("train", "digits", *flags)[0] == 0
    code, _, err = cli("generate", "run", "--samples", "1", "--out", name)
    assert code == 2
    assert "written as PNG; use y.png" in err
    assert not Path(name).exists()


@pytest.mark.parametrize("second", ["padding=own-length", "fnet.padding=fixed"])
def test_an_option_given_twice_is_refused(cli, second):
    csv("a.csv")
    flags = ["--mixer", "fnet", "--mixer-option", "fnet.padding=fixed", "--mixer-option", second]
    code, _, err = train(cli, "a.csv", "run", *flags)
    assert code == 2
    assert "fnet.padding was already given as 'fixed'" in err
    assert not Path("run").exists()


def test_fixed_padding_takes_the_length_of_the_run(cli):
    csv("a.csv")
    flags = ["--mixer", "fnet", "--mixer-option", "padding=fixed", "--length", "12"]
    code, _, err = train(cli, "a.csv", "run", *flags)
    assert code == 0, err
    assert cli("evaluate", "run", "a.csv")[0] == 0
    code, _, err = train(cli, "a.csv", "other", *flags, "--mixer-option", "fnet.length=7")
    assert code == 2
    assert "fixed to length 7, but sequences have up to 12" in err


def test_fixed_padding_is_compared(cli):
    csv("a.csv")
    flags = ["--mixer-option", "fnet.padding=fixed", "--length", "12", "--seeds", "1"]
    flags = ["--task", "classify", "--mixers", "fnet,none", *flags, "--out", "c", *TINY]
    code, _, err = cli("compare", "a.csv", *flags, "--steps", "2")
    assert code == 0, err


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_dangling_link_in_a_class_folder_is_a_bad_row(cli):
    for i in range(40):
        path = Path("texts", "sport" if i % 2 else "money", f"{i}.txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("goal match" if i % 2 else "bank loan")
    Path("texts/money/gone.txt").symlink_to("nowhere.txt")
    os.mkfifo("texts/money/pipe.txt")
    code, _, err = train(cli, "texts")
    assert code == 1
    assert "gone.txt: is a link to 'nowhere.txt', which is no file" in err
    code, _, err = train(cli, "texts", "run", "--on-bad-row", "skip")
    assert code == 0, err
    assert "2 rows were skipped" in err


def test_an_interrupt_while_loading_is_one_line(tmp_path):
    """A module of the name that is loaded first, and that is interrupted."""
    (tmp_path / "click.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = subprocess.run(
        [sys.executable, "-m", "subquad", "info"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (128 + signal.SIGINT, "")
    assert done.stderr == "subquad: interrupted\n"


@pytest.mark.parametrize("fault", [("--test", "nope.csv"), ("--validation", "0")])
def test_a_comparison_that_is_refused_leaves_nothing(cli, fault):
    csv("a.csv")
    flags = ["--task", "classify", "--mixers", "none", "--seeds", "1", *TINY, *fault]
    code, _, _ = cli("compare", "a.csv", *flags, "--out", "report")
    assert code in (1, 2)
    assert not Path("report").exists()
    Path("mine").mkdir()
    Path("mine/notes").write_text("my own")
    assert cli("compare", "a.csv", *flags, "--out", "mine")[0] == code
    assert [p.name for p in Path("mine").iterdir()] == ["notes"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--d", "32"), "another model: d was 16, is 32"),
        (("--vocabulary", "9"), "another data: vocabulary was 30000, is 9"),
        (("--seed", "5"), "another training: seed was 0, is 5"),
    ],
)
def test_a_refused_resume_reads_no_data(cli, monkeypatch, flags, words):
    csv("a.csv")
    assert train(cli, "a.csv")[0] == 0
    tokenizer = Path("run/tokenizer.json").read_bytes()
    monkeypatch.setattr(classify, "tokenised", None)
    code, _, err = train(cli, "a.csv", "run", "--resume", *flags)
    assert code == 2, err
    assert words in err
    assert Path("run/tokenizer.json").read_bytes() == tokenizer
    assert json.loads(Path("run/config.json").read_text())["model"]["d"] == 16
