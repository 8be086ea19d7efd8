"""JSON Lines, and plain lines of text: one record per line."""

import codecs
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Self

from subquad.data.files import ByteFile, Lines
from subquad.data.rows import Row, shown
from subquad.errors import SubquadError

#: Rows looked at to learn which keys there are.
SAMPLE = 50

_NAMES = {list: "an array", str: "a string", bool: "true or false", type(None): "null"}


@dataclass(frozen=True)
class JsonTable:
    """One JSON object per line; blank lines are no rows."""

    file: ByteFile
    encoding: str
    columns: tuple[str, ...] = ()
    kind: str = "JSONL"

    @classmethod
    def open(cls, file: ByteFile, encoding: str) -> "JsonTable":
        """Look at the first rows, to learn the columns.

        Raises:
            SubquadError: the file is one JSON array.
        """
        head = file.head().removeprefix(codecs.BOM_UTF8).lstrip()
        if head.startswith(b"["):
            raise SubquadError(
                f"{file.path} is one JSON array; JSONL (one object per line) is wanted, as "
                f"`jq -c '.[]' {file.path}` writes it"
            )
        if file.is_stdin:
            sample = iter([_parsed(head.partition(b"\n")[0].decode(encoding, "replace"))])
        else:
            sample = (
                (row.cells, row.problem) for row in islice(cls(file, encoding).rows(), SAMPLE)
            )
        columns = dict.fromkeys(key for cells, problem in sample if not problem for key in cells)
        return cls(file, encoding, tuple(columns))

    def only(self, *_: str | None) -> Self:
        return self

    def rows(self) -> Iterator[Row]:
        lines = Lines(self.file, self.encoding)
        row = 0
        for line in lines:
            fault = lines.take_fault()
            if line.isspace():
                continue
            row += 1
            cells, problem = ({}, fault) if fault else _parsed(line)
            yield Row(row, lines.count, cells, problem)


def _parsed(line: str) -> tuple[Mapping[str, object], str]:
    """The object of a line, or what is wrong with it."""
    try:
        value = json.loads(line)
    except json.JSONDecodeError as e:
        return {}, f"is not JSON: {e.msg} at character {e.colno}"
    except (ValueError, RecursionError) as e:  # a number of 5,000 digits; a depth of 100,000
        return {}, f"cannot be read as JSON: {e}"
    if not isinstance(value, dict):
        name = _NAMES.get(type(value), "a number")
        return {}, f"holds {name} ({shown(line.strip())}); an object {{…}} is wanted"
    return value, ""


@dataclass(frozen=True)
class LineTable:
    """Every line is a text; a blank one is an empty text."""

    file: ByteFile
    encoding: str
    columns: tuple[str, ...] = ("line",)
    kind: str = "a text per line"

    def only(self, *_: str | None) -> Self:
        return self

    def rows(self) -> Iterator[Row]:
        lines = Lines(self.file, self.encoding)
        for row, line in enumerate(lines, start=1):
            yield Row(row, row, {"line": line.rstrip("\r\n")}, lines.take_fault())
