"""How a file of texts is read."""

from collections.abc import Mapping
from dataclasses import dataclass

from subquad.data.files import check_encoding
from subquad.errors import UsageError


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
    several: bool = False
    """A row may have several labels: in lists, in columns (``label="a,b,c"``), or in one cell."""
    separator: str | None = None
    """What stands between several labels in one cell."""
    learned: Mapping[str, str] | None = None
    """The columns that training read (``text``, ``label``): taken, where they are there and no
    others are asked for."""

    def __post_init__(self) -> None:
        if self.on_bad_row not in ("stop", "skip"):
            raise UsageError(f"--on-bad-row {self.on_bad_row!r} is not one of stop, skip")
        object.__setattr__(self, "encoding", check_encoding(self.encoding))
