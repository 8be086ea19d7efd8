"""Chooses the device and the precision (fp32 or bf16), and provides autocast."""

import contextlib
from contextlib import AbstractContextManager
from typing import Any, Literal

import torch

from subquad.models import arithmetic

Precision = Literal["auto", "fp32", "bf16"]


def device(name: str = "auto") -> torch.device:
    """``auto`` is CUDA if available, otherwise the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)


def native_bf16(on: torch.device) -> bool:
    """Whether the processor advertises bf16 (AMX or AVX-512 BF16; CUDA from Ampere on)."""
    if on.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name, False) for name in ("amx_bf16", "avx512_bf16", "bf16"))


def resolve(precision: Precision, on: torch.device) -> Precision:
    """Resolve ``auto``: fp32 if the processor does not advertise bf16; otherwise bf16 on CUDA, and
    on the CPU whichever was measured to be faster."""
    if precision != "auto":
        return precision
    if not native_bf16(on):
        return "fp32"
    return "bf16" if on.type == "cuda" or arithmetic.times().faster else "fp32"


def autocast(precision: Precision, on: torch.device) -> AbstractContextManager[Any]:
    """The context in which models run: autocast to bf16, or no change."""
    if precision == "bf16":
        return torch.autocast(on.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()
