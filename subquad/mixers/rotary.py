"""Rotary position embedding (Su et al. 2021, RoFormer, arXiv 2104.09864).

Queries and keys are rotated by an angle that grows with their position, so that a product q·k
depends on the distance of two tokens alone. With k the width of a head, positions m from 0 and
angles θ_i:

    Eq. (15)  θ_i = base^(-2i/k),  i = 0 … k/2 - 1
    Eq. (34)  x ↦ x ⊙ cos(m θ) + rotate(x) ⊙ sin(m θ)

Pairs are (x_i, x_{i + k/2}), as in GPT-NeoX, Llama and ModernBERT, not (x_{2i}, x_{2i+1}) as in the
paper; the two differ by an order of the features.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from subquad.shapes import Heads, Mask, Positions


def places(x: Tensor, mask: Mask | None, before: Tensor | None = None) -> Positions:
    """The position of each token of ``x`` ``[b, t, …]``: the number of real tokens before it, of
    which ``before`` ``[b]`` were read earlier."""
    b, t = x.shape[:2]
    if mask is None:
        counted = torch.arange(t, device=x.device).expand(b, t)
    else:
        counted = (mask.cumsum(1) - 1).clamp(min=0)
    return counted if before is None else counted + before.unsqueeze(1)


def angles(
    positions: Positions, k: int, base: float, dtype: torch.dtype
) -> Float[Tensor, "b t half"]:
    """m θ_i."""
    half = torch.arange(0, k, 2, dtype=dtype, device=positions.device)
    return positions.unsqueeze(-1).to(dtype) * base ** (-half / k)  # Eq. (15)


def rotated(x: Heads, positions: Positions, base: float) -> Heads:
    """``x`` ``[b, h, t, k]`` rotated by its positions ``[b, t]``; computed in fp32 or wider."""
    wide = torch.promote_types(x.dtype, torch.float32)
    angle = angles(positions, x.shape[-1], base, wide).unsqueeze(1)
    cos, sin = torch.cat([angle, angle], -1).cos(), torch.cat([angle, angle], -1).sin()
    first, second = x.to(wide).chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    return (x.to(wide) * cos + turned * sin).to(x.dtype)  # Eq. (34)
