"""Bytes of a file, plain or compressed, as lines of text. UTF-8 unless the user says otherwise, on
every platform; memory stays at one block however long the file is."""

import codecs
import gzip
import io
import re
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from subquad.data import standard_input
from subquad.errors import SubquadError, UsageError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

#: Bytes read at a time.
BLOCK = 1 << 20
#: The path that means standard input.
STDIN = "-"

_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_SUFFIX = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
_ESCAPED = re.compile("[\udc80-\udcff]")


class Fault(NamedTuple):
    """A byte that the encoding does not allow."""

    line: int
    column: int
    byte: int


def check_encoding(name: str) -> str:
    """The encoding, if Python knows it as one of text.

    Raises:
        UsageError: it does not.
    """
    try:
        io.TextIOWrapper(io.BytesIO(), encoding=name or "none")
        codecs.getincrementaldecoder(name)
    except (LookupError, ValueError):
        raise UsageError(
            f"encoding {name!r} is not known; try utf-8, latin-1, cp1252 or utf-16"
        ) from None
    return "utf-8" if codecs.lookup(name).name == "utf-8-sig" else name


def inner_suffixes(path: Path) -> str:
    """The suffix that tells the format, in lower case: ``.csv`` of ``a.csv.gz``."""
    if path.suffix.lower() in _SUFFIX:
        path = path.with_suffix("")
    return path.suffix.lower()


def named(path: str | Path) -> Path:
    """``path``, unless it is an empty text, which ``Path`` takes for the current folder.

    Raises:
        UsageError: it is.
    """
    if not str(path):
        raise UsageError("the name of a file is empty")
    return Path(path)


@dataclass
class ByteFile:
    """A file, or standard input, that can be opened as plain bytes.

    ``compression`` is told by the first bytes, not by the name.
    """

    path: Path
    compression: str = field(init=False, default="")
    _head: bytes | None = field(init=False, default=None)
    _spent: bool = field(init=False, default=False)
    in_hand: bool = field(init=False, default=False)
    """Whether a line that was read, and is not blank, is still to come from ``Lines``."""

    def __post_init__(self) -> None:
        if self.is_stdin:
            return
        with self._raw() as f:
            head = f.read(4)
        found = (kind for magic, kind in _MAGIC.items() if head.startswith(magic))
        self.compression = next(found, "")
        claimed = _SUFFIX.get(self.path.suffix.lower(), "")
        if claimed and head and claimed != self.compression:
            raise SubquadError(
                f"{self.path} is named {self.path.suffix} but does not hold {claimed} data"
            )

    @property
    def is_stdin(self) -> bool:
        return str(self.path) == STDIN

    def waits(self) -> bool:
        """Whether the next line has not come yet: somebody types, or a pipe is slow."""
        if not self.is_stdin or self.in_hand:
            return False
        return standard_input.is_silent()

    def open(self) -> BinaryIO:
        """The decompressed bytes from the start.

        Raises:
            SubquadError: the file cannot be opened; standard input was read before.
        """
        if not self.is_stdin:
            return self._decompressed()
        if self._spent:
            raise SubquadError("standard input can be read only once: save it to a file")
        head, self._spent = self.head(), True
        return cast(BinaryIO, standard_input.Prefixed(head))

    def head(self) -> bytes:
        """The first bytes; of standard input, what has come when the first line that is not blank
        is there. Reading them here takes nothing away from ``open``."""
        if self.is_stdin:
            if self._head is None:
                self._head = standard_input.with_first_line()
            return self._head
        with self._decompressed() as f:
            return next(blocks(f, self.path), b"")

    def _raw(self) -> BinaryIO:
        try:
            return self.path.open("rb")
        except OSError as e:
            raise SubquadError(f"{self.path}: {e.strerror or e}") from None

    def _decompressed(self) -> BinaryIO:
        if self.compression == "gzip":
            return cast(BinaryIO, gzip.open(self.path))
        if self.compression == "zstd":
            return cast(BinaryIO, zstd.open(self.path))
        return self._raw()


