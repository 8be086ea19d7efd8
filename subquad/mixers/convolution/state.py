"""The state of a depthwise convolution."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from subquad.mixers.state import State


@dataclass(frozen=True)
class LastInputs(State):
    """The last w-1 real inputs, oldest first, with zeros before the first one; fp32 (or fp64)."""

    inputs: Float[Tensor, "b past d"]
