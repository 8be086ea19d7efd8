"""GELU in its tanh form, by the native core where that serves: torch's own takes longer on a
processor without AVX-512 than the rest of a feed-forward layer's memory traffic."""

from typing import Any

import torch
from torch import Tensor, nn

from subquad.mixers.native import core_serves_plainly

#: Below this many elements a call costs more than it saves.
LEAST = 16384


def tanh_gelu(x: Tensor) -> Tensor:
    """x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³))), any shape, in the dtype of ``x``."""
    if _core_serves(x):
        made: Tensor = _Gelu.apply(x)
        return made
    return nn.functional.gelu(x, approximate="tanh")


def _core_serves(x: Tensor) -> bool:
    return core_serves_plainly(x) and x.numel() >= LEAST and x.is_contiguous()


def _run(x: Tensor, dout: Tensor | None = None) -> Tensor:
    from subquad.kernels.core_calls import run_gelu

    return run_gelu(x, dout)


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return _run(x)

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        if torch.is_grad_enabled():  # to be differentiated again: torch's formula can be
            return torch.ops.aten.gelu_backward(dout, x, approximate="tanh")
        return _run(x, dout.contiguous())
