"""What a mixer can tell about itself: which tokens it attends to, and how it runs outside torch.

Each of these has a default in ``base``; a mixer overrides the methods that apply to it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from subquad.mixers.state import State


@dataclass(frozen=True)
class Channel:
    """The weights that each head gives to the tokens of a sequence."""

    weights: Tensor
    """``[b, t, h]``: they sum to one over the sequence and are zero at padding."""
    scores: Tensor
    """``[b, t, h]``: the same before normalisation over the sequence."""

    @classmethod
    def of(cls, amounts: Tensor) -> "Channel":
        """Non-negative amounts ``[b, t, h]``, normalised over each sequence; zeros if all are."""
        total = amounts.sum(1, keepdim=True)
        return cls(amounts / total.masked_fill(total == 0, 1), amounts)


@dataclass(frozen=True)
class Features:
    """What is written to and read from a state Σ φ(K) Vᵀ, ``[b, h, t, k]``; φ(K) and V are zero at
    padding."""

    phi_q: Tensor
    phi_k: Tensor
    v: Tensor


@dataclass(frozen=True)
class Explanation:
    """What can be shown of how a mixer treats a sequence."""

    channels: dict[str, Channel] = field(default_factory=dict)
    """Each place where the mixer weights tokens, by name."""
    attention: Tensor | None = None
    """An attention map ``[b, h, query, key]``."""
    features: Features | None = None
    frequencies: bool = False
    """The mixer works on frequencies, so that the spectrum of its input is worth plotting."""


#: What an exported graph of a mixer computes: whole sequences, many tokens continuing a state, one
#: token continuing a state, or both of these with a standard operator (``Mixer.onnx_operator``).
GraphForm = Literal["rows", "many", "one", "operator"]

#: A placeholder domain for operators that torch's exporter does not support yet; the export then
#: moves them to ONNX's own domain.
OPERATOR_DOMAIN = "subquad"


@dataclass(frozen=True)
class PageLayer:
    """A mixer as an exported web page computes it."""

    kind: str
    """The JavaScript function that computes it."""
    options: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)
    """The page's name for each weight → the submodule of the mixer that holds it."""


class EngineLayer(ABC):
    """A causal mixer as a layer of the step engine (``kernels/csrc/model.h``)."""

    kind: ClassVar[Literal["local", "attention"]]
    """The engine has two kinds of layers; all local layers come below the others."""

    @abstractmethod
    def settings(self) -> dict[str, int]:
        """Settings that the engine shares between all layers of this kind."""

    @abstractmethod
    def weights(self) -> Iterator[Tensor | nn.Linear]:
        """In the engine's order. Plain tensors stay fp32; ``Linear`` weights may be quantised."""

    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of this layer's part of a stream's state buffer."""

    @abstractmethod
    def read(self, memories: Sequence[Tensor], positions: Sequence[int]) -> State:
        """The state of several streams, from their buffers and positions."""

    @abstractmethod
    def write(self, memory: Tensor, state: State, row: int, position: int) -> None:
        """Write row ``row`` of ``state`` to a stream's buffer."""


def filled(n: int) -> int:
    """``n`` rounded up to a multiple of 16: the engine pads rows of ``n`` numbers to this size."""
    return -(-n // 16) * 16
