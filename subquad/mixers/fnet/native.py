"""Fourier and Hartley transforms of real rows from half of their spectrum, by the C++ core."""

from typing import Any

import torch
from torch import Tensor


def half_spectrum(x: Tensor, *, hartley: bool) -> Tensor:
    """Re X, or Re X - Im X with ``hartley``, where X is the DFT of ``x`` ``[b, t, d]`` (fp32 or
    fp64) over tokens and features. torch transforms the columns up to d/2; the core mirrors the
    rest, X[-i, -j] = conj X[i, j], and makes both real in one pass."""
    made: Tensor = _HalfSpectrum.apply(x, hartley)
    return made


class _HalfSpectrum(torch.autograd.Function):
    """Both matrices, of cos and of cos + sin of 2π(ij/t + kl/d), are symmetric: the gradient is the
    transform again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, hartley: bool) -> Tensor:
        from subquad.kernels.core_calls import run_unfold

        ctx.hartley = hartley
        half = torch.fft.rfftn(x, dim=(1, 2)).contiguous()
        return run_unfold(half, x.shape[2], hartley)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None]:
        return half_spectrum(dy, hartley=ctx.hartley), None
