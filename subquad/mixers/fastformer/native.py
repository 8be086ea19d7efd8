"""The pooling of additive attention by the C++ core, on the CPU, in one pass over the sequence."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Form = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def additive_pool(x: Tensor, weight: Tensor, mask: Tensor | None, form: Form) -> Tensor:
    """Σ_i softmax_i(W x_i) x_i.

    Args:
        x: ``[b, t, d]``, with any strides.
        weight: the score vectors W ``[b, h, d]``, including the scale.
        mask: ``[b, t]``, True at real tokens, or None.
        form: the same function in torch, used for second derivatives.

    Returns:
        ``[b, 1, d]`` in the dtype of the sums; zeros for a sequence without real tokens.
    """
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
        if torch.is_grad_enabled():  # the gradient will be differentiated again
            # Views, so that x and weight are separate inputs even if one came from the other.
            own = [a.view_as(a) for a in (x, weight)]
            made = ctx.form(*own, mask).squeeze(1)
            wanted = [a for a in own if a.requires_grad]
            found = iter(torch.autograd.grad(made, wanted, dy, create_graph=True))
            return *(next(found) if a.requires_grad else None for a in own), None, None
        w = _rows(weight.to(wide(x.dtype)))
        dx, dweight = run_pool_backward(dy.contiguous(), x, w, mask, y, log_sum)
        return dx, dweight.to(weight.dtype), None, None


def _rows(weight: Tensor) -> Tensor:
    """``weight`` with contiguous rows; the rows may have any stride, including zero."""
    return weight if weight.stride(2) == 1 else weight.contiguous()
