"""Rows of different lengths in one flat array: compact in memory, and able to live on disk."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Ragged:
    """Row i is ``values[offsets[i] : offsets[i + 1] + overlap]``. Arrays may be memory maps."""

    values: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    overlap: int = 0
    """Values that a row shares with the next one (windows over a long text)."""

    @classmethod
    def of(cls, rows: Iterable[Sequence[int] | npt.NDArray[np.integer]]) -> Self:
        arrays = [np.asarray(row, dtype=np.int32) for row in rows]
        offsets = np.zeros(len(arrays) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in arrays], out=offsets[1:])
        values = np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.int32)
        return cls(values, offsets)

    @classmethod
    def windows(cls, values: npt.NDArray[np.int32], length: int) -> Self:
        """Rows of ``length`` + 1 values; the last of a row is the first of the next, so that every
        value but the very first is once predicted from the one before it."""
        offsets = np.arange(0, max(len(values) - 1, 0), length, dtype=np.int64)
        return cls(values, np.append(offsets, max(len(values) - 1, 0)), overlap=1)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> npt.NDArray[np.int32]:
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        return self.values[self.offsets[row] : self.offsets[row + 1] + self.overlap]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        return np.diff(self.offsets) + self.overlap

    def select(self, rows: npt.NDArray[np.integer]) -> Self:
        """These rows, in this order, as an array of its own."""
        return type(self).of(self[int(row)] for row in rows)
