"""The step engine's memory of one stream, as the states of torch's mixers, and back.

The layout is told in ``kernels/csrc/model.h`` (``state_begins``).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from subquad.mixers.base import State
from subquad.mixers.convolution import LastInputs
from subquad.mixers.linear_parts import LinearState


def filled(n: int) -> int:
    """A row of ``n`` numbers takes this many."""
    return -(-n // 16) * 16


@dataclass(frozen=True)
class Memory:
    """Where each layer's state lies."""

    layers: int
    local: int
    """Bottom layers that are convolutions."""
    taps: int
    d: int
    heads: int

    @classmethod
    def of(cls, spec: tuple[int | float, ...]) -> "Memory":
        """The memory of a model whose ``Spec`` this is."""
        layers, d, heads, *_, local, taps, _ = spec
        return cls(int(layers), int(local), int(taps), int(d), int(heads))

    def _layers(self, floats: Float[Tensor, "n"]) -> list[Tensor]:
        """Views: ``[taps, row(d)]`` of a convolution, ``[h, k + 1, row(k)]`` of attention, Z
        below S."""
        k = self.d // self.heads
        views, at = [], 0
        for i in range(self.layers):
            local = i < self.local
            shape = (self.taps, filled(self.d)) if local else (self.heads, k + 1, filled(k))
            size = torch.Size(shape).numel()
            views.append(floats[at : at + size].view(shape))
            at += size
        return views

    def _slots(self, position: int) -> Tensor:
        """Rows of the last ``taps - 1`` inputs, oldest first."""
        return torch.arange(position - self.taps + 1, position).remainder(self.taps)

    def read(self, streams: list[tuple[Float[Tensor, "n"], int]]) -> tuple[State, ...]:
        """States of the streams, each given by its memory and its position."""
        k = self.d // self.heads
        each = [self._layers(floats.clone()) for floats, _ in streams]
        states: list[State] = []
        for i in range(self.layers):
            if i < self.local:
                inputs = [
                    views[i][self._slots(position), : self.d]
                    for views, (_, position) in zip(each, streams, strict=True)
                ]
                states.append(LastInputs(torch.stack(inputs)))
            else:
                both = torch.stack([views[i] for views in each])
                s, z = both[:, :, :k, :k].contiguous(), both[:, :, k, :k].contiguous()
                states.append(LinearState(s=s, z=z))
        return tuple(states)

    def write(
        self, floats: Float[Tensor, "n"], states: tuple[State, ...], row: int, position: int
    ) -> None:
        """Put ``row`` of ``states`` into a stream's memory."""
        k = self.d // self.heads
        for view, state in zip(self._layers(floats), states, strict=True):
            if isinstance(state, LastInputs):
                view[self._slots(position), : self.d] = state.inputs[row]
            else:
                assert isinstance(state, LinearState)
                view[:, :k, :k] = state.s[row]
                view[:, k, :k] = state.z[row]
