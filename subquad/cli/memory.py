"""Memory that was freed stays with the process instead of going back to the system."""

import ctypes
import os
import sys

#: glibc's mallopt(3): options and values.
_SETTINGS = {
    -4: 0,  # M_MMAP_MAX: large blocks come from the heap too,
    -1: -1,  # M_TRIM_THRESHOLD: whose top is never given back,
    -2: 64 << 20,  # M_TOP_PAD: and which grows by so many bytes at least;
    -8: 1,  # M_ARENA_MAX: one heap, for what each thread keeps to itself is lost to the others
}


def keep_freed_memory() -> bool:
    """Ask the allocator to keep what is freed; true where it will.

    Every step of a training frees what the next one allocates again. By default glibc returns
    large blocks to the system, which hands them back a page at a time, each cleared first: up
    to a fifth of a step (LOG.md). Whoever has set the allocator up by its own variables has the
    last word.
    """
    theirs = (
        any(name.startswith("MALLOC_") for name in os.environ) or "GLIBC_TUNABLES" in os.environ
    )
    if theirs or not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc has it, other libraries do not
    return mallopt is not None and all(mallopt(*setting) for setting in _SETTINGS.items())
