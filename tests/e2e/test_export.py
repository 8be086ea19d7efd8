"""``subquad export`` from the outside: a page is made and checked; what is wrong is one line."""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest

from subquad.export import chromium
from tests.e2e.conftest import TINY, csv, train


@pytest.fixture
def drawn(cli, tmp_path):
    code, _, err = cli("train", "digits", "--task", "pixels", "--out", "run", *TINY, "--steps", "3")
    assert code == 0, err
    return tmp_path / "run"


def test_a_page_is_made_checked_and_found_out_when_broken(cli, drawn, tmp_path):
    if shutil.which("node") is None and chromium.find() is None:
        pytest.skip("NOT TESTED: neither node nor Chromium is installed")
    code, out, err = cli("export", drawn, "--to", "web", "--out", "page.html", "--json")
    assert (code, json.loads(out)["out"]) == (0, "page.html"), err
    code, out, err = cli("export", "--check", "page.html", "--json")
    assert code == 0, err
    assert all(outcome["passed"] for outcome in json.loads(out).values())
    page = tmp_path / "page.html"
    text = page.read_text("utf-8")
    at = text.index('<script id="weights"') + 500
    page.write_text(text[:at] + ("B" if text[at] == "A" else "A") + text[at + 1 :], "utf-8")
    code, out, err = cli("export", "--check", "page.html")
    assert code == 1
    assert "have been changed or damaged" in out
    assert err == "subquad: page.html failed its self-test\n"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), 2, "give RUN, --to and --out"),
        (("run", "--to", "web"), 2, "give RUN, --to and --out"),
        (
            ("run", "--check", "x.html"),
            2,
            "--check takes a page or an ONNX folder, and nothing else",
        ),
        (
            ("run", "--to", "web", "--out", "o", "--linear-attention", "graph"),
            2,
            "applies to --to onnx only",
        ),
        (("--check", "."), 1, ". is not a folder made by `subquad export --to onnx`"),
        (
            ("run", "--to", "onnx", "--out", "o", "--weights", "f16"),
            2,
            "--weights applies to pages only",
        ),
        (("--check", "x.html"), 1, "x.html does not exist"),
        (("absent", "--to", "web", "--out", "p.html"), 1, "absent: no such run directory"),
    ],
)
def test_wrong_usage_is_one_line(cli, arguments, code, says):
    found, out, err = cli("export", *arguments)
    assert (found, out) == (code, "")
    assert says in err
    assert err.count("\n") == 1


def test_a_classifier_becomes_a_page_that_passes_its_check(cli, tmp_path):
    if shutil.which("node") is None and chromium.find() is None:
        pytest.skip("NOT TESTED: neither node nor Chromium is installed")
    csv(tmp_path / "data.csv")
    assert train(cli, "data.csv")[0] == 0
    code, _, err = cli("export", "run", "--to", "web", "--out", "page.html")
    assert code == 0, err
    code, out, err = cli("export", "--check", "page.html", "--json")
    assert code == 0, err
    assert all(found["passed"] and found["ids"] for found in json.loads(out).values())


@pytest.mark.parametrize(
    ("more", "weights", "says"),
    [
        (
            ("--mixer", "softmax"),
            "f16",
            "pages only support linear, fnet, fastformer, none and convolution",
        ),
        ((), "int8", "int8 is only for pages that generate"),
    ],
)
def test_a_classifier_that_no_page_can_be_is_refused(cli, tmp_path, more, weights, says):
    csv(tmp_path / "data.csv")
    assert train(cli, "data.csv", "run", *more)[0] == 0
    page = ("--to", "web", "--out", "page.html", "--weights", weights)
    code, _, err = cli("export", "run", *page)
    assert code == 2
    assert says in err
    assert err.count("\n") == 1
    assert not (tmp_path / "page.html").exists()


def test_a_file_that_is_no_page(cli, tmp_path):
    (tmp_path / "x.html").write_text("<p>hello", encoding="utf-8")
    code, _, err = cli("export", "--check", "x.html")
    assert code == 1
    assert "x.html is not a page made by `subquad export --to web`" in err


def test_a_terminated_export_leaves_nothing(cli, tmp_path):
    pytest.importorskip("onnxruntime")
    csv(tmp_path / "data.csv")
    assert train(cli, "data.csv")[0] == 0
    arguments = ("export", "run", "--to", "onnx", "--out", "folder")
    process = subprocess.Popen(
        [sys.executable, "-m", "subquad", *arguments],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob(".part-*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err.splitlines()[-1]) == (143, "subquad: terminated")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.csv", "run"]


@pytest.mark.parametrize("to", ["web", "onnx"])
def test_what_exists_is_replaced_by_force_only(cli, tmp_path, to):
    csv("a.csv")
    assert train(cli, "a.csv")[0] == 0
    export = ("export", "run", "--to", to, "--out", "made")
    code, _, err = cli(*export)
    assert (code, "Skipping" in err) == (0, False)
    before = {p: p.stat().st_ino for p in [*tmp_path.glob("made"), *tmp_path.glob("made/*")]}
    code, out, err = cli(*export)
    assert (code, out, err) == (
        1,
        "",
        "subquad: made exists: use another name, or --force to replace it\n",
    )
    assert all(path.stat().st_ino == inode for path, inode in before.items())
    assert cli(*export, "--force")[0] == 0
    assert all(path.stat().st_ino != inode for path, inode in before.items())
    assert not list(tmp_path.glob(".part-*"))
    other = tmp_path / "other"
    other.mkdir()
    (other / "precious").touch()
    code, _, err = cli(*export[:-1], "other", "--force")
    assert code == 1
    assert "other is" in err
    assert [p.name for p in other.iterdir()] == ["precious"]
