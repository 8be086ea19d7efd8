"""Softmax-weighted sums over a sequence, and the weights on their own."""

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from subquad.mixers.base import at_own_precision, zero_padding
from subquad.shapes import Mask, Sequence


@at_own_precision
def pool(x: Sequence, scores: Float[Tensor, "b t h"], mask: Mask | None) -> Float[Tensor, "b 1 d"]:
    """Softmax-weighted sum over the real tokens, with one weight per head; zeros if there are
    none."""
    weights = softmax_over_time(scores, mask)
    x = zero_padding(x, mask)
    heads = rearrange(x.to(weights.dtype), "b t (h k) -> b h t k", h=scores.shape[-1])
    pooled = rearrange(weights, "b t h -> b h 1 t") @ heads
    return rearrange(pooled, "b h 1 k -> b 1 (h k)").to(x.dtype)


def softmax_over_time(scores: Float[Tensor, "b t h"], mask: Mask | None) -> Float[Tensor, "b t h"]:
    """Softmax over the sequence in fp32 (or fp64 if given), zero at masked tokens."""
    dtype = torch.promote_types(scores.dtype, torch.float32)
    if mask is None:
        return scores.to(dtype).softmax(dim=1)
    hidden = ~mask.unsqueeze(-1)
    lowest = torch.finfo(dtype).min
    return scores.to(dtype).masked_fill(hidden, lowest).softmax(dim=1).masked_fill(hidden, 0)
