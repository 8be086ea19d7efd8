"""Class names and their order: one rule, saved with the model."""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from subquad.errors import SubquadError


def _order(name: str) -> tuple[float, str]:
    return (float(name), name)


def _is_number(name: str) -> bool:
    try:
        return math.isfinite(float(name))
    except ValueError:
        return False


@dataclass(frozen=True)
class Labels:
    """The classes of a run, in order: numeric if all are numbers, else by code point."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, found: Iterable[str], where: str) -> Self:
        """The distinct labels found in ``where``.

        Raises:
            SubquadError: fewer than two classes; nothing could be learned.
        """
        distinct = set(found)
        numeric = all(_is_number(name) for name in distinct)
        names = tuple(sorted(distinct, key=_order if numeric else None))
        if len(names) < 2:
            raise SubquadError(
                f"{where} has one class ({names[0]!r})"
                if names
                else f"{where} has no labels: a classifier needs at least two"
            )
        return cls(names)

    def __len__(self) -> int:
        return len(self.names)

    def index(self, name: str, where: str) -> int:
        """The class number of a label.

        Raises:
            SubquadError: a label that training did not see; those it saw are listed.
        """
        try:
            return self.names.index(name)
        except ValueError:
            raise SubquadError(
                f"{where}: label {name!r} was not seen in training; the classes are "
                f"{', '.join(self.names)}"
            ) from None

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(list(self.names), ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Self:
        return cls(tuple(json.loads(path.read_text(encoding="utf-8"))))
