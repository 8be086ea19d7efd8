"""The size of a model, computed before any memory is allocated."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from subquad.errors import UsageError


@dataclass(frozen=True)
class Size:
    """``nbytes`` counts parameters and buffers."""

    parameters: int
    nbytes: int


def size_of(make: Callable[[], nn.Module]) -> Size:
    """The size of the model that ``make`` returns. It is built on torch's meta device, without
    allocating its weights or changing random states."""
    with torch.device("meta"):
        model = make()
    tensors = [*model.parameters(), *model.buffers()]
    parameters = sum(p.numel() for p in model.parameters())
    return Size(parameters, sum(t.numel() * t.element_size() for t in tensors))


def refuse_too_large(
    make: Callable[[], nn.Module], on: torch.device, *, copies: int = 1, holding: str = "weights"
) -> None:
    """Check that ``copies`` of a model fit into free memory; ``holding`` says what they are for.

    Raises:
        UsageError: they do not; the message gives the size, what is needed and what is free.
    """
    free = free_memory(on)
    size = size_of(make)
    needed = copies * size.nbytes
    if free is not None and needed > free:
        raise UsageError(
            f"this model is too large: {size.parameters:,} parameters need {_shown(needed)} for "
            f"{holding}, but only {_shown(free)} of memory are free; reduce --d, --ff, --layers or "
            "--vocabulary"
        )


def free_memory(on: torch.device) -> int | None:
    """Free memory of a device in bytes; None if the system does not report it."""
    if on.type == "cuda":
        return int(torch.cuda.mem_get_info(on)[0])
    found = [n for n in (_available(), _allowed()) if n is not None]
    return min(found, default=None)


def _available() -> int | None:
    """Available memory plus free swap on Linux; the total memory on other systems."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        kib = {name: int(rest.split()[0]) for name, _, rest in (x.partition(":") for x in lines)}
        return (kib["MemAvailable"] + kib.get("SwapFree", 0)) << 10
    except (OSError, ValueError, KeyError, IndexError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _allowed() -> int | None:
    """The memory limit of a container, if there is one."""
    try:
        return int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii"))
    except (OSError, ValueError):  # no container, or "max"
        return None


def _shown(size: int) -> str:
    for unit, shift in (("TiB", 40), ("GiB", 30), ("MiB", 20)):
        if size >= 1 << shift:
            return f"{size / (1 << shift):,.1f} {unit}"
    return f"{size:,} bytes"
