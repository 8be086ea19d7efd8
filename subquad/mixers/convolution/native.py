"""Depthwise convolution by the C++ core, on the CPU: several times as fast as torch for the
gradient of the taps, and faster still where the taps are far apart (LOG.md)."""

from typing import Any

import torch
from torch import Tensor


def lagged_sum(x: Tensor, taps: Tensor, lags: Tensor, past: int) -> Tensor:
    """y_i,c = Σ_j W_c,j x_{past + i - lag_j},c, accumulated in fp32 or wider.

    Args:
        x: ``[b, t, d]``, with any strides.
        taps: ``[d, w]``.
        lags: int64 ``[w]``, each from 0 to ``past``.
        past: the largest lag.

    Returns:
        ``[b, t - past, d]``.
    """
    made: Tensor = _Sum.apply(x, taps, past - lags, x.shape[1] - past)
    return made


class _Sum(torch.autograd.Function):
    """y_i,c = Σ_j W_c,j x_{i + o_j},c, with x zero outside its range; differentiable any number of
    times."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, taps: Tensor, offsets: Tensor, made: int) -> Tensor:
        from subquad.kernels.core_calls import run_lagged, wide

        ctx.save_for_backward(x, taps, offsets)
        return run_lagged(x, taps.T.to(wide(x.dtype)).contiguous(), offsets, made)

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        x, taps, offsets = ctx.saved_tensors
        wants_x, wants_taps, *_ = ctx.needs_input_grad
        dx = _Sum.apply(dout, taps, -offsets, x.shape[1]) if wants_x else None
        dtaps = _TapGradient.apply(x, dout, offsets).to(taps.dtype) if wants_taps else None
        return dx, dtaps, None, None


class _TapGradient(torch.autograd.Function):
    """dW_c,j = Σ_b Σ_i dy_b,i,c x_b,i+o_j,c: ``[d, w]``, in the dtype of the sums."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dout: Tensor, offsets: Tensor) -> Tensor:
        from subquad.kernels.core_calls import run_lagged_weight

        ctx.save_for_backward(x, dout, offsets)
        return run_lagged_weight(x, dout, offsets).T

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        x, dout, offsets = ctx.saved_tensors
        wants_x, wants_dout, _ = ctx.needs_input_grad
        dx = _Sum.apply(dout, above, -offsets, x.shape[1]) if wants_x else None
        ddout = _Sum.apply(x, above, offsets, dout.shape[1]) if wants_dout else None
        return dx, ddout, None
