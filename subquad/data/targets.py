"""What is to be told of each row: a class, several classes, a number, a sequence, or nothing.

Each kind is one class, of arrays in ``Examples`` and of tensors in a ``Batch``. Nothing to be told
is None.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from subquad.data.ragged import Ragged

Rows = npt.NDArray[np.integer]


@dataclass(frozen=True)
class Target(ABC):
    """Base of the kinds."""

    values: Any

    @abstractmethod
    def select(self, rows: Rows) -> Self:
        """Those of these rows, in this order."""

    @abstractmethod
    def batch(self, rows: Rows) -> Self:
        """Those of these rows as tensors."""

    @abstractmethod
    def to(self, device: torch.device | str) -> Self:
        """The same tensors elsewhere."""

    @abstractmethod
    def bytes(self) -> Iterator[bytes]:
        """What a fingerprint is taken of."""


@dataclass(frozen=True)
class _PerRow(Target):
    """``values`` holds one entry for each row."""

    #: What the entries are stored as.
    dtype: ClassVar[type[np.generic]]

    def select(self, rows: Rows) -> Self:
        return replace(self, values=self.values[rows])

    def batch(self, rows: Rows) -> Self:
        return replace(self, values=torch.from_numpy(self.values[rows].copy()))

    def to(self, device: torch.device | str) -> Self:
        return replace(self, values=self.values.to(device))

    def bytes(self) -> Iterator[bytes]:
        yield self.values.tobytes()


@dataclass(frozen=True)
class Classes(_PerRow):
    """A class for each row: int64 ``[n]``."""

    dtype = np.int64


@dataclass(frozen=True)
class ClassSets(_PerRow):
    """Any number of classes for each row: bool ``[n, c]``."""

    dtype = np.bool_


@dataclass(frozen=True)
class Numbers(_PerRow):
    """A number for each row: float64 ``[n]``."""

    dtype = np.float64

    def bytes(self) -> Iterator[bytes]:
        """In millionths where those are exact: what runs of version 0.1 were made of can then be
        known again."""
        whole = np.rint(self.values * 1e6)
        exact = bool((whole / 1e6 == self.values).all())
        yield (whole.astype(np.int64) if exact else self.values).tobytes()


@dataclass(frozen=True)
class Documents(_PerRow):
    """Nothing to be told, but which document each row is cut from: int64 ``[n]``."""

    dtype = np.int64


@dataclass(frozen=True)
class Sequences(Target):
    """A sequence of ids for each row, of any length: a ``Ragged``; in a batch int64 ``[b, u]``,
    zero where a sequence has ended, and the ``lengths`` ``[b]``."""

    lengths: Tensor | None = None

    def select(self, rows: Rows) -> Self:
        return replace(self, values=self.values.select(rows))

    def batch(self, rows: Rows) -> Self:
        picked = [self.values[int(row)] for row in rows]
        lengths = torch.tensor([len(row) for row in picked])
        ids = np.zeros((len(picked), max(1, int(lengths.max()))), dtype=np.int64)
        for i, row in enumerate(picked):
            ids[i, : len(row)] = row
        return replace(self, values=torch.from_numpy(ids), lengths=lengths)

    def to(self, device: torch.device | str) -> Self:
        assert self.lengths is not None, "only a batch moves"
        return replace(self, values=self.values.to(device), lengths=self.lengths.to(device))

    def bytes(self) -> Iterator[bytes]:
        rows: Ragged = self.values
        for i in range(len(rows)):
            yield np.int64(len(rows[i])).tobytes() + np.ascontiguousarray(rows[i]).tobytes()


def per_row(values: npt.NDArray[Any] | None) -> Target | None:
    """The kind that a stored array is: numbers are float64, classes int64."""
    if values is None:
        return None
    return Numbers(values) if values.dtype == np.float64 else Classes(values)


class Coding(Protocol):
    """What turns the text of a label into what is stored: classes (``Labels``), numbers
    (``Scale``)."""

    @property
    def names(self) -> tuple[str, ...]:
        """The classes; () where there are none."""

    @property
    def dtype(self) -> type[np.generic]:
        """What is stored."""

    def index(self, name: str, where: str) -> float:
        """What a label stands for; ``where`` it was found, for a refusal."""
