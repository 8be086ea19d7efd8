"""The recipes of generation, at sizes that take seconds."""

import json
from dataclasses import replace

import numpy as np
import pytest

from subquad.errors import UsageError
from subquad.lab.recipes import Job, copying, image_generation, run


@pytest.fixture
def tiny_copies(monkeypatch):
    usual = copying.settings

    def settings(path, mixer, full, seed):
        c = usual(path, mixer, full, seed)
        return replace(
            c,
            model=replace(c.model, layers=1, d=16, heads=2, ff=16),
            training=replace(c.training, steps=3, evaluations=2, batch=4),
        )

    monkeypatch.setattr(copying, "settings", settings)


def test_rows_are_words_and_their_copies():
    for row in copying.rows(5, seed=0, word=9):
        word, separator, copy = row.partition("#")
        assert separator
        assert word == copy
        assert len(row) + 1 == copying.row_length(9)
    assert copying.rows(3, seed=0, word=9) != copying.rows(3, seed=1, word=9)


@pytest.mark.usefixtures("tiny_copies")
def test_copy_task(tmp_path):
    heard = []
    job = Job(tmp_path / "out", seeds=2, watch=heard.append)
    made = run("copy-task", job, "subquad recipe copy-task")
    assert [p.line.partition(":")[0] for p in heard if "copied correctly" in p.line] == [
        f"{mixer}, seed {seed}" for seed in (0, 1) for mixer in ("linear", "softmax")
    ]
    assert [p.spent for p in heard] == sorted(p.spent for p in heard)
    found = json.loads((tmp_path / "out/results.json").read_text())["results"]
    assert {m: len(runs) for m, runs in found.items()} == {"linear": 2, "softmax": 2}
    for runs in found.values():
        for one in runs:
            assert 0 <= one["accuracy"] < 0.6
            assert 2 < one["bits_per_symbol"] < 5
    assert "<svg" in made.report.read_text()
    before = (tmp_path / "out/runs/linear-seed0/metrics.jsonl").read_text()
    run("copy-task", Job(tmp_path / "out", seeds=2), "again")  # continues: nothing is left to do
    assert (tmp_path / "out/runs/linear-seed0/metrics.jsonl").read_text() == before


def test_copy_task_needs_no_data(tmp_path):
    with pytest.raises(UsageError, match="makes its own data"):
        run("copy-task", Job(tmp_path / "out", ("a.csv",)), "")


def test_the_papers_settings_are_the_full_preset():
    c = image_generation.preset(image_generation.MNIST, "x", full=True)
    m, t = c.model, c.training
    assert (m.layers, m.d, m.heads, m.ff, c.options.mixture) == (8, 256, 8, 1024, 10)
    assert (t.optimizer, t.lr, t.epochs, t.batch) == ("radam", 1e-4, 250, 10)
    assert image_generation.preset(image_generation.CIFAR10, "x", full=True).model.layers == 16


def test_drawing(tmp_path, monkeypatch):
    for name, count in (("train", 60), ("test", 10)):
        pixels = np.random.default_rng(0).integers(256, size=(count, 4, 5), dtype=np.uint8)
        np.save(tmp_path / f"{name}.npy", pixels)
    usual = image_generation.preset

    def preset(paper, path, full):
        c = usual(paper, path, full)
        return replace(
            c,
            model=replace(c.model, layers=4, d=16, heads=2, ff=16),
            training=replace(c.training, minutes=None, steps=3, batch=8),
        )

    small = replace(image_generation.MNIST, layers=1, length=20)
    monkeypatch.setattr(image_generation, "preset", preset)
    monkeypatch.setattr(image_generation, "MNIST", small)
    data = (str(tmp_path / "train.npy"), str(tmp_path / "test.npy"))
    heard = []
    job = Job(tmp_path / "out", data, watch=heard.append)
    made = run("mnist-generation", job, "subquad recipe …")
    assert any("bits per dimension" in p.line for p in heard)
    results = made.document["results"]
    assert results["test"]["examples"] == 10
    assert 5 < results["test"]["bits_per_dim"] < 12
    assert set(results["ratios"]) == {
        "softmax, cached",
        "softmax, copied cache",
        "softmax, recomputed",
    }
    assert "data:image/png;base64" in made.report.read_text()
    with pytest.raises(UsageError, match="1 given"):
        run("mnist-generation", Job(tmp_path / "b", data[:1]), "")
