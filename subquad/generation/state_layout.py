"""Conversion between the step engine's state of one sequence and the states of torch's mixers.

``kernels/csrc/model.h`` (``state_begins``) defines the layout; each layer knows its own part of it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from subquad.mixers import State
from subquad.mixers.capabilities import EngineLayer


@dataclass(frozen=True)
class StateLayout:
    """Where the state of each layer lies within the engine's state of a sequence."""

    layers: tuple[EngineLayer, ...]

    def _parts(self, floats: Float[Tensor, "n"]) -> Iterator[Tensor]:
        """A view of each layer's part."""
        at = 0
        for layer in self.layers:
            size = math.prod(layer.shape())
            yield floats[at : at + size].view(layer.shape())
            at += size

    def read(self, streams: list[tuple[Float[Tensor, "n"], int]]) -> tuple[State, ...]:
        """The mixers' states, batched over the streams, each given as (engine state, position)."""
        positions = [position for _, position in streams]
        each = zip(*(self._parts(floats.clone()) for floats, _ in streams), strict=True)
        return tuple(
            layer.read(parts, positions) for layer, parts in zip(self.layers, each, strict=True)
        )

    def write(
        self, floats: Float[Tensor, "n"], states: tuple[State, ...], row: int, position: int
    ) -> None:
        """Write ``row`` of ``states`` into the engine state ``floats`` of a stream."""
        parts = self._parts(floats)
        for layer, part, state in zip(self.layers, parts, states, strict=True):
            layer.write(part, state, row, position)
