"""CSV and TSV by the standard library's parser, in its strict mode: it is the one that can say
which line it is on, so that every row is read or named."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Self

from subquad.data.files import ByteFile, Lines
from subquad.data.rows import Row
from subquad.errors import SubquadError

#: A cell longer than this is taken for a quote that was never closed.
LONGEST = 1 << 28
#: Lines looked at to tell whether a TSV uses quotes.
SAMPLE = 1000

_NAMES = {",": "comma", "\t": "tab", ";": "semicolon", "|": "bar"}


@dataclass(frozen=True)
class CsvTable:
    """Cells between delimiters, quoted where ``quoted``."""

    file: ByteFile
    encoding: str
    delimiter: str
    quoted: bool
    header: bool
    columns: tuple[str, ...]
    bom: bool

    @classmethod
    def open(
        cls, file: ByteFile, encoding: str, usual: str, *, header: bool, quotes: bool | None
    ) -> "CsvTable":
        """Read the first line, to learn the columns.

        Raises:
            SubquadError: there is no first line, or it cannot be read.
        """
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST))
        delimiter = _delimiter(file, encoding, usual) if header else usual
        quoted = _quoted(file, encoding, delimiter) if quotes is None else quotes
        lines = Lines(file, encoding)
        first = next(_cells(lines, delimiter, quoted), None)
        if first is None:
            raise SubquadError(f"{file.path} is empty: no header and no rows")
        _, cells, problem = first
        if problem:
            raise SubquadError(f"{file.path}: the header cannot be read: {problem}")
        names = cells if header else [str(i) for i in range(1, len(cells) + 1)]
        return cls(file, encoding, delimiter, quoted, header, tuple(names), lines.bom)

    @property
    def kind(self) -> str:
        name = "TSV" if self.delimiter == "\t" else "CSV"
        notes = [] if self.delimiter in ",\t" else [f"{_NAMES[self.delimiter]}-separated"]
        notes += [] if self.quoted else ["quotes are ordinary characters"]
        notes += [] if self.header else ["no header"]
        return name + (f" ({', '.join(notes)})" if notes else "")

    def only(self, *_: str | None) -> Self:
        return self

    def rows(self) -> Iterator[Row]:
        cells_of = _cells(Lines(self.file, self.encoding), self.delimiter, self.quoted)
        wanted = len(self.columns)
        for row, (line, cells, problem) in enumerate(
            islice(cells_of, 1, None) if self.header else cells_of, start=1
        ):
            if not problem and len(cells) != wanted:
                problem = self._ragged(len(cells))
            yield Row(row, line, dict(zip(self.columns, cells, strict=False)), problem)

    def _ragged(self, found: int) -> str:
        cells = "1 cell" if found == 1 else f"{found} cells"
        name = _NAMES[self.delimiter]
        why = f"a {name} inside a text needs quotes around the text" if self.quoted else ""
        why = why or f"a {name} or a line end inside a text is read as the end of a cell"
        first = "the header" if self.header else "the first row"
        return f"has {cells} where {first} has {len(self.columns)} ({why})"


def _cells(lines: Lines, delimiter: str, quoted: bool) -> Iterator[tuple[int, list[str], str]]:
    """(first line, cells, problem) of every row that is not blank."""
    reader = csv.reader(
        lines,
        delimiter=delimiter,
        quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
        strict=True,
    )
    while True:
        start = lines.count + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as e:
            if lines.ended or "limit" in str(e):
                raise SubquadError(_unclosed(lines, start, delimiter)) from None
            lines.take_fault()
            yield start, [], f"a quote stands where none may: {e}" + _quotes_hint(delimiter)
            continue
        problem = lines.take_fault()
        if cells or problem:
            yield start, cells, problem


def _unclosed(lines: Lines, start: int, delimiter: str) -> str:
    swallowed = lines.count - start
    return (
        f"{lines.file.path}: the row that starts on line {start} opens a quote that is never "
        f"closed, and so takes in the {swallowed} lines after it" + _quotes_hint(delimiter)
    )


def _quotes_hint(delimiter: str) -> str:
    if delimiter == "\t":
        return "; if quotes are ordinary characters in this file, pass --quotes off"
    return '; a quote inside a quoted text is written twice ("")'


def _delimiter(file: ByteFile, encoding: str, usual: str) -> str:
    """The usual one, unless the first line holds only another."""
    line = next(iter(Lines(file, encoding)), "")
    if usual in line:
        return usual
    counts = {other: line.count(other) for other in _NAMES}
    best = max(counts, key=lambda other: counts[other])
    return best if counts[best] else usual


def _quoted(file: ByteFile, encoding: str, delimiter: str) -> bool:
    """Whether quotes have a meaning: always in CSV; in TSV, unless a cell near the start begins
    with a quote and breaks the rules of quoting."""
    if delimiter != "\t":
        return True
    text = "".join(islice(Lines(file, encoding), SAMPLE))
    if '"' not in text:
        return True
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), "excel-tab", strict=True))
    except csv.Error:
        return False
    return len({len(row) for row in rows if row}) <= 1
