"""The one door for people's texts: a file, a folder or standard input in, records out.

What comes in comes out, or its row number and the reason do:

* Text is never interpreted: ``NA``, ``null``, ``1e5`` and ``007`` stay as they are, white space
  and line ends too. Only an empty text is refused.
* Blank lines in CSV, TSV and JSONL are no rows; in a file of one text per line they are empty ones.
* A label is text. JSON's and Parquet's numbers print as in ``1`` and ``0.5``; a whole number
  written with a point (``1.0``) is the same label as without, in every format; true and false
  print so, and where those are all the labels, ``True`` and ``TRUE`` are the same. A label that is
  absent, empty, NaN or infinite is refused.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from subquad.data import columns
from subquad.data.cells import label_of, text_problem
from subquad.data.choosing import Chosen, choose
from subquad.data.files import STDIN, ByteFile, named
from subquad.data.folders import TextFiles
from subquad.data.formats import open_table
from subquad.data.jsonl import LineTable
from subquad.data.options import ReadOptions
from subquad.data.rows import BadRow, Record, Row, Skipped, Table, shown
from subquad.data.targets import Coding
from subquad.data.tokenizers import PAIR
from subquad.errors import SubquadError, UsageError

#: Rows looked at before reading begins.
SAMPLE = 50


@dataclass(frozen=True, kw_only=True)
class Source:
    """An opened file: which columns are read, and the records, as often as asked (once, from
    standard input)."""

    path: Path
    chosen: Chosen
    options: ReadOptions
    table: Table | TextFiles
    detected: str
    """One line for people: the format, the columns taken, the encoding."""
    skipped: Skipped = field(default_factory=Skipped, compare=False)
    file: ByteFile | None = None
    """Where the rows come from, if it is one file."""
    classes: Coding | None = None
    """Labels that are known: a row with another is one that cannot be used."""

    @property
    def text(self) -> str:
        """The column of the text."""
        return self.chosen.text

    @property
    def label(self) -> str | None:
        """The column of the label; None where none is read."""
        return self.chosen.label

    @property
    def has_columns(self) -> bool:
        """Whether texts and labels are columns that a person can name."""
        return self.chosen.named and not isinstance(self.table, TextFiles | LineTable)

    def waits(self) -> bool:
        """Whether the next row has not come yet: only from standard input."""
        return self.file is not None and self.file.waits()

    def knowing(self, labels: Coding) -> "Source":
        """The same, where rows are skipped that cannot be used: so is one whose label is not among
        these. Elsewhere whoever numbers the labels says it, for all rows at once."""
        return replace(self, classes=labels) if self.options.on_bad_row == "skip" else self

    def records(self) -> Iterator[Record]:
        """Every record in the order of the file.

        Raises:
            SubquadError: a row cannot be used and ``on_bad_row`` is stop; whatever it is, the rest
                of the file cannot be told (a quote never closed, damaged compression).
        """
        return self._kept(self.outcomes())

    def pieces(self) -> Iterator[Record]:
        """As ``records``, but a long text file comes in several records, all but the last with
        ``more``, so that memory stays small. An error can come after pieces of the same text."""
        if isinstance(self.table, TextFiles):
            return self._kept(self.table.records(self.options.encoding, in_pieces=True))
        return self.records()

    def outcomes(self) -> Iterator[Record | BadRow]:
        """Every row in the order of the file: its record, or why there is none."""
        if isinstance(self.table, TextFiles):
            return self.table.records(self.options.encoding, in_pieces=False)
        return (self._outcome(row) for row in self.table.rows())

    def place(self, row: int) -> str:
        """Where a row is, for messages."""
        if isinstance(self.table, TextFiles):
            return str(self.table.files[row - 1])
        name = "standard input" if str(self.path) == STDIN else self.path
        return f"{name}, row {row}"

    def _kept(self, outcomes: Iterator[Record | BadRow]) -> Iterator[Record]:
        self.skipped.count = 0
        self.skipped.rows.clear()
        for found in outcomes:
            outcome = self._known(found)
            if isinstance(outcome, Record):
                yield outcome
            elif self.options.on_bad_row == "skip":
                self.skipped.add(outcome)
            else:
                line = f" (line {outcome.line})" if outcome.line else ""
                raise SubquadError(
                    f"{self.place(outcome.row)}{line}: {outcome.reason}; "
                    "--on-bad-row skip leaves such rows out"
                )

    def _known(self, outcome: Record | BadRow) -> Record | BadRow:
        if self.classes is None or not isinstance(outcome, Record):
            return outcome
        try:
            self.classes.index(str(outcome.label), "")
        except SubquadError as error:
            return BadRow(outcome.row, 0, str(error).removeprefix(": "))
        return outcome

    def _outcome(self, row: Row) -> Record | BadRow:
        if row.problem:
            return BadRow(row.row, row.line, row.problem)
        text = row.cells.get(self.text)
        if problem := text_problem(text, f"the text (column {self.text!r})"):
            return BadRow(row.row, row.line, problem)
        if self.options.pair is not None:
            second = row.cells.get(self.options.pair)
            if problem := text_problem(second, f"the text (column {self.options.pair!r})"):
                return BadRow(row.row, row.line, problem)
            text = f"{text}{PAIR}{second}"
        if self.label is None:
            return Record(row.row, str(text), None)
        if self.chosen.cells is not None:
            label, problem = self.chosen.cells.read(row.cells)
        else:
            label, problem = label_of(row.cells.get(self.label), self.label)
        return BadRow(row.row, row.line, problem) if problem else Record(row.row, str(text), label)


def open_source(path: str | Path, options: ReadOptions, *, labelled: bool) -> Source:
    """Open a file, a folder or ``-`` (standard input) of texts; CSV, TSV, JSONL, Parquet and
    plain text, also ``.gz`` and ``.zst``.

    Raises:
        SubquadError: the file is missing, empty or cannot be read; what was found is named.
        UsageError: an option does not fit the file.
    """
    path = named(path)
    if path.is_dir():
        _check_folder(path, options)
        every = options.format == "text"
        return _of_text(TextFiles.of_folder(path, labelled=labelled, every=every), options)
    if str(path) != STDIN and not path.exists():
        raise SubquadError(f"{path}: no such file or folder")
    if str(path) != STDIN and not path.is_file():
        raise SubquadError(f"{path} is a pipe or device: send it to standard input and pass -")
    file = ByteFile(path)
    table = open_table(
        file,
        options.format,
        options.encoding,
        header=options.header,
        quotes=options.quotes,
    )
    if isinstance(table, TextFiles):
        if labelled:
            raise UsageError(
                f"{path} is read as {table.kind}, which has no labels; classes need a CSV, TSV, "
                "JSONL or Parquet file (--format says which), or a folder per class"
            )
        return _of_text(table, options)
    return replace(_of_table(path, table, options, labelled=labelled), file=file)


def _check_folder(path: Path, options: ReadOptions) -> None:
    given = {
        "--format": options.format not in (None, "text"),
        "--no-header": not options.header,
        "--quotes": options.quotes is not None,
    }
    for option, is_given in given.items():
        if is_given:
            raise UsageError(f"{option} is for files, but {path} is a folder of text files")


def _of_text(table: TextFiles, options: ReadOptions) -> Source:
    for option, name in (
        ("text", options.text),
        ("pair", options.pair),
        ("label", options.label),
    ):
        if name is not None:
            raise UsageError(f"{table.root} has no columns, so --{option} {name} means nothing")
    if options.separator is not None:
        raise UsageError(f"{table.root} has no cells, so --labels-separator means nothing")
    label = None if table.classes is None else "folder"
    detected = f"{table.root}: {table.kind}, {_encoding(options)}"
    chosen = Chosen("file", label)
    return Source(path=table.root, chosen=chosen, options=options, table=table, detected=detected)


def _of_table(path: Path, table: Table, options: ReadOptions, *, labelled: bool) -> Source:
    name = "standard input" if str(path) == STDIN else str(path)
    sample = [] if str(path) == STDIN else list(islice(table.rows(), SAMPLE))
    good = [row.cells for row in sample if not row.problem]
    if str(path) != STDIN and not sample:
        header = f"a header ({', '.join(map(shown, table.columns))}) and " if table.columns else ""
        raise SubquadError(f"{path} holds {header}no rows")
    if not table.columns:
        problem = sample[0].problem if sample else "there is nothing in it"
        raise SubquadError(f"{name}: no row can be read; the first: {problem}")
    chosen, absent = choose(Path(name), table, good, options, labelled=labelled)
    if options.pair is not None:
        columns.check(Path(name), table.columns, "pair", options.pair)
        if options.pair in (chosen.text, *chosen.label_columns):
            what = "text" if options.pair == chosen.text else "label"
            raise UsageError(f"{name}: column {options.pair!r} cannot be both {what} and pair")
    taken = f"text = {chosen.text!r}" + (f", pair = {options.pair!r}" if options.pair else "")
    taken += f", label = {chosen.label!r}" if chosen.label is not None else ""
    detected = f"{name}: {table.kind}, {_encoding(options)}, {taken}{absent}"
    read = table.only(chosen.text, options.pair, *chosen.label_columns)
    return Source(path=path, chosen=chosen, options=options, table=read, detected=detected)


def _encoding(options: ReadOptions) -> str:
    return "UTF-8" if options.encoding == "utf-8" else options.encoding
