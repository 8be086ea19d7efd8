"""A source tokenised once, on disk: read through memory maps, made again whenever anything that it
was made from has changed, or it is not whole.

A store is a directory of ``tokens.npy``, ``offsets.npy``, ``rows.npy``, ``labels.npy`` where there
are labels, and ``store.json``. It appears under its name complete or not at all.
"""

import glob
import json
import os
import shutil
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from subquad.data.arrayfile import ArrayFile, digest
from subquad.data.batches import Examples
from subquad.data.files import STDIN
from subquad.data.folders import TextFiles
from subquad.data.memory import MemoryTable
from subquad.data.ragged import Ragged
from subquad.data.source import Record, Source
from subquad.data.targets import Coding, per_row
from subquad.data.tokenizers import Tokenizer
from subquad.errors import SubquadError
from subquad.locking import LOCK, alone_in

#: Changes whenever a store of an older version would be read wrongly.
VERSION = 2
#: Characters tokenised at a time.
CHUNK = 1 << 21

_FILES = {"tokens.npy", "offsets.npy", "rows.npy", "labels.npy", "store.json", LOCK}


@dataclass(frozen=True)
class Stored:
    """``examples`` are memory maps; ``rows`` the row of each in its file, from 1; ``skipped`` the
    rows left out; ``reused`` whether nothing had to be read."""

    examples: Examples
    rows: npt.NDArray[np.int64]
    skipped: int
    reused: bool


def tokenised(
    source: Source,
    tokenizer: Tokenizer,
    directory: Path,
    *,
    length: int | None = None,
    labels: Coding | None = None,
    start: int | None = None,
) -> Stored:
    """The examples of ``source``, each cut to ``length`` tokens, from the store in ``directory`` if
    it was made of the same, else made there. ``labels`` number the classes; None leaves them out.
    ``start`` is put before the tokens of every text; None puts nothing.

    Raises:
        SubquadError: what reading raises; a label that is not in ``labels``; no room on the disk,
            and then an older store is still there.
    """
    if labels is not None and source.label is None:
        raise SubquadError(f"{source.path} was opened without labels")
    key = fingerprint(source, tokenizer, length=length, labels=labels, start=start)
    stored = _opened(directory, key)
    if stored is not None:
        return stored
    _refuse_foreign(directory)
    building = directory.with_name(f"{directory.name}.building-{os.getpid()}")
    shutil.rmtree(building, ignore_errors=True)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        _sweep(directory)
        with alone_in(building):
            _build(source, _Rows(tokenizer, length, start), building, key, labels=labels)
            _put(building, directory)
    except OSError as e:
        other = _opened(directory, key)  # another process may have been first
        if other is None:
            raise SubquadError(f"{directory} cannot be written: {e.strerror or e}") from None
        return other
    finally:
        shutil.rmtree(building, ignore_errors=True)
    stored = _opened(directory, key)
    if stored is None:
        raise SubquadError(f"{directory} was written but cannot be read back: is the disk sound?")
    return Stored(stored.examples, stored.rows, stored.skipped, reused=False)


def fingerprint(
    source: Source,
    tokenizer: Tokenizer,
    *,
    length: int | None,
    labels: Coding | None,
    start: int | None = None,
) -> str:
    """Changes with the content of the source, the way it is read, the tokenizer, the length and
    the classes. Standard input never has the same twice."""
    if str(source.path) == STDIN:
        files: object = os.urandom(16).hex()
    elif isinstance(source.table, MemoryTable):
        files = source.table.digest()
    elif isinstance(source.table, TextFiles):
        files = [(str(path), _stamp(path)) for path in source.table.files]
    else:
        files = [(str(source.path), _stamp(source.path)), digest(source.path)]
    made_of = {
        "version": VERSION,
        "files": files,
        "columns": [source.text, source.label],
        "options": asdict(source.options),
        "tokenizer": tokenizer.hash,
        "length": length,
        "start": start,
        "labels": None if labels is None else labels.names,
    }
    return blake2b(json.dumps(made_of, sort_keys=True).encode(), digest_size=16).hexdigest()


