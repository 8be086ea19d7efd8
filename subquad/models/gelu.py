"""GELU in its tanh approximation, computed by the native core where it is available: without
AVX-512, torch's version takes longer than the rest of a feed-forward layer's memory traffic."""

from torch import Tensor, nn

from subquad.mixers.native import core_serves_plainly
from subquad.models.gelu_native import gelu

#: Below this many elements, calling the core costs more than it saves.
LEAST = 16384


def tanh_gelu(x: Tensor) -> Tensor:
    """x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³))), any shape, in the dtype of ``x``."""
    return gelu(x) if _core_serves(x) else nn.functional.gelu(x, approximate="tanh")


def _core_serves(x: Tensor) -> bool:
    return core_serves_plainly(x) and x.numel() >= LEAST and x.is_contiguous()
