"""Faults that users reported elsewhere, each through the command: named after its kind."""

import json
import pickle
from pathlib import Path

import pytest

from subquad import checkpoint
from tests.e2e.conftest import ROWS, csv, train


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


@pytest.mark.parametrize(("words", "share"), [(99, 0.2), (100, 0.5)])
def test_the_default_that_depends_on_the_data_is_said_and_resumed(cli, words, share):
    csv("a.csv", [(" ".join([text] * (words // 3) + ["x"] * (words % 3)), y) for text, y in ROWS])
    code, _, err = train(cli, "a.csv")
    assert code == 0
    assert f"token_dropout is {share}: texts have {words} tokens on average" in err
    assert json.loads(Path("run/config.json").read_text())["options"]["token_dropout"] == share
    assert train(cli, "a.csv", "run", "--resume")[0] == 0
    code, _, err = train(cli, "a.csv", "other", "--token-dropout", "0.1")
    assert code == 0
    assert "token_dropout is" not in err
