"""One order of classes, errors with rows, weights."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from subquad.data.labels import Labels
from subquad.data.splits import repeated, split, text_hash
from subquad.errors import SubquadError, UsageError


def test_b35_one_rule_for_the_order() -> None:
    assert Labels.of(["2", "10", "1"], "f").names == ("1", "2", "10")
    assert Labels.of(["0.5", "-1", "1e1"], "f").names == ("-1", "0.5", "1e1")
    assert Labels.of(["2", "10", "one"], "f").names == ("10", "2", "one")
    assert Labels.of(["é", "b", "Z", "a"], "f").names == ("Z", "a", "b", "é")
    assert Labels.of(["1", "01", "2"], "f").names == ("01", "1", "2")


def test_b35_nan_among_numbers() -> None:
    with pytest.raises(SubquadError, match="'NaN' stands among numbers"):
        Labels.of(["1", "2", "NaN"], "f")
    assert Labels.of(["nan", "en", "de"], "f").names == ("de", "en", "nan")  # Min Nan is a language


def test_b35_unseen_labels_name_their_rows() -> None:
    labels = Labels(("a", "b"))
    assert labels.index("b", "f, row 1") == 1
    with pytest.raises(SubquadError, match=r"f, row 3: label 'c' was not seen .* a, b"):
        labels.index("c", "f, row 3")
    coded = np.array([1, 0, 0, 1])
    assert labels.target(["b", "a"], coded, "f").values.tolist() == [0, 1, 1, 0]
    with pytest.raises(SubquadError, match="label 'c' was not seen"):
        labels.target(["b", "c"], coded, "f")


def test_b36_one_class_or_none() -> None:
    with pytest.raises(SubquadError, match="f has one class \\('a'\\): a classifier needs"):
        Labels.of(["a"] * 5, "f")
    with pytest.raises(SubquadError, match="f has no labels"):
        Labels.of([], "f")


def test_b36_rare_class_stays_in_training_with_a_warning() -> None:
    y = np.array([0] * 20 + [1])
    train, held = split(21, 0.2, seed=0, labels=y)
    assert 20 in train
    assert len(held) == 4
    assert split(21, 0.9, seed=0, labels=y)[0].tolist().count(20) == 1
    labels = Labels(("A", "B"))
    assert labels.rare(y, "f") == (
        "f: 1 class has a single row, which stays in training and is not evaluated: B"
    )
    assert labels.rare(np.array([0, 0, 1, 1]), "f") == ""


def test_counts_and_weights() -> None:
    labels = Labels(("a", "b", "c"))
    y = np.array([0, 0, 0, 1])
    assert labels.counts(y).tolist() == [3, 1, 0]
    weights = labels.weights(y)
    np.testing.assert_allclose(weights, [4 / 6, 2, 0])
    np.testing.assert_allclose(weights[y].sum(), len(y), rtol=1e-6)


def test_saved_and_loaded(tmp_path: Path) -> None:
    labels = Labels.of(["größe", "a\nb", "🎉"], "f")
    labels.save(tmp_path / "labels.json")
    assert Labels.load(tmp_path / "labels.json") == labels
    for content in ("{}", "[1]", "[", ""):
        (tmp_path / "labels.json").write_text(content)
        with pytest.raises(SubquadError, match="not a JSON list of different class names"):
            Labels.load(tmp_path / "labels.json")
    with pytest.raises(SubquadError, match="No such file"):
        Labels.load(tmp_path / "none.json")


def test_splits_are_deterministic_and_stratified() -> None:
    y = np.random.default_rng(1).choice(3, size=1000, p=[0.7, 0.25, 0.05])
    train, held = split(1000, 0.1, seed=5, labels=y)
    again = split(1000, 0.1, seed=5, labels=y)
    assert all(np.array_equal(a, b) for a, b in zip((train, held), again, strict=True))
    assert not np.array_equal(held, split(1000, 0.1, seed=6, labels=y)[1])
    assert sorted([*train, *held]) == list(range(1000))
    for c in range(3):
        assert (y[held] == c).sum() == round((y == c).sum() * 0.1)
    assert len(split(0, 0.5, seed=0)[0]) == 0
    assert len(split(1, 0.5, seed=0)[1]) == 0
    for share in (-0.1, 1.0):
        with pytest.raises(UsageError, match="held-out share"):
            split(10, share, seed=0)


def test_duplicates_across_splits_are_counted() -> None:
    def hashes(texts: Iterable[str]) -> np.ndarray:
        return np.array([text_hash(text) for text in texts], dtype=np.uint64)

    train = hashes(f"text {i}" for i in range(100_000))
    other = hashes(["  text 7\n", "text 7", "Text 7", "new", "", "text 99999", "text\n7"])
    assert repeated(train, other) == 3
    assert repeated(train[:0], other) == 0
    assert repeated(other, train[:0]) == 0
