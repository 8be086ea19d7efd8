"""Folders are read whole, links included, and what is left out is named: texts and pictures."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from subquad.data.images import open_images
from subquad.data.source import ReadOptions, open_source
from subquad.data.walking import walk
from subquad.errors import SubquadError


def text(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".txt").write_text(path.name)


def picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (2, 2)).save(path.with_suffix(".png"))


def texts_of(root: Path) -> tuple[list[str | None], str]:
    source = open_source(root, ReadOptions(), labelled=True)
    return [record.label for record in source.records()], source.detected


def documents_of(root: Path) -> tuple[list[str | None], str]:
    source = open_source(root, ReadOptions(), labelled=False)
    names = [source.place(r.row).removeprefix(f"{root}/") for r in source.records()]
    return [name.split("/")[0] for name in names], source.detected


def pictures_of(root: Path) -> tuple[list[str | None], str]:
    images = open_images(root)
    return [*(images.labels or ())], images.detected


Made = Callable[[Path], None]
Read = Callable[[Path], tuple[list[str | None], str]]
KINDS = [(text, texts_of), (text, documents_of), (picture, pictures_of)]


@pytest.mark.parametrize(("make", "read"), KINDS)
def test_linked_folders_are_read(tmp_path: Path, make: Made, read: Read) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    make(root / "a/1")
    make(elsewhere / "2")
    make(elsewhere / "deep/3")
    (root / "b").symlink_to(elsewhere)
    (root / "a/more").symlink_to(elsewhere / "deep")
    found, _ = read(root)
    assert found == ["a", "a", "b", "b"]
    (tmp_path / "link").symlink_to(root)
    assert read(tmp_path / "link")[0] == found


@pytest.mark.parametrize(("make", "read"), KINDS)
def test_what_is_left_out_is_named(tmp_path: Path, make: Made, read: Read) -> None:
    make(tmp_path / "a/1")
    make(tmp_path / "b/2")
    make(tmp_path / ".old/3")
    make(tmp_path / "__label__c/4")
    (tmp_path / "a/round").symlink_to(tmp_path)
    (tmp_path / "a/self.x").symlink_to("self.x")
    (tmp_path / "gone.x").symlink_to(tmp_path / "nothing")
    (tmp_path / "b/table.csv").write_text("x")
    found, said = read(tmp_path)
    assert found == ["__label__c", "a", "b"]
    for name in ("a/round (a link to a folder that it is in)", ".old (hidden)", ".csv"):
        assert name in said
    for name in ("a/self.x", "gone.x"):
        assert f"{name} (a link to nothing)" in said


@pytest.mark.parametrize(("make", "read"), [KINDS[0], KINDS[2]])
def test_a_class_without_files_is_named(tmp_path: Path, make: Made, read: Read) -> None:
    make(tmp_path / "a/1")
    make(tmp_path / "b/2")
    (tmp_path / "c").mkdir()
    (tmp_path / "d").mkdir()
    (tmp_path / "d/1.pdf").touch()
    found, said = read(tmp_path)
    assert found == ["a", "b"]
    assert "folders without" in said
    assert "c, d" in said


def test_a_folder_that_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text(tmp_path / "a/1")
    opened = os.scandir

    def refuse(path: Path) -> object:
        if Path(path).name == "a":
            raise OSError(errno.EACCES, "Permission denied")
        return opened(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(SubquadError, match=r"a: Permission denied"):
        walk(tmp_path)


def test_odd_suffixes_are_read_as_text_when_asked(tmp_path: Path) -> None:
    for name in ("spam/000.7c53336b37003a9286aba55d2945844c", "ham/1.eml", "ham/2.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    said = texts_of(tmp_path)[1]
    assert "not read as text: 2 files (.7c53336b37003a9286aba55d2945844c, .eml)" in said
    assert "--format text reads every file" in said
    assert "folders without texts: spam" in said
    source = open_source(tmp_path, ReadOptions(format="text"), labelled=True)
    assert [record.label for record in source.records()] == ["ham", "ham", "spam"]
    (tmp_path / "ham/2.txt").unlink()
    with pytest.raises(SubquadError, match="--format text reads every file"):
        texts_of(tmp_path)
