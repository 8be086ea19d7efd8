"""Rows of different lengths in one flat array: compact in memory, and able to live on disk.

Rows of tokens are int32 ``[n]``, rows of frames (sound, sensors) float32 ``[n, f]``.
"""

import mmap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Ragged:
    """Row i is ``values[offsets[i] : offsets[i + 1]]``. Both arrays may be memory maps: they
    travel to another process by name, not by content."""

    values: npt.NDArray[Any]
    offsets: npt.NDArray[np.int64]

    @classmethod
    def of(cls, rows: Iterable[Sequence[int] | npt.NDArray[np.integer]]) -> "Ragged":
        """Rows of tokens."""
        return cls._of([np.asarray(row, dtype=np.int32) for row in rows], 0)

    @classmethod
    def frames(cls, rows: Iterable[npt.NDArray[np.floating]], width: int) -> "Ragged":
        """Rows ``[t, width]`` of frames."""
        arrays = [np.asarray(row, dtype=np.float32) for row in rows]
        assert all(row.shape[1:] == (width,) for row in arrays), f"a row is not [t, {width}]"
        return cls._of(arrays, width)

    @staticmethod
    def _of(arrays: list[npt.NDArray[Any]], width: int) -> "Ragged":
        offsets = np.zeros(len(arrays) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in arrays], out=offsets[1:])
        nothing = np.zeros((0, width), np.float32) if width else np.zeros(0, np.int32)
        return Ragged(np.concatenate(arrays) if arrays else nothing, offsets)

    @property
    def width(self) -> int:
        """Numbers in a frame; 0 where rows are of tokens."""
        return self.values.shape[1] if self.values.ndim == 2 else 0

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> npt.NDArray[Any]:
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        return np.diff(self.offsets)

    @property
    def ends(self) -> npt.NDArray[np.int64]:
        """Where in ``values`` each row ends."""
        return self.offsets[1:]

    def select(self, rows: npt.NDArray[np.integer]) -> "Ragged":
        """These rows, in this order, as an array of its own."""
        return Ragged._of([self[int(row)] for row in rows], self.width)

    def view(self, rows: npt.NDArray[np.integer]) -> "View":
        """These rows, in this order, read from where they are: for what is larger than memory."""
        return View(self.values, self.offsets, np.asarray(rows, dtype=np.int64))

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return type(self), tuple(map(_portable, vars(self).values()))


@dataclass(frozen=True)
class View(Ragged):
    """Some rows of a Ragged. ``values`` and ``offsets`` are those of the whole."""

    numbers: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, row: int) -> npt.NDArray[Any]:
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        number = self.numbers[row]
        return self.values[self.offsets[number] : self.offsets[number + 1]]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        return self.offsets[self.numbers + 1] - self.offsets[self.numbers]

    @property
    def ends(self) -> npt.NDArray[np.int64]:
        return self.offsets[self.numbers + 1]

    def view(self, rows: npt.NDArray[np.integer]) -> "View":
        return super().view(self.numbers[rows])


class Windows(Ragged):
    """Windows over one long text: row i also holds the first value of row i + 1, so that every
    value but the very first is once predicted from the one before it."""

    @classmethod
    def over(cls, values: npt.NDArray[np.int32], length: int) -> "Windows":
        """Rows of ``length`` + 1 values (the last may be shorter)."""
        end = max(len(values) - 1, 0)
        return cls(values, np.append(np.arange(0, end, length, dtype=np.int64), end))

    def __getitem__(self, row: int) -> npt.NDArray[np.int32]:
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        return self.values[self.offsets[row] : self.offsets[row + 1] + 1]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        return np.diff(self.offsets) + 1


class _Mapped:
    """The name and place of a memory-mapped array, which opens it again where it arrives."""

    def __init__(self, array: np.memmap[Any, Any], offset: int) -> None:
        self.where = (str(array.filename), array.dtype.str, offset, array.shape)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _mapped, self.where


def _mapped(
    filename: str, dtype: str, offset: int, shape: tuple[int, ...]
) -> np.memmap[Any, np.dtype[Any]]:
    return np.memmap(filename, dtype=dtype, mode="r", offset=offset, shape=shape)


def _portable(array: npt.NDArray[Any]) -> Any:
    """A memory map, or a run of one, by its place; any other array as it is."""
    whole: Any = array
    while isinstance(whole, np.memmap) and not isinstance(whole.base, mmap.mmap):
        whole = whole.base
    if not (isinstance(whole, np.memmap) and array.size and array.flags.c_contiguous):
        return array
    assert isinstance(array, np.memmap)
    return _Mapped(array, whole.offset + array.ctypes.data - whole.ctypes.data)
