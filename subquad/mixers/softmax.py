"""Softmax attention: the baseline that everything here is measured against.

Vaswani et al., "Attention is all you need", 2017; in the notation of Katharopoulos et al. 2020:

    Eq. (2)   V' = softmax(Q Kᵀ / √k) V

Cost: O(t²·k) time; the state (the KV cache) grows with every token. The fast form is torch's
scaled_dot_product_attention.
"""

import math
from dataclasses import dataclass
from typing import TypeAlias

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn

from subquad.mixers.base import CausalMixer, Mixer, State, at_own_precision, zero_padding
from subquad.mixers.projections import Projections
from subquad.shapes import Heads, Mask, Sequence, Values

#: Queries, of which there may be fewer than keys, and what each of them reads.
Queries: TypeAlias = Float[Tensor, "b h q k"]
Read: TypeAlias = Float[Tensor, "b h q m"]


@dataclass(frozen=True)
class KVCache(State):
    """All keys and values seen so far; ``real`` is False where a token was padding."""

    k: Float[Tensor, "b h t k"]
    v: Float[Tensor, "b h t m"]
    real: Bool[Tensor, "b t"]


@at_own_precision
def definition(
    q: Queries, k: Heads, v: Values, allowed: Bool[Tensor, "b q t"] | None = None
) -> Read:
    """Softmax in fp32 (fp64 stays) over the allowed keys; a query that may read none gets zeros."""
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(wide) @ k.to(wide).mT / math.sqrt(q.shape[-1])
    if allowed is None:
        weights = scores.softmax(-1)
    else:
        hidden = ~allowed.unsqueeze(1)
        weights = scores.masked_fill(hidden, torch.finfo(wide).min).softmax(-1)
        weights = weights.masked_fill(hidden, 0)
    return (weights @ v.to(wide)).to(v.dtype)  # Eq. (2)


def fused(q: Queries, k: Heads, v: Values, allowed: Bool[Tensor, "b q t"] | None = None) -> Read:
    """The same through torch's fused kernel."""
    mask = None if allowed is None else allowed.unsqueeze(1)
    y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    if allowed is None:
        return y
    return y.masked_fill(~allowed.any(-1)[:, None, :, None], 0)


class SoftmaxAttention(Mixer):
    """Bidirectional softmax attention, Eq. (2). Args: ``d`` width; ``heads``."""

    def __init__(self, d: int, *, heads: int) -> None:
        super().__init__()
        self.projections = Projections(d, heads)

    def forward(self, x: Sequence, mask: Mask | None = None) -> Sequence:
        q, k, v = self.projections.split(zero_padding(x, mask))
        allowed = None if mask is None else mask.unsqueeze(1).expand(-1, x.shape[1], -1)
        return zero_padding(self.projections.merge(fused(q, k, v, allowed)), mask)


class CausalSoftmaxAttention(CausalMixer):
    """Causal softmax attention with a KV cache, Eq. (2). Args: ``d`` width; ``heads``."""

    def __init__(self, d: int, *, heads: int) -> None:
        super().__init__()
        self.projections = Projections(d, heads)

    def scan(
        self, x: Sequence, state: State | None = None, mask: Mask | None = None
    ) -> tuple[Sequence, KVCache]:
        if state is not None and not isinstance(state, KVCache):
            raise TypeError(f"softmax attention continues a KVCache, not {type(state).__name__}")
        q, k, v = self.projections.split(zero_padding(x, mask))
        real = x.new_ones(x.shape[:2], dtype=torch.bool) if mask is None else mask
        if state is None and mask is None:
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.projections.merge(y), KVCache(k=k, v=v, real=real)
        if state is not None:
            k, v = torch.cat([state.k, k], dim=2), torch.cat([state.v, v], dim=2)
            real = torch.cat([state.real, real], dim=1)
        y = fused(q, k, v, _visible(real, x.shape[1]))
        return zero_padding(self.projections.merge(y), mask), KVCache(k=k, v=v, real=real)


def _visible(real: Bool[Tensor, "b s"], t: int) -> Bool[Tensor, "b t s"]:
    """Which of the ``s`` cached tokens each of the last ``t`` queries may read."""
    s = real.shape[1]
    not_ahead = torch.ones(t, s, dtype=torch.bool, device=real.device).tril(s - t)
    return rearrange(real, "b s -> b 1 s") & not_ahead
