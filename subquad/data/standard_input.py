"""Standard input as bytes, read without waiting for more than is needed."""

import codecs
import io
import select
import sys
from typing import BinaryIO, cast

from subquad.errors import SubquadError

#: What is said to those who want to read it, but have closed it.
CLOSED = "standard input is closed: there is nothing to be read"
#: Bytes read at a time.
BLOCK = 1 << 20


def stream() -> BinaryIO:
    """Raises:
    SubquadError: it is closed.
    """
    if sys.stdin is None:
        raise SubquadError(CLOSED)
    return sys.stdin.buffer


def is_silent() -> bool:
    """Whether nothing has come yet, nor the end."""
    try:
        return not select.select([stream()], [], [], 0)[0]
    except (OSError, ValueError):  # not a stream of the system's
        return False


def with_first_line() -> bytes:
    """What has come when the first line that is not blank is there. The stream's own buffer is
    left empty: what it held could not be seen from outside."""
    head = b""
    while block := stream().read1(BLOCK):  # type: ignore[attr-defined]
        head += block
        if b"\n" not in block:
            continue
        line, end, _ = head.removeprefix(codecs.BOM_UTF8).lstrip().partition(b"\n")
        if line and end:
            break
    return head


class Prefixed(io.RawIOBase):
    """Bytes already read, then the rest."""

    def __init__(self, head: bytes) -> None:
        self._head = head
        self._rest = stream()

    def read1(self, size: int) -> bytes:
        if self._head:
            out, self._head = self._head[:size], self._head[size:]
            return out
        return cast(bytes, self._rest.read1(size))  # type: ignore[attr-defined]
