"""Depthwise convolution: each channel is a weighted sum of its own last values, nothing more.

Wu, Fan, Baevski, Dauphin, Auli, "Pay Less Attention with Lightweight and Dynamic Convolutions",
ICLR 2019 (arXiv 1901.10430), section 2, without their projections. For channel c and w taps:

    causal          y_i,c = Σ_{j<w} W_c,j x_{i-j},c
    both ways       y_i,c = Σ_{j<w} W_c,j x_{i-j+⌊w/2⌋},c

(their taps are numbered from the other end). It sees w tokens and no more, whatever they are: the
baseline for how far neighbours alone go, and as a bottom layer it tells attention without sharp
weights which token came just before. Cost: O(t·d·w); the state is the last w-1 inputs.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from subquad.mixers.base import CausalMixer, Mixer, State, zero_padding
from subquad.mixers.convolution_native import lagged_sum
from subquad.mixers.native import core_serves_plainly
from subquad.shapes import Mask, Positions, Sequence

#: Taps, where nothing is said.
WIDTH = 4


@dataclass(frozen=True)
class LastInputs(State):
    """The last w-1 real inputs, oldest first; zeros where there were fewer. fp32 (fp64 stays)."""

    inputs: Float[Tensor, "b past d"]


def _weights(d: int, width: int) -> nn.Parameter:
    """``[d, 1, w]`` as torch has them, newest tap first, with the variance that keeps an input's.

    Raises:
        ValueError: no tap at all.
    """
    if width < 1:
        raise ValueError(f"width={width} must be at least 1")
    return nn.Parameter(torch.randn(d, 1, width) * width**-0.5)


def convolve(
    x: Float[Tensor, "b _ d"], taps: Float[Tensor, "d w"], lags: Int[Tensor, "w"], past: int
) -> Sequence:
    """Σ_j W_j,c x_{i - lag_j},c for every i that has ``past`` inputs before it, the greatest of the
    ``lags``: so many fewer than ``x`` has."""
    if x.shape[1] <= past:
        return x[:, :0]
    if core_serves_plainly(x):
        return lagged_sum(x, taps, lags, past)
    oldest_first = dense(taps, lags, past).flip(2).to(x.dtype)
    return nn.functional.conv1d(x.mT, oldest_first, groups=x.shape[2]).mT


def dense(
    taps: Float[Tensor, "d w"], lags: Int[Tensor, "w"], past: int
) -> Float[Tensor, "d one all"]:
    """A tap for every lag up to ``past``, newest first; zero where there is none."""
    if len(lags) == past + 1:
        return taps.unsqueeze(1)
    places = (lags.unsqueeze(1) == torch.arange(past + 1, device=lags.device)).to(taps.dtype)
    return (taps @ places).unsqueeze(1)


def _ranks(mask: Mask) -> Positions:
    """Where each token goes when the real ones move to the front of their row, all in order."""
    real = mask.sum(1, keepdim=True)
    return torch.where(mask, mask.cumsum(1), real + (~mask).cumsum(1)) - 1


def _packed(x: Sequence, ranks: Positions) -> Sequence:
    return torch.zeros_like(x).scatter(1, ranks.unsqueeze(-1).expand_as(x), x)


def _unpacked(y: Sequence, ranks: Positions) -> Sequence:
    return y.gather(1, ranks.unsqueeze(-1).expand_as(y))


class Convolution(Mixer):
    """The same number of neighbours on both sides (of an even ``width``, one more ahead).

    Args: ``d`` width of the model; ``width`` taps w.
    """

    local: ClassVar[bool] = True

    def __init__(self, d: int, *, width: int = WIDTH) -> None:
        super().__init__()
        self.weight = _weights(d, width)

    def forward(self, x: Sequence, mask: Mask | None = None) -> Sequence:
        x = zero_padding(x, mask)
        ranks = None if mask is None else _ranks(mask)
        packed = x if ranks is None else _packed(x, ranks)
        width = self.weight.shape[2]
        around = (0, 0, width - 1 - width // 2, width // 2)
        lags = torch.arange(width, device=x.device)
        y = convolve(nn.functional.pad(packed, around), self.weight[:, 0], lags, width - 1)
        return zero_padding(y if ranks is None else _unpacked(y, ranks), mask)


class CausalConvolution(CausalMixer):
    """The last ``width`` tokens, the present one among them.

    Args: ``d`` width of the model; ``width`` taps w.
    """

    local: ClassVar[bool] = True

    def __init__(self, d: int, *, width: int = WIDTH) -> None:
        super().__init__()
        self.weight = _weights(d, width)

    def taps(self) -> Float[Tensor, "d w"]:
        """W."""
        return self.weight[:, 0]

    def lags(self) -> tuple[int, ...]:
        """How many tokens back each tap reads, the least first."""
        return tuple(range(self.weight.shape[2]))

    @property
    def past(self) -> int:
        """Tokens before the present one that are kept."""
        return self.lags()[-1]

    def every_tap(self) -> Float[Tensor, "d one all"]:
        """A tap for each of the last ``past + 1`` tokens, newest first."""
        return dense(self.taps(), torch.tensor(self.lags(), device=self.weight.device), self.past)

    def scan(
        self, x: Sequence, state: State | None = None, mask: Mask | None = None
    ) -> tuple[Sequence, LastInputs]:
        past = self.past
        wide = torch.promote_types(x.dtype, torch.float32)
        if state is None:
            state = LastInputs(x.new_zeros(x.shape[0], past, x.shape[2], dtype=wide))
        if not isinstance(state, LastInputs) or state.inputs.shape[1] != past:
            raise TypeError(
                f"a convolution of width {past + 1} continues its own LastInputs, "
                f"not {type(state).__name__}"
            )
        ranks = None if mask is None else _ranks(mask)
        x = zero_padding(x, mask)
        packed = x if ranks is None else _packed(x, ranks)
        seen = torch.cat([state.inputs, packed.to(wide)], dim=1)
        lags = torch.tensor(self.lags(), device=x.device)
        y = convolve(seen.to(x.dtype), self.taps(), lags, past)
        if mask is None or ranks is None:
            return y, LastInputs(seen[:, seen.shape[1] - past :].clone())
        last = mask.sum(1, keepdim=True) + torch.arange(past, device=x.device)
        after = seen.gather(1, last.unsqueeze(-1).expand(-1, -1, x.shape[2]))
        return zero_padding(_unpacked(y, ranks), mask), LastInputs(after)
