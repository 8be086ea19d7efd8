"""CSV and TSV by the standard library's parser, in its strict mode: it is the one that can say
which line it is on, so that every row is read or named."""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Self

from subquad.data.files import ByteFile, Lines
from subquad.data.rows import Row
from subquad.errors import SubquadError

#: A cell longer than this is taken for a quote that was never closed.
LONGEST = 1 << 28
#: Lines looked at to tell how a file uses quotes.
SAMPLE = 1000
#: A cell of more lines than this, at the end of those, is taken for a quote that is never closed.
LINES = 100

#: A cell as it is read where a space stands before its quotes.
_SPACED = re.compile(' +".*"', re.DOTALL)

_NAMES = {",": "comma", "\t": "tab", ";": "semicolon", "|": "bar"}


@dataclass(frozen=True)
class Form:
    """How cells stand in a line: what is between them, whether quotes have a meaning, and whether
    spaces at the start of a cell (before its quotes) are no part of it."""

    delimiter: str
    quoted: bool
    spaced: bool = False

    def reader(self, lines: Iterator[str]) -> "csv._reader":
        return csv.reader(
            lines,
            delimiter=self.delimiter,
            quoting=csv.QUOTE_MINIMAL if self.quoted else csv.QUOTE_NONE,
            skipinitialspace=self.spaced,
            strict=True,
        )


@dataclass(frozen=True)
class CsvTable:
    """Cells between delimiters."""

    file: ByteFile
    encoding: str
    form: "Form"
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
        form = _form(file, encoding, delimiter, quotes)
        lines = Lines(file, encoding)
        first = next(_cells(lines, form), None)
        if first is None:
            raise SubquadError(f"{file.path} is empty: no header and no rows")
        _, cells, problem = first
        if problem:
            raise SubquadError(f"{file.path}: the header cannot be read: {problem}")
        names = cells if header else [str(i) for i in range(1, len(cells) + 1)]
        return cls(file, encoding, form, header, tuple(names), lines.bom)

    @property
    def kind(self) -> str:
        name, delimiter = "TSV" if self.form.delimiter == "\t" else "CSV", self.form.delimiter
        notes = [] if delimiter in ",\t" else [f"{_NAMES[delimiter]}-separated"]
        notes += [] if self.form.quoted else ["quotes are ordinary characters"]
        notes += ["spaces before a cell are no part of it"] if self.form.spaced else []
        notes += [] if self.header else ["no header"]
        return name + (f" ({', '.join(notes)})" if notes else "")

    def only(self, *_: str | None) -> Self:
        return self

    def rows(self) -> Iterator[Row]:
        cells_of = _cells(Lines(self.file, self.encoding), self.form)
        wanted = len(self.columns)
        for row, (line, cells, problem) in enumerate(
            islice(cells_of, 1, None) if self.header else cells_of, start=1
        ):
            if not problem and len(cells) != wanted:
                problem = self._ragged(len(cells))
            yield Row(row, line, dict(zip(self.columns, cells, strict=False)), problem)

    def _ragged(self, found: int) -> str:
        cells = "1 cell" if found == 1 else f"{found} cells"
        name = _NAMES[self.form.delimiter]
        why = f"a {name} inside a text needs quotes around the text" if self.form.quoted else ""
        why = why or f"a {name} or a line end inside a text is read as the end of a cell"
        first = "the header" if self.header else "the first row"
        return f"has {cells} where {first} has {len(self.columns)} ({why})"


def _cells(lines: Lines, form: Form) -> Iterator[tuple[int, list[str], str]]:
    """(first line, cells, problem) of every row that is not blank."""
    raw: list[str] = []  # the lines of the row in hand
    reader = form.reader(_kept(lines, raw))
    while True:
        raw.clear()
        start = lines.count + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as e:
            if lines.ended or "limit" in str(e):
                raise SubquadError(_unclosed(lines, start, form.delimiter)) from None
            lines.take_fault()
            yield start, [], f"a quote stands where none may: {e}" + _quotes_hint(form.delimiter)
            continue
        problem = lines.take_fault()
        if not problem and form.quoted and _has_spaced(cells, raw, form.delimiter):
            problem = (
                f"a space stands between a {_NAMES[form.delimiter]} and a quote, so that the quote "
                "would be part of the cell: remove the space"
            )
        if cells or problem:
            yield start, cells, problem


def _kept(lines: Lines, raw: list[str]) -> Iterator[str]:
    for line in lines:
        raw.append(line)
        yield line


def _has_spaced(cells: list[str], raw: list[str], delimiter: str) -> bool:
    """Whether a cell is quoted behind a space. One that is to hold both has its own quotes doubled
    in the file, so it does not stand there as it was read."""
    spaced = [cell for cell in cells if cell.startswith(" ") and _SPACED.fullmatch(cell)]
    return any(f"{delimiter}{cell}" in (delimiter + "".join(raw)) for cell in spaced)


def _unclosed(lines: Lines, start: int, delimiter: str) -> str:
    swallowed = lines.count - start
    return (
        f"{lines.file.path}: the row that starts on line {start} opens a quote that is never "
        f"closed, and so takes in the {swallowed} lines after it" + _quotes_hint(delimiter)
    )


def _quotes_hint(delimiter: str) -> str:
    if delimiter == "\t":
        return "; if quotes are ordinary characters in this file, pass --no-quotes"
    return '; a quote inside a quoted text is written twice ("")'


def _delimiter(file: ByteFile, encoding: str, usual: str) -> str:
    """The usual one, unless the first line holds only another."""
    line = next(iter(Lines(file, encoding)), "")
    if usual in line:
        return usual
    counts = {other: line.count(other) for other in _NAMES}
    best = max(counts, key=lambda other: counts[other])
    return best if counts[best] else usual


def _form(file: ByteFile, encoding: str, delimiter: str, quotes: bool | None) -> Form:
    """As asked, else by the first lines: quotes always have a meaning in CSV; in TSV, unless a cell
    begins with a quote and breaks the rules of quoting."""
    lines = list(islice(Lines(file, encoding), SAMPLE))
    if not any('"' in line for line in lines):
        return Form(delimiter, quotes is not False)
    usual = Form(delimiter, quoted=True)
    if quotes is False or (quotes is None and delimiter == "\t" and not _fits(usual, lines)):
        return Form(delimiter, quoted=False)
    spaced = Form(delimiter, quoted=True, spaced=True)
    return spaced if _is_spaced(spaced, usual, lines) else usual


def _is_spaced(spaced: Form, usual: Form, lines: list[str]) -> bool:
    """Whether quotes stand behind spaces: then only the form that knows it makes sense."""
    behind = re.compile(f'(^|{re.escape(usual.delimiter)}) +"')
    if not any(map(behind.search, lines)) or not _fits(spaced, lines):
        return False
    if not _fits(usual, lines):
        return True
    return any(_has_spaced(cells, lines, usual.delimiter) for cells in _rows(usual, lines))


def _fits(form: Form, lines: list[str]) -> bool:
    """Whether these first lines of a file are rows of equally many cells."""
    try:
        return len({len(cells) for cells in _rows(form, lines) if cells}) <= 1
    except csv.Error:
        return False


def _rows(form: Form, lines: list[str]) -> Iterator[list[str]]:
    """The rows of the first lines of a file; the last may go on behind them and is left out."""
    reader = form.reader(iter(lines))
    while True:
        begun = reader.line_num
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error:
            if len(lines) == SAMPLE and reader.line_num == SAMPLE and SAMPLE - begun <= LINES:
                return
            raise
