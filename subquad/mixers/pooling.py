"""Softmax-weighted sums of a row: one vector per head, or weights to look at."""

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from subquad.mixers.base import at_own_precision, zero_padding
from subquad.shapes import Mask, Sequence


@at_own_precision
def pool(x: Sequence, scores: Float[Tensor, "b t h"], mask: Mask | None) -> Float[Tensor, "b 1 d"]:
    """Softmax-weighted sum over the real tokens, a weight per head; zeros for an empty row."""
    weights = softmax_over_time(scores, mask)
    x = zero_padding(x, mask)
    heads = rearrange(x.to(weights.dtype), "b t (h k) -> b h t k", h=scores.shape[-1])
    pooled = rearrange(weights, "b t h -> b h 1 t") @ heads
    return rearrange(pooled, "b h 1 k -> b 1 (h k)").to(x.dtype)


def softmax_over_time(scores: Float[Tensor, "b t h"], mask: Mask | None) -> Float[Tensor, "b t h"]:
    """Weights in fp32 (fp64 stays), zero at masked tokens."""
    wide = torch.promote_types(scores.dtype, torch.float32)
    if mask is None:
        return scores.to(wide).softmax(dim=1)
    hidden = ~mask.unsqueeze(-1)
    lowest = torch.finfo(wide).min
    return scores.to(wide).masked_fill(hidden, lowest).softmax(dim=1).masked_fill(hidden, 0)
