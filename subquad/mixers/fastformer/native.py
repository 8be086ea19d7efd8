"""The C++ core's form of additive attention's pooling, for the CPU: one pass over the sequence."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Form = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def additive_pool(x: Tensor, weight: Tensor, mask: Tensor | None, form: Form) -> Tensor:
    """Σ_i softmax_i(W x_i) x_i, ``[b, 1, d]`` in the width of the sums, of ``x`` ``[b, t, d]`` (any
    strides) and score vectors ``weight`` ``[b, h, d]``, scaled; zero for an empty row. ``form`` is
    the same by torch, for the gradients of gradients."""
    made: Tensor = _Pool.apply(x, weight, mask, form)
    return made.unsqueeze(1)


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, mask: Tensor | None, form: Form) -> Tensor:
        from subquad.kernels.core_calls import run_pool, wide

        y, log_sum = run_pool(x, _rows(weight.to(wide(x.dtype))), mask)
        ctx.save_for_backward(x, weight, mask, y, log_sum)
        ctx.form = form
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        from subquad.kernels.core_calls import run_pool_backward, wide

        x, weight, mask, y, log_sum = ctx.saved_tensors
        if torch.is_grad_enabled():  # to be differentiated again
            # Under names of their own, for the weights may have been made from x.
            own = [a.view_as(a) for a in (x, weight)]
            made = ctx.form(*own, mask).squeeze(1)
            wanted = [a for a in own if a.requires_grad]
            found = iter(torch.autograd.grad(made, wanted, dy, create_graph=True))
            return *(next(found) if a.requires_grad else None for a in own), None, None
        w = _rows(weight.to(wide(x.dtype)))
        dx, dweight = run_pool_backward(dy.contiguous(), x, w, mask, y, log_sum)
        return dx, dweight.to(weight.dtype), None, None


def _rows(weight: Tensor) -> Tensor:
    """With no gaps in a row; rows may lie anywhere, or be one and the same."""
    return weight if weight.stride(2) == 1 else weight.contiguous()
