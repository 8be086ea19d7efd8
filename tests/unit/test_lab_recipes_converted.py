"""The recipes on pretrained bodies, with a tiny body and seconds instead of minutes."""

import json
from pathlib import Path

import pytest

from subquad.errors import SubquadError, UsageError
from subquad.lab.recipes import Job, converted, run, word_order
from tests.bodies import texts, tiny_bert


def labelled(path: Path, rows: int) -> str:
    found = [{"text": text, "label": "ab"[i % 2]} for i, text in enumerate(texts(rows, 24, rows))]
    path.write_text("".join(json.dumps(row) + "\n" for row in found))
    return str(path)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    folder = tmp_path_factory.mktemp("data")
    body = tiny_bert(folder / "bert")
    return str(body), labelled(folder / "train.jsonl", 60), labelled(folder / "test.jsonl", 30)


@pytest.mark.parametrize("name", ["convert-minilm", "word-order", "long-documents"])
def test_every_row_of_the_table(
    name: str, data: tuple[str, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for constant in ("MINUTES", "LONG_MINUTES"):
        monkeypatch.setattr(converted, constant, 0.03)
    for constant in ("TEACHING", "LONG_TEACHING"):
        monkeypatch.setattr(converted, constant, 0.01)
    rows = {
        "convert-minilm": converted.SHORT_ROWS,
        "word-order": converted.ORDER_ROWS,
        "long-documents": converted.LONG_ROWS,
    }[name]
    made = run(name, Job(tmp_path / "out", data, seeds=1), "the command")
    (table,) = made.outcome.tables
    said = [row[0] for row in table.rows]
    floors = {"majority class", "bag of words", "frozen vectors"}
    assert said == [row.name for row in rows] + [n for n in said if n in floors]
    assert floors <= set(said)
    times = {row[0]: row[4] for row in table.rows}
    for row in rows:
        taught = row.mixer != "softmax" and row.teach
        assert (made.document["results"][row.name]["runs"][0]["taught"] > 0) == taught
        assert "+" in times[row.name]
    assert "</html>" in made.report.read_text("utf-8")


def test_two_words_are_exchanged_in_half_of_the_rows(tmp_path: Path) -> None:
    given = labelled(tmp_path / "given.jsonl", 400)
    word_order.write(given, tmp_path / "made.jsonl", 0)
    before = {}
    for line in Path(given).read_text().splitlines():
        text = json.loads(line)["text"]
        before.setdefault(tuple(sorted(text.split())), []).append(text)
    rows = [json.loads(line) for line in (tmp_path / "made.jsonl").read_text().splitlines()]
    exchanged = [row for row in rows if row["label"] == "exchanged"]
    assert 0.4 < len(exchanged) / len(rows) < 0.6
    for row in rows:
        same = before[tuple(sorted(row["text"].split()))]
        assert (row["text"] in same) == (row["label"] == "as written")


def test_what_cannot_be_made(data: tuple[str, str, str], tmp_path: Path) -> None:
    short = tmp_path / "short.jsonl"
    short.write_text('{"text": "a good film"}\n')
    with pytest.raises(SubquadError, match="has no text of 8 words or more"):
        word_order.write(str(short), tmp_path / "made.jsonl", 0)
    with pytest.raises(UsageError, match="convert-minilm takes BODY TRAIN TEST, but 2 were given"):
        run("convert-minilm", Job(tmp_path / "out", data[:2]), "the command")
