"""What a person may not have meant is said before training, or refused where it cannot be meant."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from subquad.errors import UsageError
from subquad.tasks import task_class
from subquad.tasks.doubts import about_labels


def said(task: str, path: Path, tokenizer: str = "words", **data: object) -> str:
    config = task_class(task).defaults()
    data |= {"path": str(path), "tokenizer": tokenizer}
    config = replace(config, data=replace(config.data, **data))  # type: ignore[arg-type]
    return "\n".join(task_class(task).fit(config, path.parent / "store")[0].notes)


def test_numbers_under_classify() -> None:
    decimals = [f"{i / 7:.3f}" for i in range(300)]
    assert "300 different numbers (0.000, 0.143, 0.286, …)" in about_labels(decimals, 900, "f")[0]
    assert "--task regress?" in about_labels(decimals, 900, "f")[0]
    with pytest.raises(UsageError, match=r"f: the labels of all 300 rows .* --task regress"):
        about_labels(decimals, 300, "f")
    wholes = [str(i) for i in range(77)]
    assert about_labels(wholes, 500, "f")
    assert not about_labels(wholes, 10_000, "f")  # 77 intents by number
    assert not about_labels([str(i / 2) for i in range(1, 11)], 1000, "f")  # stars
    assert not about_labels([f"w{i}" for i in range(300)], 300, "f")
    assert not about_labels(["1", "2"], 2, "f")


def test_several_labels_in_one() -> None:
    assert about_labels(["news", "sport", "sport;news"], 9, "f") == [
        "1 label looks like several labels in one ('sport;news'), but is treated as a single "
        "class; use --labels-separator ';' to split it"
    ]
    both = about_labels(["a|b", "b | c", "d"], 9, "f")
    assert both == [
        "2 labels look like several labels in one ('a|b'), but each is treated as a single "
        "class; use --labels-separator '|' to split them"
    ]
    assert not about_labels(["C;", "x;y", "news", "TV|radio"], 9, "f")


def rows(path: Path, texts: list[str], labels: list[str]) -> Path:
    lines = [f"{text},{labels[i % len(labels)]}" for i, text in enumerate(texts)]
    path.write_text("\n".join(["text,label", *lines]) + "\n")
    return path


@pytest.mark.parametrize("task", ["classify", "regress", "masked", "language"])
def test_texts_of_unknown_words(tmp_path: Path, task: str) -> None:
    draw = random.Random(0)
    labels = ["0.5", "1"]
    dna = ["".join(draw.choices("ACGT", k=60)) for _ in range(1200)]
    known = [" ".join(draw.choices(["the", "bank", "won"], k=9)) for _ in range(1200)]
    hint = "try --tokenizer chars, or bytes"
    assert hint not in said(task, rows(tmp_path / "a.csv", known, labels))
    if task == "masked":  # which leaves out texts of one word
        dna = [" ".join(two) for two in zip(dna, reversed(dna), strict=True)]
    notes = said(task, rows(tmp_path / "a.csv", dna, labels))
    assert hint in notes
    if task in ("classify", "regress"):
        assert "nearly every text is one unknown word (120 of 120 texts" in notes
    assert hint not in said(task, tmp_path / "a.csv", "chars")


@pytest.mark.parametrize("task", ["classify", "pixels"])
def test_a_folder_with_the_name_of_the_built_in_digits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    monkeypatch.chdir(tmp_path)
    note = "digits is the built-in set; the one in this folder is read as ./digits"
    config = task_class(task).defaults()
    config = replace(config, data=replace(config.data, path="digits"))

    def notes() -> str:
        made = task_class(task).fit(config, tmp_path / "store")[0]
        found = "\n".join(made.notes)
        made.examples("digits", tmp_path / "store")
        assert (note in found) == (note in "\n".join(made.notes))
        return found

    assert note not in notes()
    Path("digits").mkdir()
    assert note in notes()
