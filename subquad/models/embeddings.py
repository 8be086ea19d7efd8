"""Token and position embeddings. Positions count *real* tokens, so padding cannot shift a word."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from subquad.models.config import ModelConfig
from subquad.models.dropout import Dropout
from subquad.shapes import Mask, Positions, Sequence, Tokens


def real_positions(tokens: Tokens, mask: Mask | None) -> Positions:
    """How many real tokens stand before each token of its row (0 for leading padding)."""
    if mask is None:
        return torch.arange(tokens.shape[1], device=tokens.device).expand(tokens.shape)
    return (mask.cumsum(1) - 1).clamp(min=0)


def sinusoid_rates(d: int) -> Float[Tensor, "half"]:
    """How fast each pair of sin and cos turns, in radians per token."""
    return torch.exp(torch.arange(0, d, 2) * (-math.log(10_000.0) / d))


def sinusoids(positions: Positions, d: int) -> Sequence:
    """sin and cos of position / 10000^(2i/d), interleaved (Vaswani et al. 2017, section 3.5)."""
    angle = positions.unsqueeze(-1) * sinusoid_rates(d).to(positions.device)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)[..., :d]


class Embedding(nn.Module):
    """Token plus position plus type, then dropout (post-norm models: layer norm in between, and
    FNet's linear projection after it).

    Args: ``config``; ``vocabulary`` rows of the token table; ``length`` the longest row that
    learned positions are made for.
    """

    def __init__(self, config: ModelConfig, *, vocabulary: int, length: int) -> None:
        super().__init__()
        self.kind: str = config.placed().positions or "none"
        self.length = length
        #: Whether positions beyond those learned are refused here; False where a runtime does it.
        self.checked = True
        self.tokens = nn.Embedding(vocabulary, config.d)
        self.positions = nn.Embedding(length, config.d) if self.kind == "learned" else None
        self.types = nn.Embedding(config.types, config.d) if config.types else None
        self.norm = nn.LayerNorm(config.d, config.norm_eps) if config.norm == "post" else None
        self.projection = nn.Linear(config.d, config.d) if config.projection else None
        self.dropout = Dropout(config.dropout)

    def forward(
        self, tokens: Tokens, positions: Positions, types: Tokens | None = None
    ) -> Sequence:
        """Vectors ``[b, t, d]`` of ``tokens`` at ``positions`` (both ``[b, t]``); without
        ``types`` all are of type 0.

        Raises:
            ValueError: a position beyond the learned ones; both numbers are named. Types are
                given to a model that has none.
        """
        if types is not None and self.types is None:
            raise ValueError("this model has no token types (types=0), but types were given")
        x = self.tokens(tokens)
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
