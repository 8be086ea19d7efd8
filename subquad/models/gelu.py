"""GELU in its tanh form, by the native core where that serves: torch's own takes longer on a
processor without AVX-512 than the rest of a feed-forward layer's memory traffic."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

#: Below this many elements a call costs more than it saves.
LEAST = 16384


def tanh_gelu(x: Tensor) -> Tensor:
    """x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³))), any shape, in the dtype of ``x``."""
    if _core_serves(x):
        made: Tensor = _Gelu.apply(x)
        return made
    return nn.functional.gelu(x, approximate="tanh")


def _core_serves(x: Tensor) -> bool:
    """A large ordinary tensor on the CPU that nobody traces: compilers fuse torch's own form."""
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0:
        return False
    from subquad.kernels.loading import CORE

    return (
        (CORE is not None and x.numel() >= LEAST)
        and (x.device.type == "cpu" and x.is_contiguous() and type(x) is Tensor)
        and forward_ad._current_level < 0
        and not torch._C._functorch.is_functorch_wrapped_tensor(x)
        and x.is_floating_point()
    )


def _run(dout: Tensor | None, x: Tensor) -> Tensor:
    from subquad.kernels.ops import CORE, DTYPES, LARGE

    out = torch.empty_like(x)
    if out.nbytes >= LARGE:
        CORE.use_large_pages(out.data_ptr(), out.nbytes)
    above = 0 if dout is None else dout.data_ptr()
    threads = torch.get_num_threads()
    CORE.gelu(above, x.data_ptr(), out.data_ptr(), x.numel(), DTYPES[x.dtype], threads)
    return out


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return _run(None, x)

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        if torch.is_grad_enabled():  # to be differentiated again: torch's formula can be
            return torch.ops.aten.gelu_backward(dout, x, approximate="tanh")
        return _run(dout.contiguous(), x)
