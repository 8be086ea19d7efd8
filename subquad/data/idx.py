"""IDX, the format of the MNIST files: a magic number, the dimensions, the bytes."""

import struct
from math import prod
from pathlib import Path

import numpy as np
import numpy.typing as npt

from subquad.data.files import ByteFile, blocks
from subquad.errors import SubquadError

_UNSIGNED_BYTE = 0x08
_TYPES = (0x08, 0x09, 0x0B, 0x0C, 0x0D, 0x0E)


def is_idx(file: ByteFile) -> bool:
    """Whether the first four bytes are IDX's: 0, 0, a type, a number of dimensions."""
    magic = file.head()[:4]
    return len(magic) == 4 and magic[:2] == b"\0\0" and magic[2] in _TYPES and 0 < magic[3] < 9


def read(file: ByteFile, *, what: str, dimensions: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """The whole array.

    Raises:
        SubquadError: another format, type or number of dimensions than wanted; bytes are missing
            or left over.
    """
    with file.open() as stream:
        data = bytearray().join(blocks(stream, file.path))
    if len(data) < 4 or not is_idx(file):
        raise SubquadError(f"{file.path} is not an IDX file: it begins with {data[:4].hex(' ')}")
    kind, rank = data[2], data[3]
    if kind != _UNSIGNED_BYTE:
        raise SubquadError(f"{file.path} holds IDX type 0x{kind:02X}; unsigned bytes (0x08) only")
    if rank not in dimensions:
        wanted = " or ".join(map(str, dimensions))
        raise SubquadError(f"{file.path} has {rank} dimension(s) where {what} have {wanted}")
    start = 4 + 4 * rank
    if len(data) < start:
        raise SubquadError(f"{file.path} is cut short in its header")
    shape = struct.unpack_from(f">{rank}I", data, 4)
    if len(data) != start + prod(shape):
        raise SubquadError(
            f"{file.path} says {' × '.join(map(str, shape))} = {prod(shape):,} bytes and holds "
            f"{len(data) - start:,}: it is cut short or damaged"
        )
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(shape)


def labels_beside(path: Path) -> Path | None:
    """The file of the labels by the usual naming: ``images-idx3`` → ``labels-idx1``."""
    if "images" not in path.name:
        return None
    name = path.name.replace("images", "labels").replace("idx3", "idx1")
    plain = name.removesuffix(".gz")
    found = (path.with_name(n) for n in (name, plain, plain + ".gz"))
    return next((p for p in found if p.exists()), None)
