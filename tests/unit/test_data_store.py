"""The store: made once, reused when nothing changed, made again when anything did."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from subquad.data import arrayfile, files, store
from subquad.data.arrayfile import ArrayFile, digest
from subquad.data.labels import Labels
from subquad.data.source import ReadOptions, Source, open_source
from subquad.data.store import Stored, tokenised
from subquad.data.targets import Classes
from subquad.data.tokenizers import Tokenizer
from subquad.errors import SubquadError
from subquad.locking import LOCK, alone_in

BYTES = Tokenizer.train("bytes", [], 0)
LABELS = Labels(("x", "y"))
ROWS = [("some text", "x"), ("ünd mehr", "y"), ("🎉", "x")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "".join(f"{t},{y}\n" for t, y in ROWS), encoding="utf-8")
    return path


def opened(path: Path, **options: object) -> Source:
    return open_source(path, ReadOptions(**options), labelled=True)  # type: ignore[arg-type]


def made(path: Path, **options: object) -> Stored:
    return tokenised(opened(path, **options), BYTES, path.parent / "store", labels=LABELS)


def texts(stored: Stored) -> list[str]:
    return [BYTES.decode(row) for row in stored.examples.tokens]


def test_made_then_reused(path: Path) -> None:
    first = made(path)
    assert not first.reused
    for stored in (first, made(path)):
        assert texts(stored) == [text for text, _ in ROWS]
        assert stored.examples.answers(Classes).tolist() == [0, 1, 0]
        assert stored.rows.tolist() == [1, 2, 3]
        assert isinstance(stored.examples.tokens.values, np.memmap)
    assert made(path).reused
    assert sorted(p.name for p in path.parent.iterdir()) == ["a.csv", "store"]


def appended(path: Path) -> None:
    with path.open("a") as f:
        f.write("more,y\n")


def same_size_same_time(path: Path) -> None:
    before = path.stat()
    path.write_text(path.read_text(encoding="utf-8").replace("some", "same"), encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("change", [appended, same_size_same_time, lambda p: os.utime(p, (1, 1))])
def test_a_changed_source_is_read_again(path: Path, change: Callable[[Path], None]) -> None:
    made(path)
    change(path)
    stored = made(path)
    assert not stored.reused
    assert texts(stored) == [record.text for record in opened(path).records()]


def test_a_changed_way_of_reading_is_another_store(path: Path) -> None:
    directory = path.parent / "store"
    source = opened(path)
    chars = Tokenizer.train("chars", (t for t, _ in ROWS), 99)
    ways = [
        (source, BYTES, None, LABELS),
        (source, BYTES, 4, LABELS),
        (source, BYTES, 4, None),
        (source, BYTES, 4, Labels(("y", "x"))),
        (source, chars, 4, LABELS),
        (opened(path, on_bad_row="skip"), chars, 4, LABELS),
        (replace(source, chosen=replace(source.chosen, text="label")), chars, 4, LABELS),
    ]
    for source, tokenizer, length, labels in ways:
        for reused in (False, True):
            stored = tokenised(source, tokenizer, directory, length=length, labels=labels)
            assert stored.reused is reused
    assert stored.examples.tokens.lengths.tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", ["tokens", "offsets", "rows", "labels"])
@pytest.mark.parametrize("harm", ["cut", "flip", "gone", "empty"])
def test_a_damaged_store_is_made_again(path: Path, name: str, harm: str) -> None:
    made(path)
    file = path.parent / "store" / f"{name}.npy"
    data = bytearray(file.read_bytes())
    if harm == "flip":
        data[-1] ^= 1
    file.write_bytes({"cut": data[:-1], "flip": data, "gone": b"", "empty": b""}[harm])
    if harm == "gone":
        file.unlink()
    stored = made(path)
    assert not stored.reused
    assert texts(stored) == [text for text, _ in ROWS]


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "null"])
def test_a_damaged_description_is_made_again(path: Path, content: str) -> None:
    made(path)
    (path.parent / "store" / "store.json").write_text(content)
    assert not made(path).reused
    assert made(path).reused


def test_skipped_rows(path: Path) -> None:
    path.write_text("text,label\na,x\n,y\nc,y\n")
    for reused in (False, True):
        stored = made(path, on_bad_row="skip")
        assert (stored.reused, stored.skipped, stored.rows.tolist()) == (reused, 1, [1, 3])
    with pytest.raises(SubquadError, match="row 2"):
        made(path)
    assert made(path, on_bad_row="skip").reused  # what failed left it alone


def test_b35_unseen_label_names_its_row(path: Path) -> None:
    path.write_text("text,label\na,x\nb,z\n")
    with pytest.raises(SubquadError, match=r"a\.csv, row 2: label 'z' was not seen"):
        made(path)
    assert not (path.parent / "store").exists()


def test_full_disk_keeps_the_old_store(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(ArrayFile, "write", full)
        with pytest.raises(SubquadError, match="store cannot be written: No space left"):
            tokenised(opened(path), BYTES, path.parent / "store", length=3)
    assert made(path).reused
    assert sorted(p.name for p in path.parent.iterdir()) == ["a.csv", "store"]


def test_another_directory_is_never_replaced(path: Path) -> None:
    (path.parent / "store").mkdir()
    (path.parent / "store" / "thesis.txt").write_text("important")
    with pytest.raises(SubquadError, match=r"is not a store \(it holds thesis\.txt\)"):
        made(path)


def test_what_a_kill_left_is_removed(path: Path) -> None:
    for name in ("store.building-1", "store.old-2", "store.building-3", "store.building-4"):
        (path.parent / name).mkdir()
    (path.parent / "store.building-4" / LOCK).write_text("4\n")
    with alone_in(path.parent / "store.building-3"):  # by a living one
        other = Thread(target=made, args=(path,))
        other.start()
        other.join()
    assert sorted(p.name for p in path.parent.iterdir()) == ["a.csv", "store", "store.building-3"]


def test_long_texts_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK", 64)
    monkeypatch.setattr(store, "CHUNK", 100)
    folder = tmp_path / "texts"
    folder.mkdir()
    contents = ["To be or nöt to be\n" * 50, "x", "y" * 300]
    for i, content in enumerate(contents):
        (folder / f"{i}.txt").write_text(content, encoding="utf-8")
    (folder / "1a.txt").write_bytes(b"fine\n" * 50 + b"\xff")  # found bad after its first pieces
    source = open_source(folder, ReadOptions(on_bad_row="skip"), labelled=False)
    for length in (None, 70):
        stored = tokenised(source, BYTES, tmp_path / f"store{length}", length=length)
        assert stored.rows.tolist() == [1, 2, 4]
        expected = [c.encode()[:length].decode("utf-8", "replace") for c in contents]
        assert texts(stored) == expected
        assert stored.skipped == 1


def test_nothing_to_map(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text\n" * 2)
    source = open_source(tmp_path / "a.csv", ReadOptions(), labelled=False)
    stored = tokenised(source, BYTES, tmp_path / "store", length=0)
    assert stored.examples.tokens.lengths.tolist() == [0]


def test_array_file_is_a_npy(tmp_path: Path) -> None:
    with ArrayFile(tmp_path / "a.npy", np.int32) as file:
        for part in ([1, 2, 3], [], [4, 5]):
            file.write(np.array(part))
        file.truncate(4)
        file.write(np.array([9]))
    assert np.load(tmp_path / "a.npy", allow_pickle=False).tolist() == [1, 2, 3, 4, 9]


def test_digest_sees_the_end_of_a_huge_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrayfile, "WHOLE", 1000)
    monkeypatch.setattr(arrayfile, "SPOT", 10)
    path = tmp_path / "a"
    digests = set()
    for spot in (None, 0, 4999, 5000):
        data = bytearray(b"x" * (5000 + (spot == 5000)))
        if spot is not None:
            data[spot] = 0
        path.write_bytes(data)
        digests.add(digest(path))
    assert len(digests) == 4


def test_two_builders_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process finishes just before this one gives its store the name."""
    put = store._put

    def late(building: Path, directory: Path) -> None:
        shutil.copytree(building, directory)
        (directory / "keep").touch()
        building.rename(directory)
        put(building, directory)

    monkeypatch.setattr(store, "_put", late)
    assert texts(made(path)) == [text for text, _ in ROWS]
