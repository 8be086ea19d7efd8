"""Depthwise convolution: each channel is a weighted sum of its own last few values.

Wu, Fan, Baevski, Dauphin, Auli, "Pay Less Attention with Lightweight and Dynamic Convolutions",
ICLR 2019 (arXiv 1901.10430), section 2, without their projections. For channel c and w taps:

    causal          y_i,c = Σ_{j<w} W_c,j x_{i-j},c
    both ways       y_i,c = Σ_{j<w} W_c,j x_{i-j+⌊w/2⌋},c

(the paper numbers the taps from the other end). Each output depends on w tokens only. This is the
baseline for what local context can do on its own; and as the bottom layer it tells attention whose
weights are not sharp which token came just before. Cost: O(t·d·w); the state is the last w-1
inputs.
"""

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from subquad.mixers.base import Mixer, zero_padding
from subquad.mixers.capabilities import PageLayer
from subquad.mixers.convolution.depthwise import (
    DepthwiseConvolution,
    convolve,
    packed,
    ranks_of,
    unpacked,
)
from subquad.shapes import Mask, Sequence

#: Default number of taps.
WIDTH = 4


def _weights(d: int, width: int) -> nn.Parameter:
    """``[d, 1, w]`` as in torch, newest tap first, initialised so that the variance is preserved.

    Raises:
        ValueError: ``width`` is less than 1.
    """
    if width < 1:
        raise ValueError(f"width={width} must be at least 1")
    return nn.Parameter(torch.randn(d, 1, width) * width**-0.5)


class Convolution(Mixer):
    """Bidirectional: the same number of neighbours on both sides (one more ahead if ``width`` is
    even).

    Args:
        d: model width.
        width: number of taps, w.
    """

    local: ClassVar[bool] = True

    def __init__(self, d: int, *, width: int = WIDTH) -> None:
        super().__init__(d)
        self.weight = _weights(d, width)

    def forward(self, x: Sequence, mask: Mask | None = None) -> Sequence:
        x = zero_padding(x, mask)
        ranks = None if mask is None else ranks_of(mask)
        row = x if ranks is None else packed(x, ranks)
        width = self.weight.shape[2]
        around = (0, 0, width - 1 - width // 2, width // 2)
        lags = torch.arange(width, device=x.device)
        y = convolve(nn.functional.pad(row, around), self.weight[:, 0], lags, width - 1)
        return zero_padding(y if ranks is None else unpacked(y, ranks), mask)

    def page_layer(self) -> PageLayer:
        return PageLayer("convolution", parts={"taps": ""})


class CausalConvolution(DepthwiseConvolution):
    """Causal: the last ``width`` tokens, including the current one.

    Args:
        d: model width.
        width: number of taps, w.
    """

    def __init__(self, d: int, *, width: int = WIDTH) -> None:
        super().__init__(d)
        self.weight = _weights(d, width)

    def taps(self) -> Float[Tensor, "d w"]:
        return self.weight[:, 0]

    def lags(self) -> tuple[int, ...]:
        return tuple(range(self.weight.shape[2]))
