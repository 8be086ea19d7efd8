"""How files are read after training: the columns of training, and what is left out is told."""

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import TINY, csv, train

WORDS = ("goal match team", "bank loan price")
#: Task → two labels that it takes.
LABELS = {
    "classify": ("sport", "money"),
    "regress": ("1.5", "2.5"),
    "language": ("sport", "money"),
    "masked": ("sport", "money"),
}
FLAGS = (
    "--steps",
    "3",
    "--length",
    "32",
    "--tokenizer",
    "words",
    "--vocabulary",
    "100",
    "--layers",
    "2",
)


def table(path, header, rows):
    lines = [",".join(header), *(",".join(row) for row in rows)]
    Path(path).write_text("\n".join(lines) + "\n")


def rows_of(task, n=40):
    return [(str(i), WORDS[i % 2], LABELS[task][i % 2]) for i in range(n)]


def trained(cli, task, path="train.csv", out="run", *more):
    arguments = ["train", path, "--task", task, "--out", out, *TINY, *FLAGS, *more]
    code, _, err = cli(*arguments)
    assert code == 0, err


@pytest.mark.parametrize("task", LABELS)
def test_the_columns_of_training_are_read_again(cli, task):
    table("train.csv", ("id", "review", "category"), rows_of(task))
    trained(cli, task)
    columns = json.loads(Path("run/config.json").read_text())["data"]["columns"]
    labelled = task in ("classify", "regress")
    assert columns == {"text": "review"} | ({"label": "category"} if labelled else {})
    _, plain, _ = cli("evaluate", "run", "train.csv", "--json")
    # Columns with likelier names, which say other things.
    more = [(i, "nothing at all", text, "9", label) for i, text, label in rows_of(task)]
    table("other.csv", ("id", "text", "review", "label", "category"), more)
    code, other, err = cli("evaluate", "run", "other.csv", "--json")
    assert code == 0, err
    assert other == plain
    assert "text = 'review'" in err
    code, _, err = cli("evaluate", "run", "other.csv", "--text", "text", "--json")
    assert code == 0
    assert "text = 'text'" in err


def test_columns_of_training_that_are_not_there(cli):
    table("train.csv", ("id", "review", "category"), rows_of("classify"))
    trained(cli, "classify", "train.csv", "run", "--text", "review", "--label", "category")
    table("other.csv", ("id", "text", "label"), rows_of("classify"))
    code, _, err = cli("evaluate", "run", "other.csv")
    assert code == 0, err
    said = "(training read text = 'review', label = 'category', which is not here; it has: 'id', "
    assert said in " ".join(err.split())
    code, _, err = cli("evaluate", "run", "other.csv", "--text", "review")
    assert code == 2
    assert "no column 'review' (--text); it has: 'id', 'text', 'label'" in err
    table("other.csv", ("id", "b", "c", "d"), [("1", "x y", "z w", "sport")] * 3)
    code, _, err = cli("evaluate", "run", "other.csv")
    assert code == 2
    assert "which column is the text cannot be told; it has: 'id', 'b', 'c', 'd'" in err
    Path("lines.txt").write_text("a goal\na loan\n")
    code, out, err = cli("predict", "run", "lines.txt", "--format", "lines")
    assert code == 0
    assert len(out.splitlines()) == 2
    assert "which is not here" not in err


def test_the_columns_of_training_hold_everywhere(cli):
    table("train.csv", ("id", "review", "category"), rows_of("classify"))
    trained(cli, "classify")
    other = [(i, "nothing at all", text, label) for i, text, label in rows_of("classify")]
    table("other.csv", ("id", "text", "review", "category"), other)
    for verb in (("predict", "run", "other.csv"), ("inspect", "run", "--file", "other.csv")):
        code, _, err = cli(*verb)
        assert code == 0, err
        assert "text = 'review'" in err
    code, _, err = cli(
        *("compare", "train.csv", "--task", "classify", "--mixers", "none", "--seeds", "1"),
        *("--out", "report", "--test", "other.csv", *TINY, *FLAGS),
    )
    assert code == 0, err
    assert "text = 'review'" in err


@pytest.mark.parametrize("task", LABELS)
def test_skipped_rows_are_told(cli, task):
    table("train.csv", ("text", "label"), [row[1:] for row in rows_of(task)])
    trained(cli, task)
    bad = [
        ("", label) if i % 4 == 0 else (text, label)
        for i, (_, text, label) in enumerate(rows_of(task))
    ]
    table("bad.csv", ("text", "label"), bad)
    code, out, err = cli("evaluate", "run", "bad.csv", "--on-bad-row", "skip", "--json")
    assert code == 0, err
    assert json.loads(out)["rows_skipped"] == 10
    assert "10 rows were skipped: row 1: the text (column 'text') is empty" in err
    code, out, _ = cli("evaluate", "run", "bad.csv", "--on-bad-row", "skip")
    assert "rows_skipped 10" in out
    assert "texts_cut" not in out


