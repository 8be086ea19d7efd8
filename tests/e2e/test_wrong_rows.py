"""Which rows were wrong, and predictions as a table."""

import csv as tables
import io
import json
from pathlib import Path

import pytest

from tests.e2e.conftest import ROWS, TINY, csv

#: Two of the labels are wrong on purpose; the first text has a comma and quotes.
HELD = [('"goal, match ""team"""', "sport"), *ROWS[2:8], ("bank loan price", "sport")]
HELD += [("goal match team", "money")]


@pytest.fixture
def judged(cli):
    csv("a.csv")
    csv("b.csv", HELD)
    flags = ["--task", "classify", "--out", "run", *TINY, "--steps", "60"]
    assert cli("train", "a.csv", *flags)[0] == 0


def read(name):
    if name.endswith(".csv"):
        return list(tables.DictReader(io.StringIO(Path(name).read_text("utf-8"))))
    return [json.loads(line) for line in Path(name).read_text("utf-8").splitlines()]


@pytest.mark.usefixtures("judged")
@pytest.mark.parametrize("name", ["wrong.csv", "wrong.jsonl"])
def test_the_wrong_rows_are_written_and_are_those_counted(cli, name):
    code, out, err = cli("evaluate", "run", "b.csv", "--json", "--errors", name)
    assert code == 0, err
    metrics, rows = json.loads(out), read(name)
    assert f"{len(rows)} misclassified rows written to {name}" in err
    assert len(rows) == round(metrics["examples"] * (1 - metrics["accuracy"]))
    assert [(int(r["row"]), r["truth"], r["guess"]) for r in rows][-2:] == [
        (8, "sport", "money"),
        (9, "money", "sport"),
    ]
    assert rows[-1]["text"] == "goal match team"
    assert all(0.5 <= float(r["probability"]) <= 1 for r in rows)


@pytest.mark.usefixtures("judged")
def test_predictions_as_csv(cli):
    Path("c.jsonl").write_text('7\n{"text": "goal, \\"match\\""}\n{"text": "bank"}\n{"text": ""}\n')
    code, out, err = cli("predict", "run", "c.jsonl", "--to", "csv")
    plain = [json.loads(line) for line in cli("predict", "run", "c.jsonl")[1].splitlines()]
    found = list(tables.DictReader(io.StringIO(out)))
    assert code == 0, err
    assert list(found[0]) == ["row", "label", "probability", "error"]
    assert [r["row"] for r in found] == ["1", "2", "3", "4"]
    for row, answer in zip(found, plain, strict=True):
        assert row["error"] == answer.get("error", "")
        assert row["label"] == answer.get("label", "")
        if "label" in answer:
            assert float(row["probability"]) == answer["probabilities"][answer["label"]]
    assert sum(bool(r["error"]) for r in found) == 2


@pytest.mark.usefixtures("judged")
def test_what_cannot_be_is_refused(cli):
    for arguments, says in (
        (
            ("evaluate", "run", "b.csv", "--errors", "x.txt"),
            "the file name must end in .csv or .jsonl",
        ),
        (("evaluate", "run", "-", "--errors", "x.csv"), "which standard input does not allow"),
        (("predict", "run", "b.csv", "--json", "--to", "csv"), "--json or --to, not both"),
    ):
        code, out, err = cli(*arguments)
        assert (code, out) == (2, "")
        assert says in err
    number = [(text, i % 7) for i, (text, _) in enumerate(ROWS)]
    csv("n.csv", number)
    flags = ["--task", "regress", "--out", "number", *TINY, "--steps", "2"]
    assert cli("train", "n.csv", *flags)[0] == 0
    code, _, err = cli("evaluate", "number", "n.csv", "--errors", "x.csv")
    assert code == 2
    assert "right or wrong" in err
    code, out, _ = cli("predict", "number", "n.csv", "--to", "csv")
    assert out.splitlines()[0] == "row,number,error"


def test_rows_with_several_labels(cli):
    Path("a.csv").write_text(
        "text,label\n" + "goal match,sport\nbank price,money\ngoal bank,sport;money\n" * 20
    )
    flags = ["--task", "classify", "--labels-separator", ";", "--out", "several", *TINY]
    assert cli("train", "a.csv", *flags, "--steps", "1")[0] == 0
    code, out, err = cli("evaluate", "several", "a.csv", "--json", "--errors", "wrong.csv")
    assert code == 0, err
    wrong = read("wrong.csv")
    assert len(wrong) == round(60 * (1 - json.loads(out)["exact"])) > 0
    assert all(row["truth"] != row["guess"] for row in wrong)
    assert {row["truth"] for row in wrong} <= {"sport", "money", "money;sport"}
    code, out, _ = cli("predict", "several", "a.csv", "--to", "csv")
    assert out.splitlines()[0] == "row,labels,p(money),p(sport),error"
