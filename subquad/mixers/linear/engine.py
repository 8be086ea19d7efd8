"""Causal linear attention as a layer of the step engine."""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from subquad.mixers.capabilities import EngineLayer, filled
from subquad.mixers.linear.parts import LinearState
from subquad.mixers.projections import Projections
from subquad.mixers.state import State

#: The engine's numbering of feature maps.
_PHI = {"elu+1": 0, "relu": 1, "relu^2": 2, "softmax": 3}


class Attention(EngineLayer):
    """A stream's buffer is ``[h, k + 1, filled(k)]``: S, with Z as its last row."""

    kind: ClassVar[Literal["local", "attention"]] = "attention"

    def __init__(self, projections: Projections, phi: str) -> None:
        self.projections, self.phi = projections, phi
        self.heads = projections.heads
        self.k = projections.out.in_features // self.heads

    def settings(self) -> dict[str, int]:
        return {"heads": self.heads, "phi": _PHI[self.phi]}

    def weights(self) -> Iterator[Tensor | nn.Linear]:
        yield self.projections.qkv
        yield self.projections.out

    def shape(self) -> tuple[int, ...]:
        return self.heads, self.k + 1, filled(self.k)

    def read(self, memories: Sequence[Tensor], positions: Sequence[int]) -> State:  # noqa: ARG002
        both, k = torch.stack(list(memories)), self.k
        s, z = both[:, :, :k, :k].contiguous(), both[:, :, k, :k].contiguous()
        return LinearState(s=s, z=z)

    def write(self, memory: Tensor, state: State, row: int, position: int) -> None:  # noqa: ARG002
        assert isinstance(state, LinearState)
        memory[:, : self.k, : self.k] = state.s[row]
        memory[:, self.k, : self.k] = state.z[row]
