"""The step engine's memory of one stream, as the states of torch's mixers, and back.

The layout is told in ``kernels/csrc/model.h`` (``state_begins``); each layer knows its own part.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from subquad.mixers import State
from subquad.mixers.capabilities import EngineLayer


@dataclass(frozen=True)
class Memory:
    """Where each layer's state lies."""

    layers: tuple[EngineLayer, ...]

    def _parts(self, floats: Float[Tensor, "n"]) -> Iterator[Tensor]:
        """Each layer's part, as a view."""
        at = 0
        for layer in self.layers:
            size = math.prod(layer.shape())
            yield floats[at : at + size].view(layer.shape())
            at += size

    def read(self, streams: list[tuple[Float[Tensor, "n"], int]]) -> tuple[State, ...]:
        """States of the streams, each given by its memory and its position."""
        positions = [position for _, position in streams]
        each = zip(*(self._parts(floats.clone()) for floats, _ in streams), strict=True)
        return tuple(
            layer.read(parts, positions) for layer, parts in zip(self.layers, each, strict=True)
        )

    def write(
        self, floats: Float[Tensor, "n"], states: tuple[State, ...], row: int, position: int
    ) -> None:
        """Put ``row`` of ``states`` into a stream's memory."""
        parts = self._parts(floats)
        for layer, part, state in zip(self.layers, parts, states, strict=True):
            layer.write(part, state, row, position)
