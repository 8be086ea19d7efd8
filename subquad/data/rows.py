"""What every reader yields: one row as found, or why it could not be read; and what becomes of it,
a record or a row that is skipped."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from reprlib import Repr
from typing import NamedTuple, Protocol

#: Skipped rows that are listed; the others are only counted.
LISTED = 1000


class Row(NamedTuple):
    """``row`` counts from 1 as a person would: no header, no blank lines. ``line`` is where it
    starts in the file, 0 where lines mean nothing. ``problem`` is "" for a good row."""

    row: int
    line: int
    cells: Mapping[str, object]
    problem: str = ""


class Table(Protocol):
    """A file opened as named columns."""

    @property
    def kind(self) -> str:
        """The format and what is special about it, for people."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    def rows(self) -> Iterator[Row]: ...

    def only(self, *columns: str | None) -> "Table":
        """The same file, of which only these columns will be looked at."""


@dataclass(frozen=True)
class BadRow:
    """A row that is not used, and why."""

    row: int
    line: int
    reason: str

    def __str__(self) -> str:
        line = f" (line {self.line})" if self.line else ""
        return f"row {self.row}{line}: {self.reason}"


@dataclass(frozen=True)
class Record:
    """One text. ``row`` counts records from 1, as a person would."""

    row: int
    text: str
    label: str | None
    more: bool = False
    """The next record continues this text (only from ``Source.pieces``)."""


@dataclass
class Skipped:
    """The rows left out in the latest pass: how many, and the first of them."""

    count: int = 0
    rows: list[BadRow] = field(default_factory=list)

    def __len__(self) -> int:
        return self.count

    def add(self, bad: BadRow) -> None:
        self.count += 1
        if len(self.rows) < LISTED:
            self.rows.append(bad)


_short = Repr()
_short.maxstring = _short.maxother = 60


def shown(value: object, limit: int = 40) -> str:
    """A value in an error message: on one line, and short."""
    text = _short.repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"
