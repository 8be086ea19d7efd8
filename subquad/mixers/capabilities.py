"""What a mixer answers when others ask: what it weighs, and as what it runs outside torch.

Every question has a default in ``base``; a mixer with more to say overrides the method.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from subquad.mixers.state import State


@dataclass(frozen=True)
class Channel:
    """How the heads of one channel weigh tokens."""

    weights: Tensor
    """``[b, t, h]``: they add up to one over the row, and are zero at padding."""
    scores: Tensor
    """``[b, t, h]``: before they were divided among the row; what a token gets by itself."""

    @classmethod
    def of(cls, amounts: Tensor) -> "Channel":
        """Amounts ``[b, t, h]`` as parts of each row's sum; zeros where there is nothing."""
        total = amounts.sum(1, keepdim=True)
        return cls(amounts / total.masked_fill(total == 0, 1), amounts)


@dataclass(frozen=True)
class Features:
    """What is written to a state Σ φ(K) Vᵀ and read from it, ``[b, h, t, k]``; φ(K) and V are zero
    at padding."""

    phi_q: Tensor
    phi_k: Tensor
    v: Tensor


@dataclass(frozen=True)
class Explanation:
    """What a mixer makes of a row, as far as it can be shown."""

    channels: dict[str, Channel] = field(default_factory=dict)
    """The places where it weighs tokens, by name."""
    attention: Tensor | None = None
    """An attention map ``[b, h, reader, read]``."""
    features: Features | None = None
    frequencies: bool = False
    """It mixes frequencies: the spectrum of what comes to it is worth a look."""


#: What a mixer's graph is for: whole rows, many tokens after a state, one token after a state, or
#: the last two by a standard operator that the mixer names (``Mixer.onnx_operator``).
GraphForm = Literal["rows", "many", "one", "operator"]

#: The domain of an operator that torch's exporter does not know yet; the export moves it to ONNX's.
OPERATOR_DOMAIN = "subquad"


@dataclass(frozen=True)
class PageLayer:
    """A mixer as the code of a page computes it."""

    kind: str
    """Its function there."""
    options: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)
    """The page's name of each of its weights → the module that has it, as seen from the mixer."""


class EngineLayer(ABC):
    """A causal mixer as a layer of the step engine (``kernels/csrc/model.h``)."""

    kind: ClassVar[Literal["local", "attention"]]
    """The engine's two kinds of layers; local ones lie below all others."""

    @abstractmethod
    def settings(self) -> dict[str, int]:
        """What the engine has one number of, for all layers of the kind."""

    @abstractmethod
    def weights(self) -> Iterator[Tensor | nn.Linear]:
        """In the engine's order. Tensors stay fp32; those of a ``Linear`` are rounded as asked."""

    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Of the layer's part of a stream's memory, in numbers."""

    @abstractmethod
    def read(self, memories: Sequence[Tensor], positions: Sequence[int]) -> State:
        """The state of several streams, each given by its memory and its position."""

    @abstractmethod
    def write(self, memory: Tensor, state: State, row: int, position: int) -> None:
        """Put ``row`` of ``state`` into a stream's memory."""


def filled(n: int) -> int:
    """The engine keeps rows of ``n`` numbers in this many."""
    return -(-n // 16) * 16
