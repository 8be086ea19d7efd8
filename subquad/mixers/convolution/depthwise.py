"""What causal depthwise convolutions share: a weighted sum over each channel's own past inputs at
arbitrary lags, and the state, which holds those inputs."""

from abc import abstractmethod
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from subquad.mixers.base import CausalMixer, State, zero_padding
from subquad.mixers.capabilities import EngineLayer
from subquad.mixers.convolution.engine import Local
from subquad.mixers.convolution.native import lagged_sum
from subquad.mixers.convolution.state import LastInputs
from subquad.mixers.native import core_serves_plainly
from subquad.shapes import Mask, Positions, Sequence


def convolve(
    x: Float[Tensor, "b _ d"], taps: Float[Tensor, "d w"], lags: Int[Tensor, "w"], past: int
) -> Sequence:
    """Σ_j W_j,c x_{i - lag_j},c for every i with at least ``past`` inputs before it, where ``past``
    is the largest lag: the output is ``past`` tokens shorter than ``x``."""
    if x.shape[1] <= past:
        return x[:, :0]
    if core_serves_plainly(x):
        return lagged_sum(x, taps, lags, past)
    oldest_first = dense(taps, lags, past).flip(2).to(x.dtype)
    return nn.functional.conv1d(x.mT, oldest_first, groups=x.shape[2]).mT


def dense(
    taps: Float[Tensor, "d w"], lags: Int[Tensor, "w"], past: int
) -> Float[Tensor, "d one all"]:
    """One tap for every lag from 0 to ``past``, newest first; zero where ``lags`` has none."""
    if len(lags) == past + 1:
        return taps.unsqueeze(1)
    places = (lags.unsqueeze(1) == torch.arange(past + 1, device=lags.device)).to(taps.dtype)
    return (taps @ places).unsqueeze(1)


def ranks_of(mask: Mask) -> Positions:
    """The position of each token once the real ones have been moved to the front, in order."""
    real = mask.sum(1, keepdim=True)
    return torch.where(mask, mask.cumsum(1), real + (~mask).cumsum(1)) - 1


def packed(x: Sequence, ranks: Positions) -> Sequence:
    return torch.zeros_like(x).scatter(1, ranks.unsqueeze(-1).expand_as(x), x)


def unpacked(y: Sequence, ranks: Positions) -> Sequence:
    return y.gather(1, ranks.unsqueeze(-1).expand_as(y))


class DepthwiseConvolution(CausalMixer):
    """y_i,c = Σ_j W_j,c x_{i - lag_j},c; subclasses define the taps and their lags."""

    local: ClassVar[bool] = True

    @abstractmethod
    def taps(self) -> Float[Tensor, "d w"]:
        """The weights W."""

    @abstractmethod
    def lags(self) -> tuple[int, ...]:
        """How many tokens back each tap reads, in increasing order."""

    @property
    def past(self) -> int:
        """How many previous inputs the state holds."""
        return self.lags()[-1]

    def every_tap(self) -> Float[Tensor, "d one all"]:
        """One tap for each of the last ``past + 1`` tokens, newest first."""
        return dense(self.taps(), torch.tensor(self.lags(), device=self.taps().device), self.past)

    def scan(
        self, x: Sequence, state: State | None = None, mask: Mask | None = None
    ) -> tuple[Sequence, LastInputs]:
        past = self.past
        wide = torch.promote_types(x.dtype, torch.float32)
        if state is None:
            state = LastInputs(x.new_zeros(x.shape[0], past, x.shape[2], dtype=wide))
        if not isinstance(state, LastInputs) or state.inputs.shape[1] != past:
            raise TypeError(
                f"a convolution of width {past + 1} continues its own LastInputs state, "
                f"not {type(state).__name__}"
            )
        ranks = None if mask is None else ranks_of(mask)
        x = zero_padding(x, mask)
        row = x if ranks is None else packed(x, ranks)
        seen = torch.cat([state.inputs, row.to(wide)], dim=1)
        lags = torch.tensor(self.lags(), device=x.device)
        y = convolve(seen.to(x.dtype), self.taps(), lags, past)
        if mask is None or ranks is None:
            return y, LastInputs(seen[:, seen.shape[1] - past :].clone())
        last = mask.sum(1, keepdim=True) + torch.arange(past, device=x.device)
        after = seen.gather(1, last.unsqueeze(-1).expand(-1, -1, x.shape[2]))
        return zero_padding(unpacked(y, ranks), mask), LastInputs(after)

    def engine_layer(self) -> EngineLayer:
        return Local(self.every_tap(), self.past)
