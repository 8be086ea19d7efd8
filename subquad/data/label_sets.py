"""Several labels for each row: in one cell, in a list, or in columns of 0 and 1.

A record carries them as one text, the labels with ``JOIN`` between; no label at all is "".
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from subquad.data.cells import label_of
from subquad.data.labels import Labels
from subquad.data.rows import shown
from subquad.data.targets import ClassSets
from subquad.errors import SubquadError

#: Stands between the labels of a record; no label holds it.
JOIN = "\x1f"
_YES, _NO = ("1", "true", "True", "TRUE"), ("0", "false", "False", "FALSE")

Sets = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class LabelCells:
    """Where the labels of a row are: ``columns`` of 0 and 1, or one column of lists, or of labels
    with a ``separator`` between."""

    columns: tuple[str, ...]
    separator: str | None = None

    def read(self, cells: Mapping[str, object]) -> tuple[str, str]:
        """(labels, problem) of a row."""
        if len(self.columns) > 1:
            return self._of_columns(cells)
        (column,) = self.columns
        cell = cells.get(column)
        parts: list[object]
        if isinstance(cell, list):
            parts = cell
        elif self.separator is None:
            return "", f"the label (column {column!r}) is {shown(cell)}, and others are lists"
        else:
            text = "" if cell is None else str(cell)
            parts = [part.strip() for part in text.split(self.separator) if part.strip()]
        found = [label_of(part, column) for part in parts]
        problem = next((problem for _, problem in found if problem), "")
        return JOIN.join(dict.fromkeys(name for name, _ in found)), problem

    def _of_columns(self, cells: Mapping[str, object]) -> tuple[str, str]:
        names = []
        for column in self.columns:
            value = label_of(cells.get(column), column)[0]
            if value not in _YES + _NO:
                cell = shown(cells.get(column))
                return "", f"the label column {column!r} holds {cell}, neither 0 nor 1"
            names += [column] if value in _YES else []
        return JOIN.join(names), ""


def named_columns(label: str | None, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that ``a,b,c`` names; () if it is the name of one column, or is None."""
    if label is None or label in columns or "," not in label:
        return ()
    return tuple(name.strip() for name in label.split(","))


@dataclass(frozen=True)
class LabelSets:
    """The classes of a run whose rows have any number of them, in the order of ``Labels``."""

    labels: Labels
    dtype: ClassVar[type[np.generic]] = np.bool_
    """Of a row's entry for each class."""

    @classmethod
    def of(cls, found: Sequence[str], where: str) -> Self:
        """The distinct labels of these records' label texts.

        Raises:
            SubquadError: fewer than two.
        """
        return cls(Labels.of({name for text in found for name in _parts(text)}, where))

    @property
    def names(self) -> tuple[str, ...]:
        """The classes."""
        return self.labels.names

    def __len__(self) -> int:
        return len(self.labels)

    def index(self, name: str, where: str) -> float:
        """Refuse labels that training did not see; what is returned means nothing.

        Raises:
            SubquadError: one of the labels was not seen; those that were are listed.
        """
        for part in _parts(name):
            self.labels.index(part, where)
        return 0.0

    @cached_property
    def _nothing(self) -> Sets:
        return np.zeros(len(self), dtype=np.bool_)

    def rows(self, texts: Sequence[str], where: str) -> Sets:
        """The classes of each of these label texts, bool ``[n, c]``.

        Raises:
            SubquadError: a label that training did not see.
        """
        made = np.tile(self._nothing, (len(texts), 1))
        for row, text in enumerate(texts):
            for part in _parts(text):
                made[row, self.labels.index(part, where)] = True
        return made

    def target(
        self, distinct: Sequence[str], coded: npt.NDArray[np.int64], where: str
    ) -> ClassSets:
        """What is to be told of rows whose label texts are ``distinct[coded]``."""
        return ClassSets(self.rows(distinct, where)[coded])

    def weights(self, sets: Sets) -> npt.NDArray[np.float32]:
        """For each class n / (c · count), so that rare ones count as much; 0 without rows."""
        counts = sets.sum(0)
        weights = np.zeros(len(self), dtype=np.float32)
        weights[counts > 0] = len(sets) / (len(self) * counts[counts > 0])
        return weights

    def rare(self, sets: Sets, where: str) -> str:
        """A warning about classes of a single row, or nothing."""
        alone = [self.names[i] for i in np.flatnonzero(sets.sum(0) == 1)]
        if not alone:
            return ""
        many = f"{len(alone)} labels occur" if len(alone) > 1 else "1 label occurs"
        return f"{where}: {many} in a single row: {alone[0]}"

    def save(self, path: Path) -> None:
        text = json.dumps({"several": True, "classes": list(self.names)}, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Self | None:
        """What ``save`` wrote; None if the file holds the classes of rows that have one each.

        Raises:
            SubquadError: the file is missing or holds something else.
        """
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None  # Labels.load says what is wrong
        if not isinstance(found, dict):
            return None
        names = found.get("classes")
        if (
            not isinstance(names, list)
            or not all(isinstance(name, str) for name in names)
            or len(set(names)) < len(names)
        ):
            raise SubquadError(f"{path} is not a list of different class names")
        return cls(Labels(tuple(names)))


def _parts(text: str) -> list[str]:
    return text.split(JOIN) if text else []