@pytest.mark.parametrize("task", ["classify", "regress"])
def test_texts_that_are_cut_are_told(cli, task):
    table("train.csv", ("text", "label"), [row[1:] for row in rows_of(task)])
    trained(cli, task)
    long = [
        (text * 30 if i < 7 else text, label) for i, (_, text, label) in enumerate(rows_of(task))
    ]
    table("long.csv", ("text", "label"), long)
    sentence = "reach the maximum length of 32 tokens and were truncated"
    code, out, err = cli("evaluate", "run", "long.csv", "--json")
    assert code == 0, err
    assert (json.loads(out)["texts_cut"], json.loads(out)["rows_skipped"]) == (7, 0)
    assert f"7 of 40 texts {sentence}" in err
    code, out, err = cli("predict", "run", "long.csv", "--json")
    assert [answer.get("cut") for answer in json.loads(out)] == [True] * 7 + [None] * 33
    assert f"7 {sentence}" in err
    code, out, err = cli("inspect", "run", "--file", "long.csv", "--json")
    assert f"7 of 40 texts {sentence}" in err
    assert sentence in json.loads(out)["notes"][1]


@pytest.mark.parametrize("task", ["classify", "regress"])
def test_unseen_labels_are_skipped_when_asked(cli, task):
    table("train.csv", ("text", "label"), [row[1:] for row in rows_of(task)])
    trained(cli, task)
    rows = [(text, "new" if i < 5 else label) for i, (_, text, label) in enumerate(rows_of(task))]
    table("new.csv", ("text", "label"), rows)
    code, _, err = cli("evaluate", "run", "new.csv")
    assert code == 1
    assert "label 'new'" in err
    code, out, err = cli("evaluate", "run", "new.csv", "--on-bad-row", "skip", "--json")
    assert code == 0, err
    assert (json.loads(out)["examples"], json.loads(out)["rows_skipped"]) == (35, 5)
    assert "5 rows were skipped: row 1: label 'new'" in err


def test_numbers_that_are_none_are_skipped_in_training(cli):
    rows = [
        (text, "n/k" if i < 5 else label) for i, (_, text, label) in enumerate(rows_of("regress"))
    ]
    table("train.csv", ("text", "label"), rows)
    trained(cli, "regress", "train.csv", "run", "--on-bad-row", "skip")
    assert json.loads(Path("run/data.json").read_text())["examples"] == 31


@pytest.mark.parametrize("kind", ["csv", "folder"])
def test_a_run_is_resumed_from_another_folder(cli, kind, monkeypatch):
    if kind == "csv":
        csv("a")
        Path("a").rename(path := Path("a.csv"))
    else:
        for i in range(40):
            file = Path("a", LABELS["classify"][i % 2], f"{i}.txt")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(WORDS[i % 2])
        path = Path("a")
    assert train(cli, str(path))[0] == 0
    before = Path("run/model.safetensors").read_bytes()
    for other in (f"./{path}", path.absolute()):
        assert train(cli, other, "run", "--resume")[0] == 0
    Path("inner").mkdir()
    monkeypatch.chdir("inner")
    code, _, err = train(cli, f"../{path}", "../run", "--resume")
    assert code == 0, err
    assert Path("../run/model.safetensors").read_bytes() == before
    assert json.loads(Path("../run/config.json").read_text())["data"]["path"] == str(path)


def test_a_run_is_not_resumed_on_another_file(cli):
    csv("a.csv")
    assert train(cli, "a.csv")[0] == 0
    csv("b.csv", [("other words", "sport"), ("still others", "money")] * 20)
    code, _, err = train(cli, "b.csv", "run", "--resume")
    assert code == 1
    assert "b.csv holds other data than a.csv did since run was begun" in err
    code, _, err = train(cli, "a.csv", "run", "--resume", "--text", "label", "--label", "text")
    assert code == 2
    assert "columns was {'text': 'text', 'label': 'label'}" in err


def test_a_run_of_version_0_1_says_which_columns_were_taken(cli):
    made = Path(__file__).parents[1] / "made_by_0_1"
    code, _, err = cli("evaluate", made / "texts", made / "rows.csv")
    assert code == 0, err
    assert "text = 'text', label = 'label'" in " ".join(err.split())