def _stamp(path: Path) -> tuple[int, int] | None:
    """None where there is no file, which reading says better (or skips)."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _opened(directory: Path, key: str) -> Stored | None:
    """The store, if it is of this key and whole."""
    try:
        about = json.loads((directory / "store.json").read_text(encoding="utf-8"))
        if about["key"] != key:
            return None
        arrays = {}
        for name, expected in about["digests"].items():
            if digest(directory / f"{name}.npy") != expected:
                return None
            arrays[name] = _load(directory / f"{name}.npy")
        tokens = Ragged(arrays["tokens"], arrays["offsets"])
        examples = Examples(tokens, per_row(arrays.get("labels")))
        return Stored(examples, arrays["rows"], int(about["skipped"]), reused=True)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _load(path: Path) -> npt.NDArray[Any]:
    mode: Literal["r"] | None = "r" if path.stat().st_size > ArrayFile.HEADER else None
    return cast(npt.NDArray[Any], np.load(path, mmap_mode=mode, allow_pickle=False))


def _refuse_foreign(directory: Path) -> None:
    """A store takes the place of what has its name: that must be a store."""
    try:
        names = {path.name for path in directory.iterdir()}
    except FileNotFoundError:
        return
    except OSError as e:
        raise SubquadError(f"{directory}: {e.strerror or e}") from None
    if foreign := sorted(names - _FILES):
        raise SubquadError(f"{directory} is not a store (it holds {foreign[0]}): name another")


def _sweep(directory: Path) -> None:
    """Remove what killed processes left half built; what a living one builds is locked."""
    for kind in ("building", "old"):
        for path in directory.parent.glob(f"{glob.escape(directory.name)}.{kind}-*"):
            with suppress(SubquadError), alone_in(path):
                shutil.rmtree(path, ignore_errors=True)


def _put(building: Path, directory: Path) -> None:
    """Give the finished store its name; whatever had it goes."""
    old = directory.with_name(f"{directory.name}.old-{os.getpid()}")
    shutil.rmtree(old, ignore_errors=True)
    if directory.exists():
        directory.rename(old)
    building.rename(directory)
    shutil.rmtree(old, ignore_errors=True)
    _sync(directory.parent)


def _sync(directory: Path) -> None:
    """Make renames in a directory outlive a power cut, where the system can."""
    try:
        number = os.open(directory, os.O_RDONLY)
    except OSError:  # Windows opens no directories
        return
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _build(
    source: Source,
    rows: "_Rows",
    building: Path,
    key: str,
    *,
    labels: Coding | None,
) -> None:
    with ExitStack() as stack:
        kinds: dict[str, type[np.generic]]
        kinds = {"tokens": np.int32, "offsets": np.int64, "rows": np.int64}
        kinds |= {} if labels is None else {"labels": labels.dtype}
        files = {
            name: stack.enter_context(ArrayFile(building / f"{name}.npy", kind))
            for name, kind in kinds.items()
        }
        writer = _Writer(files, rows)
        for record in source.pieces():
            number: float = -1
            if labels is not None:
                assert record.label is not None
                number = labels.index(record.label, source.place(record.row))
            writer.add(record, number)
        writer.finish()
    digests = {name: digest(building / f"{name}.npy") for name in files}
    about = {"key": key, "skipped": len(source.skipped), "digests": digests}
    with (building / "store.json").open("w", encoding="utf-8") as f:
        json.dump(about, f)
        f.flush()
        os.fsync(f.fileno())
    _sync(building)


@dataclass(frozen=True)
class _Rows:
    """How a text becomes a row."""

    tokenizer: Tokenizer
    length: int | None
    start: int | None


class _Writer:
    """Records in, tokens out, a chunk at a time."""

    def __init__(self, files: dict[str, ArrayFile], rows: _Rows) -> None:
        self._files = files
        self._tokenizer = rows.tokenizer
        self._length = rows.length
        self._first = [] if rows.start is None else [rows.start]
        self._waiting: list[tuple[Record, float]] = []
        self._characters = 0
        self._open_row = 0  # the row whose pieces are being written; 0 = none
        self._start = 0  # where its tokens, or those of the next row, begin
        files["offsets"].write(np.zeros(1, dtype=np.int64))

    def add(self, record: Record, label: float) -> None:
        self._waiting.append((record, label))
        self._characters += len(record.text)
        if self._characters >= CHUNK:
            self._flush()

    def finish(self) -> None:
        self._flush()
        self._files["tokens"].truncate(self._start)

    def _flush(self) -> None:
        encoded = self._tokenizer.rows((r.text for r, _ in self._waiting), self._length)
        for (record, label), ids in zip(self._waiting, encoded, strict=True):
            self._write(record, label, ids)
        self._waiting.clear()
        self._characters = 0

    def _write(self, record: Record, label: float, ids: npt.NDArray[np.int32]) -> None:
        tokens = self._files["tokens"]
        if self._open_row not in (0, record.row):  # its end could not be read: it is no row
            tokens.truncate(self._start)
        if tokens.size == self._start and self._first:
            tokens.write(np.array(self._first, dtype=np.int32))
        room = None if self._length is None else self._length - (tokens.size - self._start)
        tokens.write(ids[:room])
        self._open_row = record.row if record.more else 0
        if record.more:
            return
        self._start = tokens.size
        for name, value in (("offsets", tokens.size), ("rows", record.row), ("labels", label)):
            if name in self._files:
                self._files[name].write(np.array([value]))
