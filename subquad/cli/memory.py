"""Allocator settings that keep freed memory in the process, for faster reuse."""

import ctypes
import os
import sys

#: glibc's mallopt(3): options and values.
_SETTINGS = {
    -4: 0,  # M_MMAP_MAX: allocate large blocks on the heap too
    -1: -1,  # M_TRIM_THRESHOLD: never return the top of the heap
    -2: 64 << 20,  # M_TOP_PAD: grow the heap by at least this many bytes
    -8: 1,  # M_ARENA_MAX: a single heap, so that threads can reuse each other's freed memory
}


def keep_freed_memory() -> bool:
    """Make the allocator keep freed memory; returns whether that succeeded.

    Every training step frees memory that the next one allocates again. By default glibc returns
    large blocks to the system, which then hands them out again page by page and clears each one:
    up to a fifth of the time of a step (LOG.md). Settings made by environment variables (MALLOC_*,
    GLIBC_TUNABLES) take precedence.
    """
    theirs = (
        any(name.startswith("MALLOC_") for name in os.environ) or "GLIBC_TUNABLES" in os.environ
    )
    if theirs or not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc has it, other libraries do not
    return mallopt is not None and all(mallopt(*setting) for setting in _SETTINGS.items())
