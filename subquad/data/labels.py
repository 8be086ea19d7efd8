"""Class names and their order: one rule, saved with the model."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from subquad.data import targets
from subquad.errors import SubquadError

Classes = npt.NDArray[np.int64]

#: Rows and classes named in a message before it says how many more there are.
NAMED = 5


def _order(name: str) -> tuple[float, str]:
    return (float(name), name)


#: Truth values, however a format spells them.
_TRUTH = {"false", "true"}

#: What spreadsheets and data frames write for a number that is not there.
_MISSING = {"nan", "none", "null", "na", "n/a", "inf", "+inf", "-inf", "infinity", "-infinity"}


def _is_number(name: str) -> bool:
    try:
        return math.isfinite(float(name))
    except ValueError:
        return False


@dataclass(frozen=True)
class Labels:
    """The classes of a run, in order: numeric if all are numbers, else by code point."""

    names: tuple[str, ...]
    dtype: ClassVar[type[np.generic]] = np.int64
    """Of the numbers of classes."""

    @classmethod
    def of(cls, found: Iterable[str], where: str) -> Self:
        """The distinct labels found in ``where``.

        Raises:
            SubquadError: fewer than two classes, from which nothing could be learned; a label
                ``nan`` among numbers.
        """
        distinct = set(found)
        if {name.lower() for name in distinct} == _TRUTH:
            distinct = _TRUTH
        numbers = [name for name in distinct if _is_number(name)]
        missing = sorted(name for name in distinct if name.lower() in _MISSING)
        if missing and numbers and len(numbers) + len(missing) == len(distinct):
            raise SubquadError(
                f"{where}: the label {missing[0]!r} stands among numbers, so it is a missing one: "
                "leave those rows out"
            )
        names = tuple(sorted(distinct, key=_order if len(numbers) == len(distinct) else None))
        if len(names) < 2:
            raise SubquadError(
                f"{where} has "
                + (f"one class ({names[0]!r})" if names else "no labels")
                + ": a classifier needs at least two"
            )
        return cls(names)

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        known = {name: i for i, name in enumerate(self.names)}
        if len(known) > 2 or {name.lower() for name in known} != _TRUTH:
            return known
        return {spelt: i for n, i in known.items() for spelt in (n.lower(), n.title(), n.upper())}

    def index(self, name: str, where: str) -> int:
        """The class number of a label.

        Raises:
            SubquadError: a label that training did not see; those it saw are listed.
        """
        try:
            return self._numbers[name]
        except KeyError:
            raise SubquadError(
                f"{where}: label {name!r} was not seen in training; the classes are "
                f"{_few(self.names)}"
            ) from None

    def target(
        self, distinct: Sequence[str], coded: npt.NDArray[np.int64], where: str
    ) -> targets.Classes:
        """What is to be told of rows whose labels are ``distinct[coded]``."""
        order = np.array([self.index(name, where) for name in distinct], dtype=np.int64)
        return targets.Classes(order[coded])

    def counts(self, y: Classes) -> Classes:
        """Rows of each class."""
        return np.bincount(y, minlength=len(self)).astype(np.int64)

    def weights(self, y: Classes) -> npt.NDArray[np.float32]:
        """Balanced class weights, ``n / (k · count)``: every class counts the same in total. A
        class without rows weighs 0."""
        counts = self.counts(y)
        present = counts > 0
        weights = np.zeros(len(self), dtype=np.float32)
        weights[present] = len(y) / (int(present.sum()) * counts[present])
        return weights

    def rare(self, y: Classes, where: str) -> str:
        """A warning about classes of a single row, or nothing. Such a row stays in training, and
        so its class is never evaluated."""
        alone = [self.names[i] for i in np.flatnonzero(self.counts(y) == 1)]
        if not alone:
            return ""
        subject = "class has" if len(alone) == 1 else "classes have"
        return (
            f"{where}: {len(alone)} {subject} a single row, which stays in training and is not "
            f"evaluated: {_few(alone)}"
        )

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(list(self.names), ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Self:
        """The labels that ``save`` wrote.

        Raises:
            SubquadError: the file is missing or holds something else.
        """
        try:
            names = json.loads(path.read_text(encoding="utf-8"))
        except OSError as e:
            raise SubquadError(f"{path}: {e.strerror or e}") from None
        except ValueError:
            names = None
        texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
        if not texts or len(set(names)) < len(names):
            raise SubquadError(f"{path} is not a JSON list of different class names")
        return cls(tuple(names))


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