def blocks(stream: BinaryIO, where: Path) -> Iterator[bytes]:
    """The bytes in blocks.

    Raises:
        SubquadError: compressed data is damaged or cut short.
    """
    done = 0
    while True:
        try:
            block = stream.read1(BLOCK)  # type: ignore[attr-defined]
        except (EOFError, zlib.error, zstd.ZstdError, gzip.BadGzipFile):
            raise SubquadError(
                f"{where}: the compressed data is damaged or cut short after {done:,} bytes "
                "of content; make or download it again"
            ) from None
        except OSError as e:
            raise SubquadError(f"{where}: {e.strerror or e}") from None
        if not block:
            return
        done += len(block)
        yield block


class Lines:
    r"""Lines of text with their ends (``\n``, ``\r\n`` or ``\r``) as they stand in the file.

    A byte that the encoding does not allow becomes a lone surrogate, and ``fault`` says where
    the latest was until ``take_fault`` is called; so that one row can be refused, not the file.
    ``count`` is the lines given so far, ``ended`` whether that was all, ``bom`` whether a
    byte-order mark was dropped.
    """

    def __init__(self, file: ByteFile, encoding: str) -> None:
        self.file = file
        self.encoding = encoding
        self.count = 0
        self.ended = False
        self.bom = False
        self.fault: Fault | None = None

    def take_fault(self) -> str:
        """What was wrong with the bytes since the last call, as a sentence, or nothing."""
        if self.fault is None:
            return ""
        line, column, byte = self.fault
        self.fault = None
        what = "UTF-8" if self.encoding == "utf-8" else self.encoding
        return f"byte 0x{byte:02X} at line {line}, byte {column} is not {what}; {self._way_out()}"

    def __iter__(self) -> Iterator[str]:
        for lines, damaged in self._runs():
            solid = next((i for i in reversed(range(len(lines))) if not lines[i].isspace()), 0)
            for i, line in enumerate(lines):
                self.file.in_hand = i < solid
                self.count += 1
                if damaged and (bad := _ESCAPED.search(line)):
                    before = line[: bad.start()].encode(self.encoding, "surrogateescape")
                    self.fault = Fault(self.count, len(before) + 1, ord(bad[0]) - 0xDC00)
                yield line
        self.ended = True

    def _runs(self) -> Iterator[tuple[list[str], bool]]:
        """Runs of whole lines, and whether a byte in them was not allowed."""
        held: list[str] = []
        damaged = False
        for text, bad in self.decoded():
            damaged |= bad
            held.append(text)
            if "\n" not in text and "\r" not in text:
                continue
            lines = list(io.StringIO("".join(held), newline=""))
            held = [] if lines[-1].endswith("\n") else [lines.pop()]
            yield lines, damaged
            damaged = damaged and bool(held)
        yield list(io.StringIO("".join(held), newline="")), damaged

    def decoded(self) -> Iterator[tuple[str, bool]]:
        """The text block by block, and whether a byte in it was not allowed."""
        decoder = codecs.getincrementaldecoder(self.encoding)()
        lenient = codecs.getincrementaldecoder(self.encoding)("surrogateescape")
        first = True
        with self.file.open() as stream:
            for block, final in _with_last(blocks(stream, self.file.path)):
                state = decoder.getstate()
                bad = False
                try:
                    text = decoder.decode(block, final)
                except UnicodeDecodeError as e:
                    text, bad = self._escaped(lenient, state, block, final, e), True
                    decoder.setstate(lenient.getstate())
                if first and text.startswith("\ufeff"):
                    text, self.bom = text[1:], True
                first = first and not text
                yield text, bad

    def _escaped(
        self,
        lenient: codecs.IncrementalDecoder,
        state: tuple[bytes, int],
        block: bytes,
        final: bool,
        error: UnicodeDecodeError,
    ) -> str:
        lenient.setstate(state)
        try:
            return lenient.decode(block, final)
        except UnicodeDecodeError:  # encodings of 2 or 4 bytes have no escape
            raise SubquadError(
                f"{self.file.path}: not {self.encoding} after line {self.count}: {error.reason}; "
                f"{self._way_out()}"
            ) from None

    def _way_out(self) -> str:
        hint = "such as latin-1 or cp1252"
        if not self.file.is_stdin:
            with self.file.open() as stream:
                if stream.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                    hint = "utf-16, as its first bytes say"
        return f"pass --encoding with the right one, {hint}"


def _with_last(items: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each block with False, then an empty one with True. Blocks are not held back: a live
    pipe is answered as it speaks."""
    for item in items:
        yield item, False
    yield b"", True
