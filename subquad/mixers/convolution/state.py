"""What a depthwise convolution remembers."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from subquad.mixers.state import State


@dataclass(frozen=True)
class LastInputs(State):
    """The last w-1 real inputs, oldest first; zeros where there were fewer. fp32 (fp64 stays)."""

    inputs: Float[Tensor, "b past d"]
