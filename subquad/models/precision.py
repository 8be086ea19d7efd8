"""Which arithmetic a machine is good at, and autocast for it."""

import contextlib
from contextlib import AbstractContextManager
from typing import Any, Literal

import torch

from subquad.models import arithmetic

Precision = Literal["auto", "fp32", "bf16"]


def device(name: str = "auto") -> torch.device:
    """``auto`` is CUDA where there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)


def native_bf16(on: torch.device) -> bool:
    """Whether the processor announces bf16 (AMX or AVX-512 BF16; CUDA from Ampere on)."""
    if on.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name, False) for name in ("amx_bf16", "avx512_bf16", "bf16"))


def resolve(precision: Precision, on: torch.device) -> Precision:
    """``auto`` → the faster of ``bf16`` and ``fp32``: fp32 where the processor does not announce
    bf16, bf16 on CUDA that does, and on other processors what was measured."""
    if precision != "auto":
        return precision
    if not native_bf16(on):
        return "fp32"
    return "bf16" if on.type == "cuda" or arithmetic.times().faster else "fp32"


def autocast(precision: Precision, on: torch.device) -> AbstractContextManager[Any]:
    """The context in which models run: matrix products in bf16, or everything as it is."""
    if precision == "bf16":
        return torch.autocast(on.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()
