"""The recipes of the Fastformer family, on a small file."""

import json
from dataclasses import replace

import pytest

from subquad.errors import UsageError
from subquad.lab.compare.verdict import Candidate, Figure
from subquad.lab.recipes import Job, fastformer_ablation, fastformer_topic, run
from subquad.lab.recipes.ablation_page import compare, headline, sentences


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

    grid = fastformer_ablation.config
    monkeypatch.setattr(
        fastformer_ablation, "config", lambda path, full: smaller(grid(path, full=full))
    )
    monkeypatch.setattr(fastformer_ablation, "COLUMNS", (2, 50))
    monkeypatch.setattr(fastformer_ablation, "EQUAL", (50,))
    real = fastformer_topic.config
    monkeypatch.setattr(fastformer_topic, "config", lambda path: smaller(real(path)))


def test_topic_has_the_settings_of_the_example():
    made = fastformer_topic.config("x.csv")
    model, training = made.model, made.training
    assert (model.d, model.heads, model.layers, model.ff, model.dropout) == (256, 16, 2, 256, 0.2)
    assert (training.lr, training.batch, training.epochs) == (1e-3, 64, 2)
    assert (made.data.length, made.options.pooling) == (256, "attention")
    assert (model.mixer_dense, made.options.label_smoothing) == (True, 0.0)


@pytest.mark.usefixtures("small")
def test_topic_scores_on_the_test_file_and_shows_the_bag_of_words(files, tmp_path):
    heard = []
    job = Job(tmp_path / "out", files, seeds=2, watch=heard.append)
    made = run("fastformer-topic", job, "subquad recipe …")
    assert sum(" of 2: fastformer, seed " in p.line for p in heard) == 2
    document = json.loads((tmp_path / "out/results.json").read_text(encoding="utf-8"))
    assert document["results"]["figure"]["split"] == "test"
    names = [row["name"] for row in document["results"]["table"]]
    assert names == ["majority class", "bag of words", "fastformer"]
    assert len(document["results"]["macro_f1"]["seeds"]) == 2
    page = made.report.read_text(encoding="utf-8")
    assert "92.71 %" in page
    assert "12 held-out examples, never on the test file" in page


def test_topic_refuses_more_than_two_files(tmp_path):
    with pytest.raises(UsageError, match="takes TRAIN and optionally TEST, but 3 files"):
        run("fastformer-topic", Job(tmp_path / "out", ("a", "b", "c")), "")


@pytest.mark.usefixtures("small")
def test_ablation_trains_every_variant_and_concludes(files, tmp_path):
    heard = []
    job = Job(tmp_path / "out", files, seeds=2, watch=heard.append)
    made = run("fastformer-ablation", job, "subquad recipe …")
    assert sum(" of 24: " in p.line for p in heard) == 24
    results = json.loads((tmp_path / "out/results.json").read_text(encoding="utf-8"))["results"]
    rows = {row["name"]: row for row in results["variants"]}
    assert len(rows) == 4 + 1 + 6 + 1
    assert all(len(row["accuracy"]) == 2 for row in rows.values())
    assert rows["50 columns"]["parameters"] > 2 * rows["2 columns"]["parameters"]
    equal = rows["50 columns, equal size"]["parameters"] / rows["2 columns"]["parameters"]
    assert 0.5 < equal < 1.5
    assert "query residual" in made.report.read_text(encoding="utf-8")
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("model.safetensors")}
    again = run("fastformer-ablation", job, "subquad recipe …")
    assert again.outcome.results["variants"] == made.outcome.results["variants"]
    assert before == {p: p.stat().st_mtime_ns for p in before}, "trained twice"


def test_the_full_ablation_crosses_everything():
    full = list(fastformer_ablation.variants(full=True))
    assert len([v for v in full if v.group == "grid"]) == 2 * 6 * 2 * 3 * 3


def numbers(**accuracy):
    rows = [
        {"name": n, "group": "columns", "accuracy": v, "seconds_per_step": 0.1}
        for n, v in accuracy.items()
    ]
    floors = {"bag of words": [0.8, 0.8, 0.8]}
    return {"variants": rows, "floors": floors, "rows": 1000, "split": "test", "seeds": [0, 1, 2]}


def test_conclusions_follow_from_the_numbers():
    clear = {"2 columns": [0.9, 0.9, 0.901], "2 columns, bare": [0.7, 0.7, 0.701]}
    said = " ".join(sentences(numbers(**clear)))
    assert "Every variant does worse without the query residual." in said
    assert "2 columns: -20.0 points, beyond the noise of" in said
    assert "10.0 points above it" in said
    assert headline(numbers(**clear)).startswith("Nothing tried is clearly better")
    better = clear | {"4 columns": [0.95, 0.951, 0.95]}
    assert headline(numbers(**better)).startswith("4 columns does better than 2 columns (the paper")
    none = clear | {"no mixer": [0.8, 0.8, 0.801], "4 columns": [0.8, 0.8, 0.802]}
    said = " ".join(sentences(numbers(**none)))
    assert (
        "clearly above: 2 columns; within the noise: 4 columns; clearly below: 2 columns, bare"
        in said
    )
    unclear = Candidate("a", (0.9, 0.8, 0.7), 0.1), Candidate("b", (0.82, 0.78, 0.79), 0.1)
    figure = Figure("accuracy", True, 1000, "test")
    assert "within the noise" in compare(*unclear, figure)
    assert "single seed" in compare(
        Candidate("a", (0.9,), 0.1), Candidate("b", (0.8,), 0.1), figure
    )
