"""Rows of tokens or frames → vectors with their places. Positions count *real* tokens, so padding
cannot shift a word."""

import math
from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from subquad.models.config import ModelConfig
from subquad.models.dropout import Dropout
from subquad.shapes import Mask, Positions, Sequence, Tokens


def real_positions(tokens: Tensor, mask: Mask | None) -> Positions:
    """How many real tokens (or frames) stand before each of its row (0 for leading padding);
    ``tokens`` are ``[b, t]`` or ``[b, t, f]``."""
    if mask is None:
        return torch.arange(tokens.shape[1], device=tokens.device).expand(tokens.shape[:2])
    return (mask.cumsum(1) - 1).clamp(min=0)


def sinusoid_rates(d: int) -> Float[Tensor, "half"]:
    """How fast each pair of sin and cos turns, in radians per token."""
    return torch.exp(torch.arange(0, d, 2) * (-math.log(10_000.0) / d))


def sinusoids(positions: Positions, d: int) -> Sequence:
    """sin and cos of position / 10000^(2i/d), interleaved (Vaswani et al. 2017, section 3.5)."""
    angle = positions.unsqueeze(-1) * sinusoid_rates(d).to(positions.device)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)[..., :d]


class FrontEnd(nn.Module, ABC):
    """What stands below the blocks: a vector for each token or frame of a row, plus those of its
    position and type, then dropout (post-norm models: layer norm in between, and FNet's linear
    projection after it).

    Args: ``config``; ``length`` the longest row that learned positions are made for; ``name`` and
    ``reading``: the module that makes the vectors, and what it is called.
    """

    def __init__(self, config: ModelConfig, length: int, name: str, reading: nn.Module) -> None:
        super().__init__()
        self.kind: str = config.placed().positions or "none"
        self.length = length
        #: Whether positions beyond those learned are refused here; False where a runtime does it.
        self.checked = True
        self.add_module(name, reading)  # first, as weights get their values in this order
        self.positions = nn.Embedding(length, config.d) if self.kind == "learned" else None
        self.types = nn.Embedding(config.types, config.d) if config.types else None
        self.norm = nn.LayerNorm(config.d, config.norm_eps) if config.norm == "post" else None
        self.projection = nn.Linear(config.d, config.d) if config.projection else None
        self.dropout = Dropout(config.dropout)

    @abstractmethod
    def vectors(self, inputs: Tensor) -> Sequence:
        """The vector ``[b, t, d]`` of each token or frame, whatever its place."""

    def forward(
        self, inputs: Tensor, positions: Positions, types: Tokens | None = None
    ) -> Sequence:
        """Vectors ``[b, t, d]`` of ``inputs`` at ``positions`` ``[b, t]``; without ``types`` all
        are of type 0.

        Raises:
            ValueError: a position beyond the learned ones; both numbers are named. Types are
                given to a model that has none.
        """
        if types is not None and self.types is None:
            raise ValueError("this model has no token types (types=0), but types were given")
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
            # Back from autocast's half precision, which would drown the residual stream.
            x = self.projection(x).to(x.dtype)
        out: Sequence = self.dropout(x)
        return out

    def _check(self, positions: Positions) -> None:
        if torch.compiler.is_compiling():  # a graph cannot choose by what a tensor holds
            beyond = f"a position is beyond the {self.length} that this model has learned"
            torch._assert_async((positions < self.length).all(), beyond)
            return
        if positions.numel() and int(positions.max()) >= self.length:
            raise ValueError(
                f"position {int(positions.max()) + 1} is beyond the {self.length} that this model "
                "has learned"
            )


class Embedding(FrontEnd):
    """Rows of tokens: ids ``[b, t]`` below ``vocabulary``, each with a learned vector."""

    tokens: nn.Embedding

    def __init__(self, config: ModelConfig, *, vocabulary: int, length: int) -> None:
        super().__init__(config, length, "tokens", nn.Embedding(vocabulary, config.d))

    def vectors(self, inputs: Tensor) -> Sequence:
        out: Sequence = self.tokens(inputs)
        return out


class Frames(FrontEnd):
    """Rows of frames: ``[b, t, width]`` numbers, as of sound or sensors, through a linear layer."""

    frames: nn.Linear

    def __init__(self, config: ModelConfig, *, width: int, length: int) -> None:
        super().__init__(config, length, "frames", nn.Linear(width, config.d))

    def vectors(self, inputs: Tensor) -> Sequence:
        out: Sequence = self.frames(inputs)
        return out
