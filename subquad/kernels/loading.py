"""Whether the native core is in use, and if not, why. Decided once, when this module is loaded."""

import os
from dataclasses import dataclass
from importlib import import_module
from typing import Any

#: ``torch`` turns the native core off; an instruction set's name asks for that one.
VARIABLE = "SUBQUAD_KERNELS"


@dataclass(frozen=True)
class Status:
    """What ``subquad info`` says about the native core."""

    #: True if the C++ kernels serve, False if the pure-torch forms do.
    native: bool
    #: ``avx512``, ``avx2`` or ``baseline`` (SSE2 or NEON); None without the native core.
    instruction_set: str | None
    #: ``openmp`` (torch's own team) or ``threads``; None without the native core.
    threads: str | None
    #: Why the native core is not in use; None where it is.
    reason: str | None


def _load() -> tuple[Any, str | None]:
    """The extension module, or None and the reason."""
    import torch  # noqa: F401  the core borrows torch's threads, so torch is loaded first

    wanted = os.environ.get(VARIABLE, "")
    if wanted == "torch":
        return None, f"turned off by {VARIABLE}=torch"
    try:
        core = import_module("subquad.kernels._native")
    except ImportError as error:
        if error.name == "subquad.kernels._native":
            return None, "built without a C++ compiler"
        return None, f"the extension does not load: {error}"
    if wanted and not core.use(wanted):
        return None, f"{VARIABLE}={wanted}: this processor or build has no such instruction set"
    return core, None


CORE, REASON = _load()


def traced() -> bool:
    """Whether torch watches what is called: a compiler, an exporter, a fake tensor, a counter."""
    import torch

    return torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0


def status() -> Status:
    """Which kernels serve, and why."""
    if CORE is None:
        return Status(native=False, instruction_set=None, threads=None, reason=REASON)
    return Status(native=True, instruction_set=CORE.isa(), threads=CORE.team(), reason=None)
