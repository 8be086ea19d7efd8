"""Fourier and Hartley transforms of real input from half of its spectrum, by the C++ core."""

from typing import Any

import torch
from torch import Tensor


def half_spectrum(x: Tensor, *, hartley: bool) -> Tensor:
    """Re X, or Re X - Im X with ``hartley``, where X is the DFT of ``x`` ``[b, t, d]`` (fp32 or
    fp64) over tokens and features. torch computes the columns up to d/2; the core fills in the
    rest by symmetry, X[-i, -j] = conj X[i, j], and takes the real values in the same pass."""
    made: Tensor = _HalfSpectrum.apply(x, hartley)
    return made


class _HalfSpectrum(torch.autograd.Function):
    """Both matrices, cos and cos + sin of 2π(ij/t + kl/d), are symmetric, so that the gradient is
    the same transform again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, hartley: bool) -> Tensor:
        from subquad.kernels.core_calls import run_unfold

        ctx.hartley = hartley
        half = torch.fft.rfftn(x, dim=(1, 2)).contiguous()
        return run_unfold(half, x.shape[2], hartley)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None]:
        return half_spectrum(dy, hartley=ctx.hartley), None
