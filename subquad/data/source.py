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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from subquad.data import columns
from subquad.data.cells import label_of, text_problem
from subquad.data.files import STDIN, ByteFile, check_encoding, named
from subquad.data.folders import TextFiles
from subquad.data.formats import open_table
from subquad.data.jsonl import LineTable
from subquad.data.rows import BadRow, Record, Row, Skipped, Table, shown
from subquad.data.targets import Coding
from subquad.data.tokenizers import PAIR
from subquad.errors import SubquadError, UsageError

#: Rows looked at before reading begins.
SAMPLE = 50


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How to read a file."""

    text: str | None = None
    """Column of the text; None = detect."""
    label: str | None = None
    """Column of the label; None = detect."""
    pair: str | None = None
    """Column of a second text; the record's text is then both, with ``PAIR`` between."""
    format: str | None = None
    """csv, tsv, jsonl, parquet, text (a text per file) or lines (a text per line); None = by
    the file's name."""
    encoding: str = "utf-8"
    """Encoding of the characters."""
    on_bad_row: str = "stop"
    """stop at the first row that cannot be used, or skip, counting and listing them."""
    header: bool = True
    """The first line of a CSV or TSV names the columns; if not, they are called 1, 2, …"""
    quotes: bool | None = None
    """Whether " has a meaning in a CSV or TSV; None = yes in CSV, seen from its rows in TSV."""
    learned: Mapping[str, str] | None = None
    """The columns that training read (``text``, ``label``): taken, where they are there and no
    others are asked for."""

    def __post_init__(self) -> None:
        if self.on_bad_row not in ("stop", "skip"):
            raise UsageError(f"--on-bad-row {self.on_bad_row!r} is not one of stop, skip")
        object.__setattr__(self, "encoding", check_encoding(self.encoding))


@dataclass(frozen=True)
class Source:
    """An opened file: which columns are read, and the records, as often as asked (once, from
    standard input)."""

    path: Path
    text: str
    label: str | None
    options: ReadOptions
    table: Table | TextFiles
    detected: str
    """One line for people: the format, the columns taken, the encoding."""
    on_disk: bool = True
    """Whether it is a file; else a program holds it."""
    skipped: Skipped = field(default_factory=Skipped, compare=False)
    classes: Coding | None = None
    """Labels that are known: a row with another is one that cannot be used."""

    @property
    def has_columns(self) -> bool:
        """Whether texts and labels are columns that a person can name."""
        return self.on_disk and not isinstance(self.table, TextFiles | LineTable)

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
    table = open_table(
        ByteFile(path),
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
    return _of_table(path, table, options, labelled=labelled)


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
    label = None if table.classes is None else "folder"
    detected = f"{table.root}: {table.kind}, {_encoding(options)}"
    return Source(table.root, "file", label, options, table, detected)


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
    wanted, absent = _learned(table, options, labelled=labelled)
    text, label = columns.choose(
        Path(name),
        table.columns,
        good,
        text=wanted["text"],
        label=wanted["label"],
        labelled=labelled,
        header=options.header,
    )
    if options.pair is not None:
        columns.check(Path(name), table.columns, "pair", options.pair)
    taken = f"text = {text!r}" + (f", pair = {options.pair!r}" if options.pair else "")
    taken += f", label = {label!r}" if label is not None else ""
    detected = f"{name}: {table.kind}, {_encoding(options)}, {taken}{absent}"
    return Source(path, text, label, options, table.only(text, options.pair, label), detected)


def _learned(
    table: Table, options: ReadOptions, *, labelled: bool
) -> tuple[dict[str, str | None], str]:
    """The columns asked for, else those of training that are there; and a word on those that are
    not."""
    wanted = {"text": options.text, "label": options.label if labelled else None}
    absent = []
    for part, name in (options.learned or {}).items():
        if part not in wanted or wanted[part] is not None or (part == "label" and not labelled):
            continue
        if name not in table.columns:
            absent.append(f"{part} = {name!r}")
        elif name not in wanted.values():
            wanted[part] = name
    if not absent or isinstance(table, LineTable):
        return wanted, ""
    there = ", ".join(map(shown, table.columns))
    return wanted, f" (training read {', '.join(absent)}, which is not here; it has: {there})"


def _encoding(options: ReadOptions) -> str:
    return "UTF-8" if options.encoding == "utf-8" else options.encoding
