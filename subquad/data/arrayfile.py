"""A one-dimensional ``.npy`` written piece by piece, without its length known beforehand; and a
digest that tells whether a file is still the same without reading all of a huge one."""

import os
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

#: Files up to this size are read whole for their digest; of longer ones, SPOTS blocks.
WHOLE = 64 << 20
SPOTS = 64
SPOT = 1 << 16


class ArrayFile:
    """Appends to an array on disk; what it holds is a ``.npy`` only once it is left without an
    error, and is then on the disk, not in a cache."""

    HEADER = 128

    def __init__(self, path: Path, dtype: type[np.generic]) -> None:
        self.dtype = np.dtype(dtype)
        self.size = 0
        self._file = path.open("wb")
        self._file.seek(self.HEADER)

    def write(self, values: npt.NDArray[Any]) -> None:
        data = np.ascontiguousarray(values, dtype=self.dtype)
        self._file.write(data.data)
        self.size += data.size

    def truncate(self, size: int) -> None:
        """Drop everything from element ``size`` on."""
        self._file.truncate(self._file.seek(self.HEADER + size * self.dtype.itemsize))
        self.size = size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._file as f:
            if kind is None:
                f.seek(0)
                f.write(self._header())
                f.flush()
                os.fsync(f.fileno())

    def _header(self) -> bytes:
        """NumPy's format 1.0, padded to HEADER bytes."""
        magic = np.lib.format.magic(1, 0)
        about = (
            f"{{'descr': {self.dtype.str!r}, 'fortran_order': False, 'shape': ({self.size},), }}"
        )
        room = self.HEADER - len(magic) - 2
        return magic + room.to_bytes(2, "little") + about.ljust(room - 1).encode() + b"\n"


def digest(path: Path) -> str:
    """Of the size and the bytes; of a file above WHOLE bytes, of blocks spread evenly from its
    first to its last byte."""
    size = path.stat().st_size
    hasher = blake2b(str(size).encode(), digest_size=16)
    with path.open("rb") as f:
        if size <= WHOLE:
            while block := f.read(1 << 20):
                hasher.update(block)
        else:
            for i in range(SPOTS):
                f.seek((size - SPOT) * i // (SPOTS - 1))
                hasher.update(f.read(SPOT))
    return hasher.hexdigest()
