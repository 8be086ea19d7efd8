"""The one door for people's texts: a file in, records out."""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from subquad.errors import SubquadError, UsageError


@dataclass(frozen=True)
class Record:
    """One text. ``row`` counts records from 1, as a person would."""

    row: int
    text: str
    label: str | None


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How to read a file."""

    text: str | None = None
    """Column of the text; None = detect."""
    label: str | None = None
    """Column of the label; None = detect."""


@dataclass(frozen=True)
class Source:
    """An opened file: which columns are read, and the records, as often as asked."""

    path: Path
    text: str
    label: str | None

    def records(self) -> Iterator[Record]:
        for row, cells in enumerate(_rows(self.path), start=1):
            text = cells.get(self.text)
            if not isinstance(text, str):
                raise SubquadError(f"{self.path}, row {row}: no text in column {self.text!r}")
            label = None if self.label is None else cells.get(self.label)
            yield Record(row, text, None if label is None else str(label))


def open_source(path: str | Path, options: ReadOptions, *, labelled: bool) -> Source:
    """Open a CSV, TSV or JSONL file of texts.

    Raises:
        SubquadError: the file is missing, empty or lacks a column; what was found is named.
        UsageError: the kind of file is not known.
    """
    path = Path(path)
    if not path.exists():
        raise SubquadError(f"{path}: no such file")
    first = next(_rows(path), None)
    if first is None:
        raise SubquadError(f"{path} holds no rows")
    text = _column(path, first, options.text, "text")
    label = _column(path, first, options.label, "label") if labelled else None
    return Source(path, text, label)


def _column(path: Path, first: dict[str, object], asked: str | None, usual: str) -> str:
    name = asked or usual
    if name not in first:
        raise UsageError(f"{path} has no column {name!r}; it has: {', '.join(first)}")
    return name


def _rows(path: Path) -> Iterator[dict[str, object]]:
    suffix = path.suffix.lower()
    with path.open(encoding="utf-8-sig", newline="") as f:
        if suffix in (".csv", ".tsv"):
            yield from csv.DictReader(f, delimiter="," if suffix == ".csv" else "\t")
        elif suffix == ".jsonl":
            yield from (json.loads(line) for line in f if line.strip())
        else:
            raise UsageError(f"{path}: {suffix or 'no suffix'} is not one of .csv, .tsv, .jsonl")
