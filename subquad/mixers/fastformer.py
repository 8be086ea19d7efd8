"""Fastformer: additive attention. The row is pooled into one global query, that into one global
key, and every token meets those two vectors only, by element-wise products.

Wu, Wu, Qi, Huang, Xie, "Fastformer: Additive attention can be all you need", 2021 (arXiv
2108.09084), as its authors released it. The paper's numbering, per head:

    Eq. (3)   α_i = softmax_i(w_qᵀ q_i / √d_head)
    Eq. (4)   q = Σ_i α_i q_i                      global query
    Eq. (5)   p_i = q ∗ k_i; β_i = softmax_i(w_kᵀ p_i / √d_head)
    Eq. (6)   k = Σ_i β_i p_i                      global key
    Eq. (7)   u_i = k ∗ v_i,  with v_i = q_i; output_i = W u_i + q_i

As in the released layer: values are the queries; the score vectors read the features of *all*
heads; the scale is √d_head; the query is added to the output. The score projections carry no bias:
a softmax does not change when one number is added to all its scores. Masked tokens get weight
zero exactly (the released code adds -10000, which large scores can outweigh).

Cost: O(t·d) beside three d×d projections. Bidirectional: α pools over the whole row.
"""

import math

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from subquad.mixers.base import Mixer, at_own_precision, head_width, zero_padding
from subquad.shapes import Mask, Sequence


@at_own_precision
def pool(x: Sequence, scores: Float[Tensor, "b t h"], mask: Mask | None) -> Float[Tensor, "b 1 d"]:
    """Softmax-weighted sum over the real tokens, a weight per head; zeros for an empty row."""
    wide = torch.promote_types(x.dtype, torch.float32)
    scores = scores.to(wide)
    if mask is not None:
        hidden = ~mask.unsqueeze(-1)
        scores = scores.masked_fill(hidden, torch.finfo(wide).min)
    weights = scores.softmax(dim=1)
    if mask is not None:
        weights = weights.masked_fill(hidden, 0)
        x = x.masked_fill(hidden, 0)
    heads = rearrange(x.to(wide), "b t (h k) -> b h t k", h=scores.shape[-1])
    pooled = rearrange(weights, "b t h -> b h 1 t") @ heads
    return rearrange(pooled, "b h 1 k -> b 1 (h k)").to(x.dtype)


def additive_attention(
    q: Sequence,
    k: Sequence,
    w_q: Float[Tensor, "h d"],
    w_k: Float[Tensor, "h d"],
    mask: Mask | None = None,
) -> Sequence:
    """u_i of Eq. (7) from queries and keys ``[b, t, d]`` and the score vectors of each head."""
    scale = math.sqrt(q.shape[-1] / w_q.shape[0])
    global_query = pool(q, nn.functional.linear(q, w_q) / scale, mask)  # Eq. (3) # Eq. (4)
    p = global_query * k
    global_key = pool(p, nn.functional.linear(p, w_k) / scale, mask)  # Eq. (5) # Eq. (6)
    return global_key * q  # Eq. (7)


def softmax_over_time(scores: Float[Tensor, "b t h"], mask: Mask | None) -> Float[Tensor, "b t h"]:
    """Weights in fp32 (fp64 stays), zero at masked tokens."""
    wide = torch.promote_types(scores.dtype, torch.float32)
    if mask is None:
        return scores.to(wide).softmax(dim=1)
    hidden = ~mask.unsqueeze(-1)
    lowest = torch.finfo(wide).min
    return scores.to(wide).masked_fill(hidden, lowest).softmax(dim=1).masked_fill(hidden, 0)


@at_own_precision
def weighted_sum(weights: Float[Tensor, "b t h"], x: Sequence) -> Float[Tensor, "b 1 d"]:
    """Σ_i weights_i x_i, each head's weight for its own features: one matrix product of all heads
    with all features, of which the block diagonal is kept. It costs h times the multiplications
    of a small product, and no transposed copy of ``x``."""
    x = x.to(weights.dtype)
    h = weights.shape[-1]
    blocks = rearrange(weights.mT @ x, "b h (g k) -> b h g k", g=h)
    return rearrange(blocks.diagonal(dim1=1, dim2=2), "b k h -> b 1 (h k)")


def fused(
    q: Sequence,
    k: Sequence,
    w_q: Float[Tensor, "h d"],
    w_k: Float[Tensor, "h d"],
    w: Float[Tensor, "d d"],
    mask: Mask | None = None,
) -> Sequence:
    """W u_i of Eq. (7), reading q three times and k twice and writing nothing of their size but the
    result: the global vectors multiply the small matrices instead of the sequences.

    p is never made: w_kᵀ p_i = (w_k ∗ q)ᵀ k_i, and Σ β_i p_i = q ∗ Σ β_i k_i. Nor is u: W u_i =
    (W diag(k)) q_i.
    """
    scale = math.sqrt(q.shape[-1] / w_q.shape[0])
    if mask is not None:
        q, k = zero_padding(q, mask), zero_padding(k, mask)
    alpha = softmax_over_time(nn.functional.linear(q, w_q) / scale, mask)  # Eq. (3)
    global_query = weighted_sum(alpha, q)  # Eq. (4)
    beta = softmax_over_time(k @ (w_k * global_query).mT.to(k.dtype) / scale, mask)  # Eq. (5)
    global_key = global_query * weighted_sum(beta, k)  # Eq. (6)
    return q @ (w * global_key).mT.to(q.dtype)  # Eq. (7)


class Fastformer(Mixer):
    """Additive attention as released. Args: ``d`` width; ``heads``."""

    def __init__(self, d: int, *, heads: int) -> None:
        super().__init__()
        head_width(d, heads)
        self.qk = nn.Linear(d, 2 * d)
        self.score_q = nn.Linear(d, heads, bias=False)
        self.score_k = nn.Linear(d, heads, bias=False)
        self.transform = nn.Linear(d, d)

    def forward(self, x: Sequence, mask: Mask | None = None) -> Sequence:
        q, k = self.qk(zero_padding(x, mask)).chunk(2, dim=-1)
        w = self.transform
        y = fused(q, k, self.score_q.weight, self.score_k.weight, w.weight, mask)
        return zero_padding(y + w.bias.to(y.dtype) + q, mask)  # Eq. (7)
