"""Texts that a program holds already, as a source beside those of files: rows are checked, skipped
and told in the same way."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

import numpy as np

from subquad.data.choosing import Chosen
from subquad.data.label_sets import LabelCells
from subquad.data.rows import Row
from subquad.data.source import ReadOptions, Source
from subquad.errors import UsageError

#: Stands in place of a file's name.
WHERE = "in memory"
TEXT, LABEL, PAIR = "text", "label", "pair"


@dataclass(frozen=True)
class MemoryTable:
    """Columns of Python objects, all of one length."""

    cells: Mapping[str, tuple[object, ...]]
    kind: str = WHERE

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.cells)

    def only(self, *_: str | None) -> Self:
        return self

    def rows(self) -> Iterator[Row]:
        for row, values in enumerate(zip(*self.cells.values(), strict=True), start=1):
            yield Row(row, 0, dict(zip(self.cells, values, strict=True)))

    def digest(self) -> str:
        """Changes with any cell."""
        found = blake2b(digest_size=16)
        for row in self.rows():
            found.update(repr(row).encode("utf-8", "surrogatepass"))
        return found.hexdigest()


def held(
    texts: Iterable[Any],
    labels: Iterable[Any] | None = None,
    *,
    pairs: Iterable[Any] | None = None,
    on_bad_row: str = "stop",
) -> Source:
    """Texts, and a label of each where there are any; with ``pairs``, a second text of each.

    Raises:
        UsageError: one of them is no list of its own, or their lengths differ.
    """
    given = {TEXT: ("texts", texts), LABEL: ("labels", labels), PAIR: ("pairs", pairs)}
    cells = {column: listed(name, of) for column, (name, of) in given.items() if of is not None}
    sizes = {given[column][0]: len(values) for column, values in cells.items()}
    if len(set(sizes.values())) > 1:
        each = ", ".join(f"{count} {name}" for name, count in sizes.items())
        raise UsageError(f"there are {each}: one of each for every text is wanted")
    if not cells[TEXT]:
        raise UsageError("there are no texts")
    pair = PAIR if pairs is not None else None
    options = ReadOptions(pair=pair, on_bad_row=on_bad_row)
    detected = f"{WHERE}: {len(cells[TEXT])} texts" + (", with labels" if LABEL in cells else "")
    chosen = Chosen(TEXT, None, named=False)
    if LABEL in cells:
        cells[LABEL] = _lists(cells[LABEL])
        several = any(isinstance(label, list) for label in cells[LABEL])
        cell = LabelCells((LABEL,)) if several else None
        chosen = Chosen(TEXT, LABEL, cell, named=False)
    return Source(
        path=Path(WHERE),
        chosen=chosen,
        options=options,
        table=MemoryTable(cells),
        detected=detected,
    )


def _lists(labels: tuple[object, ...]) -> tuple[object, ...]:
    """Labels, where a row has several as a list whatever they came in."""
    return tuple(
        [plain(one) for one in (sorted(of, key=str) if isinstance(of, set | frozenset) else of)]
        if isinstance(of, list | tuple | set | frozenset)
        else of
        for of in labels
    )


def listed(name: str, values: Any) -> tuple[object, ...]:
    """What an iterable holds, scalars of NumPy as Python's.

    Raises:
        UsageError: it is a single text, or has several dimensions.
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise UsageError(f"{name} is a {type(values).__name__}; a list is wanted")
    if (shape := getattr(values, "shape", None)) is not None and len(shape) != 1:
        raise UsageError(f"{name} has shape {list(shape)}; one dimension is wanted")
    return tuple(map(plain, values))


def plain(value: Any) -> Any:
    """A scalar of NumPy as the Python value that prints like it: 0.1 of 32 bits is 0.1 to whoever
    wrote it."""
    if not isinstance(value, np.generic):
        return value
    short = isinstance(value, np.floating) and value.itemsize < 8
    return float(str(value)) if short else value.item()
