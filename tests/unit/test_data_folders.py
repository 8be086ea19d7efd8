"""Folders of text files, single text files, and Parquet."""

import os
from pathlib import Path

import polars as pl
import pytest

from subquad.data import files
from subquad.data.source import ReadOptions, Source, open_source
from subquad.errors import SubquadError, UsageError


def write(root: Path, **contents: str) -> None:
    for name, content in contents.items():
        path = root / name.replace("__", "/")
        path = path if path.suffix else path.with_suffix(".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode("utf-8", "surrogateescape"))


def records(source: Source) -> list[tuple[str, str | None]]:
    return [(r.text, r.label) for r in source.records()]


def test_class_folders(tmp_path: Path) -> None:
    write(tmp_path, pos__2="b\r\n", pos__10="c", neg__sub__1="a", readme="no", neg__x="z")
    (tmp_path / "neg" / ".DS_Store").write_bytes(b"\xff")
    (tmp_path / "neg" / "notes.pdf").write_bytes(b"\xff")
    source = open_source(tmp_path, ReadOptions(), labelled=True)
    assert records(source) == [("a", "neg"), ("z", "neg"), ("c", "pos"), ("b\r\n", "pos")]
    assert "4 text files in the class folders 'neg', 'pos' (not read as text: 1 file (.pdf)" in (
        source.detected
    )
    assert "beside the class folders: 1 file)" in source.detected
    assert source.place(3) == str(tmp_path / "pos" / "10.txt")


def test_folder_without_classes(tmp_path: Path) -> None:
    write(tmp_path, b="2", a__c="1")
    source = open_source(tmp_path, ReadOptions(), labelled=False)
    assert records(source) == [("1", None), ("2", None)]


def test_bad_files_in_a_folder(tmp_path: Path) -> None:
    write(tmp_path, x__1="", x__2="ma\udcf1ana", y__3="c")
    with pytest.raises(SubquadError, match=r"x/1.txt: the text is empty"):
        records(open_source(tmp_path, ReadOptions(), labelled=True))
    source = open_source(tmp_path, ReadOptions(on_bad_row="skip"), labelled=True)
    assert records(source) == [("c", "y")]
    assert "byte 0xF1 at line 1, byte 3" in source.skipped.rows[1].reason


def test_folders_that_hold_nothing(tmp_path: Path) -> None:
    with pytest.raises(SubquadError, match=r"no text files .* there is nothing in it"):
        open_source(tmp_path, ReadOptions(), labelled=False)
    (tmp_path / "a.csv").write_text("text,label\na,b\n")
    with pytest.raises(SubquadError, match=r"no class folders .* the class folders: 1 file"):
        open_source(tmp_path, ReadOptions(), labelled=True)


def test_plain_text(tmp_path: Path) -> None:
    write(tmp_path, a="\ufeffTo be,\r\nor not\n")
    source = open_source(tmp_path / "a.txt", ReadOptions(), labelled=False)
    assert records(source) == [("To be,\r\nor not\n", None)]
    with pytest.raises(UsageError, match="has no labels"):
        open_source(tmp_path / "a.txt", ReadOptions(), labelled=True)
    with pytest.raises(UsageError, match="no columns"):
        open_source(tmp_path / "a.txt", ReadOptions(text="x"), labelled=False)
    lines = open_source(tmp_path / "a.txt", ReadOptions(format="lines"), labelled=False)
    assert records(lines) == [("To be,", None), ("or not", None)]


@pytest.mark.parametrize("ends", [True, False])
def test_pieces_make_up_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    monkeypatch.setattr(files, "BLOCK", 10)
    monkeypatch.setattr("subquad.data.folders.PIECE", 25)
    texts = {"a": "ä" * 95 + ("\n" if ends else ""), "b": "wörter\n" * 30, "c": "x"}
    write(tmp_path, **texts)
    source = open_source(tmp_path, ReadOptions(), labelled=False)
    pieces = list(source.pieces())
    joined = ["".join(p.text for p in pieces if p.row == row) for row in (1, 2, 3)]
    assert joined == list(texts.values())
    assert joined == [r.text for r in source.records()]
    assert [p.row for p in pieces if not p.more] == [1, 2, 3]
    assert max(len(p.text) for p in pieces) < 50
    assert all(p.text.endswith("\n") for p in pieces if p.row == 2)


def frame(tmp_path: Path, **columns: object) -> Path:
    path = tmp_path / "a.parquet"
    pl.DataFrame(columns).write_parquet(path)
    return path


def test_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subquad.data.parquet.SLICE", 2)
    path = frame(tmp_path, text=["NA", "null", "é"] * 3, label=[1.0, 2.0, 3.0] * 3, n=range(9))
    source = open_source(path, ReadOptions(), labelled=True)
    assert records(source) == [("NA", "1"), ("null", "2"), ("é", "3")] * 3
    assert [r.row for r in source.records()] == list(range(1, 10))


def test_parquet_rows_that_are_no_records(tmp_path: Path) -> None:
    path = frame(tmp_path, text=["a", None, "c", ""], label=[1.0, 1.0, float("nan"), 1.0])
    source = open_source(path, ReadOptions(on_bad_row="skip"), labelled=True)
    assert records(source) == [("a", "1")]
    assert [bad.row for bad in source.skipped.rows] == [2, 3, 4]
    with pytest.raises(SubquadError, match=r"row 2: the text .* is empty"):
        records(open_source(path, ReadOptions(), labelled=True))


def test_parquet_types_of_labels(tmp_path: Path) -> None:
    for values, names in (
        ([True, False], ["true", "false"]),
        (pl.Series(["b", "a"], dtype=pl.Categorical), ["b", "a"]),
        (pl.Series([1, 2], dtype=pl.UInt8), ["1", "2"]),
        (pl.Series(["1.50", "2"], dtype=pl.String).cast(pl.Decimal(5, 2)), ["1.50", "2"]),
        (pl.Series([0.1, 2.0], dtype=pl.Float32), ["0.1", "2"]),
    ):
        source = open_source(
            frame(tmp_path, text=["a", "b"], label=values), ReadOptions(), labelled=True
        )
        assert [label for _, label in records(source)] == names
    path = frame(tmp_path, text=[["a"], ["b"]], label=["x", "y"])
    with pytest.raises(SubquadError, match=r"row 1: .*not a string"):
        records(open_source(path, ReadOptions(), labelled=True))


def test_parquet_that_is_not_whole(tmp_path: Path) -> None:
    path = frame(tmp_path, text=["a"] * 100, label=["x"] * 100)
    data = path.read_bytes()
    for cut in (0, 3, 50, len(data) - 5):
        path.write_bytes(data[:cut])
        with pytest.raises(SubquadError, match="cannot be read as Parquet"):
            open_source(path, ReadOptions(), labelled=True)
    path.write_bytes(data)
    with pytest.raises(UsageError, match="always UTF-8"):
        open_source(path, ReadOptions(encoding="latin-1"), labelled=True)


@pytest.mark.parametrize("options", [{"format": "csv"}, {"header": False}, {"quotes": True}])
def test_options_of_tables_are_refused(tmp_path: Path, options: dict[str, str]) -> None:
    write(tmp_path, a="1")
    with pytest.raises(UsageError, match="is a folder of text files"):
        open_source(tmp_path, ReadOptions(**options), labelled=False)  # type: ignore[arg-type]


def test_a_pipe_is_not_read_twice(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.csv")
    with pytest.raises(SubquadError, match="pass -"):
        open_source(tmp_path / "a.csv", ReadOptions(), labelled=False)
