"""Every verb: what goes to stdout, what to stderr, and the exit code."""

import json

import pytest

from tests.e2e.conftest import TINY


def one_line(done, code):
    """The error is one line on stderr, without a traceback, and the exit code is right."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("subquad: ")
    return last


def test_help_lists_every_verb(process):
    done = process("--help")
    assert done.returncode == 0
    for verb in (
        "train",
        "evaluate",
        "predict",
        "generate",
        "compare",
        "bench",
        "recipe",
        "inspect",
        "mixers",
        "info",
        "demo",
        "export",
    ):
        assert f"  {verb} " in done.stdout


def test_train_evaluate_predict(process, trained, reviews):
    files = {path.name for path in trained.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "labels.json"} <= files
    assert {"metrics.jsonl", "README.md", "checkpoints"} <= files
    metrics = json.loads(process("evaluate", "run", reviews, "--json").stdout)
    assert metrics["examples"] == 60
    assert metrics["accuracy"] > 0.9
    assert set(metrics["classes"]) == {"money", "sport"}
    assert sum(map(sum, metrics["confusion"])) == 60
    done = process("predict", "run", "-", input="goal team\n\nbank loan\n")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [r.get("label") for r in rows] == ["sport", None, "money"]
    assert [r["row"] for r in rows] == [1, 2, 3]
    assert rows[1]["error"].endswith("is empty")
    assert sum(rows[0]["probabilities"].values()) == pytest.approx(1, abs=1e-5)


@pytest.mark.usefixtures("trained")
def test_json_is_one_document_for_every_verb(command, reviews):
    for arguments in (
        ("mixers",),
        ("info",),
        ("evaluate", "run", reviews),
        ("predict", "run", reviews),
        ("train", reviews, "--task", "classify", "--out", "other", *TINY),
    ):
        done = command(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        json.loads(done.stdout)


def test_generate_draws_the_same_for_the_same_seed(command, tmp_path):
    done = command("train", "digits", "--task", "pixels", "--out", "px", *TINY)
    assert done.returncode == 0, done.stderr
    for name in ("a.png", "b.png"):
        drawn = command("generate", "px", "--samples", "4", "--seed", "3", "--out", name, "--json")
        assert drawn.returncode == 0, drawn.stderr
        assert json.loads(drawn.stdout)["samples"] == 4
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_missing_file(process, tmp_path):
    done = process("train", "nope.csv", "--task", "classify", "--out", "run")
    assert "nope.csv" in one_line(done, 1)
    assert not list(tmp_path.iterdir())


def test_unknown_mixer(process, reviews, tmp_path):
    done = process("train", reviews, "--task", "classify", "--mixer", "foo", "--out", "run")
    assert "softmax, linear, fnet, fastformer, none" in one_line(done, 2)
    assert not (tmp_path / "run").exists()


def test_missing_column(command, reviews, tmp_path):
    done = command("train", reviews, "--task", "classify", "--label", "stars", "--out", "run")
    line = one_line(done, 2)
    assert "'stars'" in line
    assert "'text', 'label'" in line
    assert not (tmp_path / "run").exists()


def test_one_class(command, tmp_path):
    (tmp_path / "one.csv").write_text("text,label\na,x\nb,x\n")
    done = command("train", "one.csv", "--task", "classify", "--out", "run")
    assert "one class ('x')" in one_line(done, 1)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("content", ["", "text,label\n"])
def test_empty_file(command, tmp_path, content):
    (tmp_path / "empty.csv").write_text(content)
    done = command("train", "empty.csv", "--task", "classify", "--out", "run")
    assert "empty.csv" in one_line(done, 1)
    assert not (tmp_path / "run").exists()


def test_a_run_is_not_overwritten(command, trained, reviews):
    before = (trained / "model.safetensors").read_bytes()
    done = command("train", reviews, "--task", "classify", "--out", "run", *TINY)
    assert "already holds a run" in one_line(done, 2)
    assert (trained / "model.safetensors").read_bytes() == before


def test_wrong_run(command, tmp_path, reviews):
    assert "no such run directory" in one_line(command("evaluate", "nowhere", reviews), 1)
    (tmp_path / "folder").mkdir()
    assert "is not a run" in one_line(command("evaluate", "folder", reviews), 1)


def test_generate_from_a_classifier_is_refused(command, trained):
    assert "subquad predict RUN FILE" in one_line(command("generate", trained), 2)


@pytest.mark.usefixtures("trained")
def test_an_unseen_label_is_named_with_its_row(command, tmp_path):
    (tmp_path / "other.csv").write_text("text,label\ngoal,sport\nx,weather\n")
    line = one_line(command("evaluate", "run", "other.csv"), 1)
    assert "row 2" in line
    assert "'weather'" in line
    assert "money, sport" in line


def test_inspect(command, trained, reviews):
    done = command("inspect", "run", "goal team", "--file", reviews, "--rows", "50", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["rows"] == 50
    assert found["page"].endswith("inspect.html")
    assert {head["channel"] for head in found["heads"]} == {"α, global query", "β, global key"}
    assert {p.name for p in (trained / "inspect").iterdir()} == {
        "inspect.html",
        "inspect.json",
        "text-1.png",
    }
    assert "give a text or --file FILE" in one_line(command("inspect", "run"), 2)
    wrong = command("inspect", "run", "goal", "--on-bad-row", "skip")
    assert "--on-bad-row applies to --file only, which was not given" in one_line(wrong, 2)
    with reviews.open("a") as file:
        file.write(",sport\n")
    assert "--on-bad-row skip" in one_line(command("inspect", "run", "--file", reviews), 1)
    done = command("inspect", "run", "--file", reviews, "--on-bad-row", "skip", "--json")
    assert json.loads(done.stdout)["rows"] == 60, done.stderr
    assert "1 rows were skipped: row 61" in done.stderr
    assert json.loads(done.stdout)["skipped"] in done.stderr
    for wrong in (["goal", "--rows", "5"], ["goal", "--no-header"]):
        says = f"{wrong[1]} applies to --file only, which was not given"
        assert says in one_line(command("inspect", "run", *wrong), 2)
    nothing = command("inspect", "run", "--file", "-", input="")
    assert "standard input contains no texts" in one_line(nothing, 1)
