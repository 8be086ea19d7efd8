"""Bytes to lines: encodings, compression, standard input, any locale."""

import gzip
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from subquad.data import files
from subquad.data.files import ByteFile, Lines, zstd
from subquad.data.images import open_images
from subquad.data.source import ReadOptions, Source, open_source
from subquad.errors import SubquadError, UsageError

CSV = "text,label\nmañana 🎉,x\nb,y\n"


def opened(path: Path, content: bytes, **options: object) -> Source:
    path.write_bytes(content)
    return open_source(path, ReadOptions(**options), labelled=True)  # type: ignore[arg-type]


def texts(source: Source) -> list[str]:
    return [record.text for record in source.records()]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.tsv"])
def test_b32_undecodable_byte_names_file_line_and_byte(tmp_path: Path, name: str) -> None:
    lines = {
        "a.csv": b"text,label\nfine,x\nma\xf1ana,y\n",
        "a.tsv": b"text\tlabel\nfine\tx\nma\xf1ana\ty\n",
        "a.jsonl": b'{"text":"a","label":"x"}\n\n{"text":"ma\xf1ana","label":"y"}',
    }[name]
    column = 12 if name == "a.jsonl" else 3
    message = rf"{name}, row 2 \(line 3\): byte 0xF1 at line 3, byte {column} is not UTF-8.*latin-1"
    with pytest.raises(SubquadError, match=message):
        texts(opened(tmp_path / name, lines))
    source = opened(tmp_path / name, lines, on_bad_row="skip")
    assert len(texts(source)) == 1
    assert len(source.skipped) == 1
    assert texts(opened(tmp_path / name, lines, encoding="latin-1"))[1] == "mañana"


def test_b32_a_byte_after_the_first_block(tmp_path: Path) -> None:
    rows = (b"abcdefg " * 50 + b",x\n") * 10_000
    rows = b"text,label\n" + rows + b"ma\xf1ana,y\n" + rows
    with pytest.raises(SubquadError, match=r"row 10001 .*byte 0xF1 at line 10002, byte 3"):
        texts(opened(tmp_path / "a.csv", rows))


def test_b32_utf16_is_suggested_and_read(tmp_path: Path) -> None:
    content = CSV.encode("utf-16")
    with pytest.raises(SubquadError, match="utf-16, as its first bytes say"):
        opened(tmp_path / "a.csv", content)
    assert texts(opened(tmp_path / "a.csv", content, encoding="utf-16")) == ["mañana 🎉", "b"]
    with pytest.raises(SubquadError, match="not utf-16 after line"):
        texts(opened(tmp_path / "a.csv", content[:-1], encoding="utf-16"))


@pytest.mark.parametrize("name", ["klingon", "hex", "rot13", ""])
def test_b32_unknown_encoding(name: str) -> None:
    with pytest.raises(UsageError, match="is not known"):
        ReadOptions(encoding=name)


def test_b32_locale_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(CSV.encode())
    folder = tmp_path / "dir" / "größe"
    folder.mkdir(parents=True)
    (folder / "1.txt").write_bytes("ß".encode())
    program = (
        "import sys; from subquad.data.source import *\n"
        "for path in sys.argv[1:]:\n"
        "    s = open_source(path, ReadOptions(), labelled=True)\n"
        "    sys.stdout.buffer.write(''.join(r.text + r.label for r in s.records()).encode())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a.csv"), str(tmp_path / "dir")],
        env={**os.environ, "PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"},
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode() == "mañana 🎉xbyßgröße"


@pytest.mark.parametrize(("suffix", "compress"), [("gz", gzip.compress), ("zst", zstd.compress)])
def test_compressed(tmp_path: Path, suffix: str, compress: object) -> None:
    data = compress(CSV.encode() * 1) + compress(b"c,z\n")  # type: ignore[operator]
    assert texts(opened(tmp_path / f"a.csv.{suffix}", data)) == ["mañana 🎉", "b", "c"]
    for cut in (5, len(data) - 3):
        with pytest.raises(SubquadError, match="damaged or cut short"):
            texts(opened(tmp_path / f"a.csv.{suffix}", data[:cut]))
    with pytest.raises(SubquadError, match="does not hold"):
        opened(tmp_path / f"a.csv.{suffix}", CSV.encode())
    with pytest.raises(SubquadError, match="is empty"):
        opened(tmp_path / f"a.csv.{suffix}", b"")
    assert texts(opened(tmp_path / "a.csv", data))[2] == "c"  # told by the bytes, not the name


@pytest.mark.parametrize("block", [1, 2, 3, 7])
def test_lines_do_not_depend_on_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(files, "BLOCK", block)
    path = tmp_path / "a.txt"
    content = "\ufeffé\r\n\r\nb\rc\n\u2028🎉\x85\ue000\r"
    path.write_bytes(content.encode())
    lines = Lines(ByteFile(path), "utf-8")
    assert list(lines) == ["é\r\n", "\r\n", "b\r", "c\n", "\u2028🎉\x85\ue000\r"]
    assert (lines.count, lines.ended, lines.bom) == (5, True, True)


def test_constant_memory_for_a_long_file(tmp_path: Path) -> None:
    import tracemalloc

    path = tmp_path / "a.csv.gz"
    row = b"some words in a row " * 50 + b",x\n"
    path.write_bytes(gzip.compress(b"text,label\n" + row * 30_000, 1))
    source = open_source(path, ReadOptions(), labelled=True)
    tracemalloc.start()
    try:
        assert sum(1 for _ in source.records()) == 30_000
        assert tracemalloc.get_traced_memory()[1] < 10 << 20  # the file is 30 MB
    finally:
        tracemalloc.stop()


def stdin(monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))


def test_stdin_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, "\nérste\n\nlast")
    source = open_source("-", ReadOptions(on_bad_row="skip"), labelled=False)
    assert [(r.row, r.text) for r in source.records()] == [(2, "érste"), (4, "last")]
    assert [bad.row for bad in source.skipped.rows] == [1, 3]
    with pytest.raises(SubquadError, match="only once"):
        list(source.records())


def test_stdin_jsonl(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, '\ufeff\n{"review": "a", "stars": 4.0}\n{"review": "b", "stars": 5}')
    source = open_source("-", ReadOptions(), labelled=True)
    assert [(r.text, r.label) for r in source.records()] == [("a", "4"), ("b", "5")]
    assert "standard input: JSONL" in source.detected


def test_stdin_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, "text,label\na,b\n")
    with pytest.raises(UsageError, match="save the csv to a file"):
        open_source("-", ReadOptions(format="csv"), labelled=False)
    with pytest.raises(UsageError, match="label"):
        open_source("-", ReadOptions(), labelled=True)
    stdin(monkeypatch, "")
    assert list(open_source("-", ReadOptions(), labelled=False).records()) == []


def test_an_empty_name_is_not_the_current_folder(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "a.txt").write_text("mine")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="name of a file is empty"):
        open_source("", ReadOptions(), labelled=False)
    with pytest.raises(UsageError, match="name of a file is empty"):
        open_images("")
