"""Which columns of a table are read: those asked for, else those of training, else those that their
names or contents show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from subquad.data import columns
from subquad.data.jsonl import LineTable
from subquad.data.label_sets import LabelCells, named_columns
from subquad.data.options import ReadOptions
from subquad.data.rows import Table, shown
from subquad.errors import UsageError


@dataclass(frozen=True)
class Chosen:
    """The column of the text, and that of the label (None: none is read; several: ``a,b,c``)."""

    text: str
    label: str | None
    cells: LabelCells | None = None
    """Where the labels are, if a row may have several."""
    named: bool = True
    """Whether a person could name them: not where a program gives the texts."""

    @property
    def label_columns(self) -> tuple[str | None, ...]:
        """The columns that hold labels."""
        return (self.label,) if self.cells is None else self.cells.columns


def choose(
    path: Path,
    table: Table,
    sample: Sequence[Mapping[str, object]],
    options: ReadOptions,
    *,
    labelled: bool,
) -> tuple[Chosen, str]:
    """The columns, and a word on those of training that are not there; ``sample`` are some rows.

    Raises:
        UsageError: an asked column is absent or double, or none can be told.
    """
    many = _label_columns(path, table, options) if labelled else ()
    wanted, absent = _learned(table, options, labelled=labelled and not many)
    text, label = columns.choose(
        path,
        table.columns,
        sample,
        text=wanted["text"],
        label=wanted["label"],
        labelled=labelled and not many,
        header=options.header,
    )
    if many:
        return Chosen(text, ",".join(many), LabelCells(many)), absent
    lists = any(isinstance(row.get(label), list) for row in sample) if label else False
    if label is not None and options.several and (lists or options.separator is not None):
        return Chosen(text, label, LabelCells((label,), options.separator)), absent
    return Chosen(text, label), absent


def _label_columns(path: Path, table: Table, options: ReadOptions) -> tuple[str, ...]:
    """The columns of labels, if several are named."""
    label = options.label or (options.learned or {}).get("label")
    many = named_columns(label, table.columns) if options.several else ()
    for column in many:
        columns.check(path, table.columns, "label", column)
    if many and options.separator is not None:
        raise UsageError(f"--labels-separator is for labels in one cell, not for columns ({label})")
    return many


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
