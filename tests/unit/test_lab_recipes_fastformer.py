"""The recipes of the Fastformer family, on a small file."""

import json
from dataclasses import replace

import pytest

from subquad.errors import UsageError
from subquad.lab.recipes import Job, fastformer_topic, run


@pytest.fixture
def files(tmp_path):
    words = {"sport": "match goal team coach league", "money": "bank stock price trade loan"}
    for name, count in (("train.csv", 60), ("test.csv", 10)):
        rows = [
            f"{' '.join(words[label].split()[i % 4 :])} number {i},{label}"
            for i in range(count)
            for label in words
        ]
        (tmp_path / name).write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    return str(tmp_path / "train.csv"), str(tmp_path / "test.csv")


@pytest.fixture
def small(monkeypatch):
    """The recipes' own settings, but for the sizes."""

    def smaller(made):
        model = replace(made.model, d=16, heads=2, ff=16, layers=1)
        return replace(made, model=model)

    real = fastformer_topic.config
    monkeypatch.setattr(fastformer_topic, "config", lambda path: smaller(real(path)))


def test_topic_has_the_settings_of_the_example():
    made = fastformer_topic.config("x.csv")
    model, training = made.model, made.training
    assert (model.d, model.heads, model.layers, model.ff, model.dropout) == (256, 16, 2, 256, 0.2)
    assert (training.lr, training.batch, training.epochs) == (1e-3, 64, 2)
    assert (made.data.length, model.pooling, model.mixer_dense) == (256, "attention", True)


@pytest.mark.usefixtures("small")
def test_topic_scores_on_the_test_file_and_shows_the_bag_of_words(files, tmp_path):
    made = run("fastformer-topic", Job(tmp_path / "out", files, seeds=2), "subquad recipe …")
    document = json.loads((tmp_path / "out/results.json").read_text(encoding="utf-8"))
    assert document["results"]["figure"]["split"] == "test"
    names = [row["name"] for row in document["results"]["table"]]
    assert names == ["majority class", "bag of words", "fastformer"]
    assert len(document["results"]["macro_f1"]["seeds"]) == 2
    page = made.report.read_text(encoding="utf-8")
    assert "92.71 %" in page
    assert "12 held-out rows, never on the test file" in page


def test_topic_refuses_more_than_two_files(tmp_path):
    with pytest.raises(UsageError, match="takes TRAIN and perhaps TEST, found 3"):
        run("fastformer-topic", Job(tmp_path / "out", ("a", "b", "c")), "")
