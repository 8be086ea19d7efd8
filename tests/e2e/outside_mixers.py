"""Two mixers that are not subquad's, as somebody else would write them: this file is copied into a
package of its own by ``test_outside``."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from subquad.mixers import CausalMixer, Entry, Mixer, State
from subquad.mixers.base import zero_padding
from subquad.mixers.capabilities import Channel, Explanation


class Mean(Mixer):
    """Every token reads the mean of its row. Args: ``d``; ``gain`` multiplies it."""

    def __init__(self, d, *, gain=1.0):
        super().__init__(d)
        self.out = nn.Linear(d, d)
        self.gain = gain

    def forward(self, x, mask=None):
        real = torch.ones_like(x[..., :1]) if mask is None else mask.unsqueeze(-1).to(x.dtype)
        mean = zero_padding(x, mask).sum(1, keepdim=True) / real.sum(1, keepdim=True).clamp(min=1)
        return zero_padding((self.gain * self.out(mean)).expand_as(x), mask)

    def operations(self, length):
        return float(length * self.d)


@dataclass(frozen=True)
class Total(State):
    total: Tensor
    count: Tensor


class RunningMean(CausalMixer):
    """The mean of what has been read, and of a token of its own before it, so that the state does
    not begin at zero. Args: ``d``; ``gain``; ``heads`` of the model, which it only checks."""

    def __init__(self, d, *, heads, gain=1.0):
        super().__init__(d)
        assert heads > 0
        self.out = nn.Linear(d, d)
        self.first = nn.Parameter(torch.ones(d))
        self.gain = gain

    def scan(self, x, state=None, mask=None):
        if state is None:
            start = self.first.float().expand(x.shape[0], -1)
            state = Total(start, torch.ones_like(start[:, :1]))
        if not isinstance(state, Total):
            raise TypeError(f"a running mean continues a Total, not {type(state).__name__}")
        real = torch.ones_like(x[..., :1]) if mask is None else mask.unsqueeze(-1).to(x.dtype)
        totals = zero_padding(x, mask).float().cumsum(1) + state.total.unsqueeze(1)
        counts = real.float().cumsum(1) + state.count.unsqueeze(1)
        y = zero_padding(self.gain * self.out((totals / counts).to(x.dtype)), mask)
        added = zero_padding(x, mask).float().sum(1)
        return y, Total(state.total + added, state.count + real.float().sum(1))

    def explain(self, x, mask=None):
        size = zero_padding(x, mask).norm(dim=-1, keepdim=True)
        return Explanation({"added to the mean": Channel.of(size)})


entry = Entry(Mean, RunningMean, "O(t·d)", "somebody 2026")
