"""Loads the native core, or records why it is not in use. This is decided once, at import."""

import os
from dataclasses import dataclass
from importlib import import_module
from typing import Any

#: ``torch`` turns the native core off; the name of an instruction set selects that one.
VARIABLE = "SUBQUAD_KERNELS"


@dataclass(frozen=True)
class Status:
    """What ``subquad info`` reports about the native core."""

    #: True if the C++ kernels are in use, False if the pure-torch implementations are.
    native: bool
    #: ``avx512``, ``avx2`` or ``baseline`` (SSE2 or NEON); None without the native core.
    instruction_set: str | None
    #: ``openmp`` (torch's own threads) or ``threads``; None without the native core.
    threads: str | None
    #: Why the native core is not in use; None if it is.
    reason: str | None


def _load() -> tuple[Any, str | None]:
    """The extension module, or None and the reason."""
    import torch  # noqa: F401  the core uses torch's threads, so torch must be loaded first

    wanted = os.environ.get(VARIABLE, "")
    if wanted == "torch":
        return None, f"turned off by {VARIABLE}=torch"
    try:
        core = import_module("subquad.kernels._native")
    except ImportError as error:
        if error.name == "subquad.kernels._native":
            return None, "built without a C++ compiler"
        return None, f"the extension cannot be loaded: {error}"
    if wanted and not core.use(wanted):
        return None, f"{VARIABLE}={wanted}: this processor or build has no such instruction set"
    return core, None


CORE, REASON = _load()


def traced() -> bool:
    """Whether torch is tracing or intercepting calls: for a compiler, an exporter, fake tensors or
    a FLOP counter."""
    import torch

    return torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0


def status() -> Status:
    """Which kernels are in use, and why."""
    if CORE is None:
        return Status(native=False, instruction_set=None, threads=None, reason=REASON)
    return Status(native=True, instruction_set=CORE.isa(), threads=CORE.team(), reason=None)
