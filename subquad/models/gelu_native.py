"""GELU in its tanh approximation by the C++ core, on the CPU."""

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
        if torch.is_grad_enabled():  # torch's formula can be differentiated again
            return torch.ops.aten.gelu_backward(dout, x, approximate="tanh")
        return _run(x, dout.contiguous())
