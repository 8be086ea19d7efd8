"""How large a model is, known before any memory is asked for."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from subquad.errors import UsageError


@dataclass(frozen=True)
class Size:
    """``nbytes`` are those of parameters and buffers."""

    parameters: int
    nbytes: int


def size_of(make: Callable[[], nn.Module]) -> Size:
    """The size of the model that ``make`` makes, which is made without its numbers: on torch's meta
    device. Random states are left alone."""
    with torch.device("meta"):
        model = make()
    tensors = [*model.parameters(), *model.buffers()]
    parameters = sum(p.numel() for p in model.parameters())
    return Size(parameters, sum(t.numel() * t.element_size() for t in tensors))


def refuse_too_large(
    make: Callable[[], nn.Module], on: torch.device, *, copies: int = 1, holding: str = "weights"
) -> None:
    """Refuse a model of which ``copies`` do not fit into the memory that is free; ``holding`` says
    what they are.

    Raises:
        UsageError: with the model's size, what it needs and what there is.
    """
    free = free_memory(on)
    size = size_of(make)
    needed = copies * size.nbytes
    if free is not None and needed > free:
        raise UsageError(
            f"this model is too large: {size.parameters:,} parameters need {_shown(needed)} for "
            f"{holding}, and {_shown(free)} of memory are free here; make it smaller by --d, --ff, "
            "--layers or --vocabulary"
        )


def free_memory(on: torch.device) -> int | None:
    """Bytes that can still be had on a device; None where the system does not tell."""
    if on.type == "cuda":
        return int(torch.cuda.mem_get_info(on)[0])
    found = [n for n in (_available(), _allowed()) if n is not None]
    return min(found, default=None)


def _available() -> int | None:
    """What Linux can give without swapping, and its free swap; elsewhere all there is."""
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
    """What a container may have."""
    try:
        return int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii"))
    except (OSError, ValueError):  # no container, or "max"
        return None


def _shown(size: int) -> str:
    for unit, shift in (("TiB", 40), ("GiB", 30), ("MiB", 20)):
        if size >= 1 << shift:
            return f"{size / (1 << shift):,.1f} {unit}"
    return f"{size:,} bytes"
