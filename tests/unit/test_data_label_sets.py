"""Several labels for each row, however they are written down."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from subquad.data.label_sets import JOIN, LabelSets
from subquad.data.labels import Labels
from subquad.data.source import ReadOptions, open_source
from subquad.errors import SubquadError, UsageError

ROWS = [("one", ["b", "a"]), ("two", []), ("three", ["c"]), ("four", ["a"])]
SETS = [[True, True, False], [False] * 3, [False, False, True], [True, False, False]]


def written(kind: str, folder: Path) -> tuple[Path, dict[str, str]]:
    """The rows in a file, and the options that read it."""
    path = folder / f"a.{kind.partition(' ')[0]}"
    if kind == "csv columns":
        lines = [f"{text},{','.join(str(int(c in has)) for c in 'abc')}" for text, has in ROWS]
        path.write_text("\n".join(["text,a,b,c", *lines]) + "\n")
        return path, {"label": "a, b,c"}
    if kind == "csv cell":
        lines = [f"{text},{' ; '.join(has)}" for text, has in ROWS]
        path.write_text("\n".join(["text,label", *lines]) + "\n")
        return path, {"separator": ";"}
    if kind == "parquet columns":
        flags = {c: [c in has for _, has in ROWS] for c in "abc"}
        pl.DataFrame({"text": [text for text, _ in ROWS], **flags}).write_parquet(path)
        return path, {"label": "a,b,c"}
    table = [{"text": text, "label": has} for text, has in ROWS]
    if kind == "parquet list":
        pl.DataFrame(table).write_parquet(path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table))
    return path, {}


KINDS = ["csv columns", "csv cell", "parquet columns", "parquet list", "jsonl list"]


@pytest.mark.parametrize("kind", KINDS)
def test_one_truth_in_every_form(kind: str, tmp_path: Path) -> None:
    path, options = written(kind, tmp_path)
    source = open_source(path, ReadOptions(several=True, **options), labelled=True)  # type: ignore[arg-type]
    found = [(record.text, str(record.label)) for record in source.records()]
    assert [text for text, _ in found] == [text for text, _ in ROWS]
    labels = LabelSets.of([label for _, label in found], "f")
    assert labels.names == ("a", "b", "c")
    assert labels.rows([label for _, label in found], "f").tolist() == SETS


@pytest.mark.parametrize(
    ("cell", "options", "words"),
    [
        ("x,2,0", {"label": "a,b"}, "row 1 .*column 'a' holds '2', neither 0 nor 1"),
        ("x,,0", {"label": "a,b"}, "column 'a' holds '', neither 0 nor 1"),
        ("x,1,0", {"label": "a,z"}, "no column 'z' .*--label"),
        ("x,1,0", {"label": "a,b", "separator": ";"}, "--labels-separator is for labels in one"),
    ],
)
def test_what_is_no_set_of_labels_is_refused(
    cell: str, options: dict[str, str], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"text,a,b\n{cell}\n")
    read = ReadOptions(several=True, **options)  # type: ignore[arg-type]
    with pytest.raises((SubquadError, UsageError), match=words):
        list(open_source(path, read, labelled=True).records())


def test_columns_are_several_only_where_a_row_may_have_several(tmp_path: Path) -> None:
    path, _ = written("csv columns", tmp_path)
    with pytest.raises(UsageError, match="no column 'a,b,c'"):
        open_source(path, ReadOptions(label="a,b,c"), labelled=True)
    path.write_text('text,"a,b"\nx,y\n')
    source = open_source(path, ReadOptions(label="a,b", several=True), labelled=True)
    assert [record.label for record in source.records()] == ["y"]


def test_a_label_that_was_not_seen_is_named_with_those_that_were() -> None:
    labels = LabelSets(Labels(("a", "b")))
    with pytest.raises(SubquadError, match=r"f, row 3: label 'c' was not seen .* a, b"):
        labels.index(f"a{JOIN}c", "f, row 3")
    assert labels.index("", "f") == 0


def test_weights_and_rare_labels() -> None:
    labels = LabelSets(Labels(("a", "b", "c")))
    sets = np.array([[1, 1, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0]], dtype=bool)
    weights = labels.weights(sets)
    np.testing.assert_allclose(weights * sets.sum(0), [4 / 3, 4 / 3, 0], rtol=1e-6)
    assert labels.rare(sets, "f") == "f: 1 label occurs in a single row: b"


def test_saved_and_loaded(tmp_path: Path) -> None:
    labels = LabelSets(Labels(("a", "é")))
    labels.save(tmp_path / "several.json")
    assert LabelSets.load(tmp_path / "several.json") == labels
    labels.labels.save(tmp_path / "one.json")
    assert LabelSets.load(tmp_path / "one.json") is None
    with pytest.raises(SubquadError, match="not a JSON list"):
        Labels.load(tmp_path / "several.json")
    (tmp_path / "bad.json").write_text('{"several": true, "classes": ["a", "a"]}')
    with pytest.raises(SubquadError, match="not a list of different class names"):
        LabelSets.load(tmp_path / "bad.json")
