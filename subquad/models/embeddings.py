"""Embeddings of tokens or frames, with positional encoding. Positions count *real* tokens, so that
padding does not shift them."""

import math
from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from subquad.models.config import ModelConfig
from subquad.models.dropout import Dropout
from subquad.models.norms import make_norm
from subquad.shapes import Mask, Positions, Sequence, Tokens


def real_positions(tokens: Tensor, mask: Mask | None) -> Positions:
    """The number of real tokens (or frames) before each one in its sequence, ``[b, t]`` (0 for
    leading padding); ``tokens`` is ``[b, t]`` or ``[b, t, f]``."""
    if mask is None:
        return torch.arange(tokens.shape[1], device=tokens.device).expand(tokens.shape[:2])
    return (mask.cumsum(1) - 1).clamp(min=0)


def sinusoid_rates(d: int) -> Float[Tensor, "half"]:
    """Frequency of each pair of sin and cos, in radians per token."""
    return torch.exp(torch.arange(0, d, 2) * (-math.log(10_000.0) / d))


def sinusoids(positions: Positions, d: int) -> Sequence:
    """sin and cos of position / 10000^(2i/d), interleaved (Vaswani et al. 2017, section 3.5)."""
    angle = positions.unsqueeze(-1) * sinusoid_rates(d).to(positions.device)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)[..., :d]


class FrontEnd(nn.Module, ABC):
    """The input layer: one vector per token or frame, plus embeddings of its position and type,
    then a norm (post-norm models, or ``embedding_norm``), FNet's projection (optional) and dropout.

    Args:
        config: the model's architecture.
        length: the maximum sequence length, for learned positions.
        name: attribute name of ``reading``.
        reading: the module that turns inputs into vectors.
    """

    def __init__(self, config: ModelConfig, length: int, name: str, reading: nn.Module) -> None:
        super().__init__()
        self.kind: str = config.placed().positions or "none"
        self.length = length
        #: Whether to check that positions are within range; False if a runtime does that.
        self.checked = True
        self.add_module(name, reading)  # first, because weights are initialised in this order
        self.positions = nn.Embedding(length, config.d) if self.kind == "learned" else None
        self.types = nn.Embedding(config.types, config.d) if config.types else None
        normed = config.norm == "post" or config.embedding_norm
        self.norm = make_norm(config) if normed else None
        self.projection = nn.Linear(config.d, config.d) if config.projection else None
        self.dropout = Dropout(config.dropout)

    @abstractmethod
    def vectors(self, inputs: Tensor) -> Sequence:
        """The vector of each token or frame, ``[b, t, d]``, without its position."""

    def forward(
        self, inputs: Tensor, positions: Positions, types: Tokens | None = None
    ) -> Sequence:
        """Embed ``inputs`` at ``positions`` ``[b, t]``. If ``types`` is None, all are of type 0.

        Returns:
            ``[b, t, d]``.

        Raises:
            ValueError: a position is beyond the learned ones (the message names both numbers), or
                types are given to a model without type embeddings.
        """
        if types is not None and self.types is None:
            raise ValueError("token types were given, but this model has none (types=0)")
        x = self.vectors(inputs)
        if self.positions is not None:
            if self.checked:
                self._check(positions)
            x = x + self.positions(positions)
        elif self.kind == "sinusoidal":
            x = x + sinusoids(positions, x.shape[-1]).to(x.dtype)
        if self.types is not None:
            x = x + (self.types.weight[0] if types is None else self.types(types))
        if self.norm is not None:
            x = self.norm(x)
        if self.projection is not None:
            # Back from autocast's half precision, in which the residual stream would lose updates.
            x = self.projection(x).to(x.dtype)
        out: Sequence = self.dropout(x)
        return out

    def _check(self, positions: Positions) -> None:
        if torch.compiler.is_compiling():  # a graph cannot branch on the values of a tensor
            beyond = f"a position is beyond the {self.length} that this model has learned"
            torch._assert_async((positions < self.length).all(), beyond)
            return
        if positions.numel() and int(positions.max()) >= self.length:
            raise ValueError(
                f"position {int(positions.max()) + 1} is beyond the {self.length} that this model "
                "has learned"
            )


class Embedding(FrontEnd):
    """Token embeddings, for ids ``[b, t]`` below ``vocabulary``."""

    tokens: nn.Embedding

    def __init__(self, config: ModelConfig, *, vocabulary: int, length: int) -> None:
        super().__init__(config, length, "tokens", nn.Embedding(vocabulary, config.d))

    def vectors(self, inputs: Tensor) -> Sequence:
        out: Sequence = self.tokens(inputs)
        return out


class Frames(FrontEnd):
    """A linear layer over frames ``[b, t, width]``, such as audio or sensor data."""

    frames: nn.Linear

    def __init__(self, config: ModelConfig, *, width: int, length: int) -> None:
        super().__init__(config, length, "frames", nn.Linear(width, config.d))

    def vectors(self, inputs: Tensor) -> Sequence:
        out: Sequence = self.frames(inputs)
        return out
