"""A depthwise convolution as a layer of the step engine."""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from subquad.mixers.capabilities import EngineLayer, filled
from subquad.mixers.convolution.state import LastInputs
from subquad.mixers.state import State


class Local(EngineLayer):
    """A stream's buffer is ``[taps, filled(d)]``, a ring buffer of the last inputs: each is stored
    at its position modulo the number of taps."""

    kind: ClassVar[Literal["local", "attention"]] = "local"

    def __init__(self, every_tap: Float[Tensor, "d one all"], past: int) -> None:
        self.every_tap, self.taps = every_tap, past + 1

    def settings(self) -> dict[str, int]:
        return {"taps": self.taps}

    def weights(self) -> Iterator[Tensor | nn.Linear]:
        yield from self.every_tap.flatten(1).T.contiguous()

    def shape(self) -> tuple[int, ...]:
        return self.taps, filled(len(self.every_tap))

    def _slots(self, position: int) -> Tensor:
        """Rows of the last ``taps - 1`` inputs, oldest first."""
        return torch.arange(position - self.taps + 1, position).remainder(self.taps)

    def read(self, memories: Sequence[Tensor], positions: Sequence[int]) -> State:
        d, each = len(self.every_tap), zip(memories, positions, strict=True)
        return LastInputs(torch.stack([m[self._slots(p), :d] for m, p in each]))

    def write(self, memory: Tensor, state: State, row: int, position: int) -> None:
        assert isinstance(state, LastInputs)
        memory[self._slots(position), : len(self.every_tap)] = state.inputs[row]
