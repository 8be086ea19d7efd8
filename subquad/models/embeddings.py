"""Token and position embeddings. Positions count *real* tokens, so padding cannot shift a word."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from subquad.models.config import ModelConfig
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
    """Token plus position, then dropout (post-norm models: layer norm in between).

    Args: ``config``; ``vocabulary`` rows of the token table; ``length`` the longest row that
    learned positions are made for.
    """

    def __init__(self, config: ModelConfig, *, vocabulary: int, length: int) -> None:
        super().__init__()
        self.kind = config.positions
        self.length = length
        self.tokens = nn.Embedding(vocabulary, config.d)
        self.positions = nn.Embedding(length, config.d) if self.kind == "learned" else None
        self.norm = nn.LayerNorm(config.d, config.norm_eps) if config.norm == "post" else None
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, tokens: Tokens, positions: Positions) -> Sequence:
        """Vectors ``[b, t, d]`` of ``tokens`` at ``positions`` (both ``[b, t]``).

        Raises:
            ValueError: a position beyond the learned ones; both numbers are named.
        """
        x = self.tokens(tokens)
        if self.positions is not None:
            self._check(positions)
            x = x + self.positions(positions)
        elif self.kind == "sinusoidal":
            x = x + sinusoids(positions, x.shape[-1]).to(x.dtype)
        if self.norm is not None:
            x = self.norm(x)
        out: Sequence = self.dropout(x)
        return out

    def _check(self, positions: Positions) -> None:
        if positions.numel() and int(positions.max()) >= self.length:
            raise ValueError(
                f"position {int(positions.max()) + 1} is beyond the {self.length} that this model "
                "has learned"
            )
