"""The C++ core's GELU in its tanh form, for the CPU."""

from typing import Any

import torch
from torch import Tensor


def gelu(x: Tensor) -> Tensor:
    """GELU of a contiguous tensor of any shape, in the dtype of ``x``."""
    made: Tensor = _Gelu.apply(x)
    return made


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
