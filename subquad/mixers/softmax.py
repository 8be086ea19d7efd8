"""Softmax attention: the baseline that everything here is compared with.

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
from subquad.mixers.capabilities import Channel, Explanation
from subquad.mixers.projections import Biases, Projections
from subquad.shapes import Heads, Mask, Sequence, Values

#: Queries, of which there may be fewer than keys, and the result for each of them.
Queries: TypeAlias = Float[Tensor, "b h q k"]
Read: TypeAlias = Float[Tensor, "b h q m"]


@dataclass(frozen=True)
class KVCache(State):
    """All keys and values seen so far; ``real`` is False where a token was padding."""

    k: Float[Tensor, "b h t k"]
    v: Float[Tensor, "b h t m"]
    real: Bool[Tensor, "b t"]

    def extended(self, k: Heads, v: Values, real: Bool[Tensor, "b t"]) -> "KVCache":
        """A new cache with these tokens appended; this one is unchanged.

        Without gradients the buffers have spare capacity, which doubles whenever it runs out, so
        that appending a token does not copy all those before it. If the same cache is continued
        twice, the first continuation uses the spare capacity and the second gets new buffers.
        """
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            return KVCache(
                k=torch.cat([self.k, k], dim=2),
                v=torch.cat([self.v, v], dim=2),
                real=torch.cat([self.real, real], dim=1),
            )
        used, more = self.real.shape[1], real.shape[1]
        room: _Room | None = getattr(self, "_room", None)
        if room is None or room.used != used or room.real.shape[1] < used + more:
            room = _Room.around(self, 2 * (used + more))
        room.append(k, v, real)
        whole = KVCache(
            **{
                name: t.narrow(2 if t.dim() == 4 else 1, 0, room.used)
                for name, t in (("k", room.k), ("v", room.v), ("real", room.real))
            }
        )
        object.__setattr__(whole, "_room", room)
        return whole


@dataclass
class _Room:
    """Buffers with spare capacity; each cache is a view of their beginning."""

    k: Tensor
    v: Tensor
    real: Tensor
    used: int

    @classmethod
    def around(cls, cache: KVCache, size: int) -> "_Room":
        """A copy of ``cache`` with capacity for ``size`` tokens."""
        b, h, t, _ = cache.k.shape
        k, v = (x.new_empty(b, h, size, x.shape[-1]) for x in (cache.k, cache.v))
        real = cache.real.new_zeros(b, size)
        k[:, :, :t], v[:, :, :t], real[:, :t] = cache.k, cache.v, cache.real
        return cls(k, v, real, t)

    def append(self, k: Tensor, v: Tensor, real: Tensor) -> None:
        end = self.used + real.shape[1]
        self.k[:, :, self.used : end], self.v[:, :, self.used : end] = k, v
        self.real[:, self.used : end] = real
        self.used = end


@at_own_precision
def definition(
    q: Queries, k: Heads, v: Values, allowed: Bool[Tensor, "b q t"] | None = None
) -> Read:
    """Softmax in fp32 (or fp64 if given) over the allowed keys; zeros for a query that has none."""
    weights = attention_map(q, k, allowed)
    return (weights @ v.to(weights.dtype)).to(v.dtype)  # Eq. (2)


@at_own_precision
def attention_map(
    q: Queries, k: Heads, allowed: Bool[Tensor, "b q t"] | None = None
) -> Float[Tensor, "b h q t"]:
    """The attention weights of every query over the keys; zeros for a query that may read none."""
    dtype = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(dtype) @ k.to(dtype).mT / math.sqrt(q.shape[-1])
    if allowed is None:
        return scores.softmax(-1)
    hidden = ~allowed.unsqueeze(1)
    return scores.masked_fill(hidden, torch.finfo(dtype).min).softmax(-1).masked_fill(hidden, 0)


def fused(q: Queries, k: Heads, v: Values, allowed: Bool[Tensor, "b q t"] | None = None) -> Read:
    """The same by torch's fused kernel."""
    mask = None if allowed is None else allowed.unsqueeze(1)
    y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    if allowed is None:
        return y
    return y.masked_fill(~allowed.any(-1)[:, None, :, None], 0)


class SoftmaxAttention(Mixer):
    """Bidirectional softmax attention, Eq. (2).

    Args:
        d: model width, a multiple of ``heads``.
        heads: number of attention heads.
        kv_heads, biases, rotary: as for ``Projections``.
    """

    def __init__(
        self,
        d: int,
        *,
        heads: int,
        kv_heads: int | None = None,
        biases: Biases = "all",
        rotary: float | None = None,
    ) -> None:
        super().__init__(d)
        self.projections = Projections(d, heads, kv_heads=kv_heads, biases=biases, rotary=rotary)

    def forward(self, x: Sequence, mask: Mask | None = None) -> Sequence:
        q, k, v = self.projections.split(zero_padding(x, mask), mask)
        allowed = None if mask is None else mask.unsqueeze(1).expand(-1, x.shape[1], -1)
        return zero_padding(self.projections.merge(fused(q, k, v, allowed)), mask)

    def explain(self, x: Sequence, mask: Mask | None = None) -> Explanation:
        maps = _map(self.projections, x, mask, causal=False)
        return Explanation({"attention received": Channel.of(maps.sum(2).mT)}, attention=maps)


class CausalSoftmaxAttention(CausalMixer):
    """Causal softmax attention with a KV cache, Eq. (2).

    Args:
        d: model width, a multiple of ``heads``.
        heads: number of attention heads.
        kv_heads, biases, rotary: as for ``Projections``.
    """

    def __init__(
        self,
        d: int,
        *,
        heads: int,
        kv_heads: int | None = None,
        biases: Biases = "all",
        rotary: float | None = None,
    ) -> None:
        super().__init__(d)
        self.projections = Projections(d, heads, kv_heads=kv_heads, biases=biases, rotary=rotary)

    def scan(
        self, x: Sequence, state: State | None = None, mask: Mask | None = None
    ) -> tuple[Sequence, KVCache]:
        if state is not None and not isinstance(state, KVCache):
            raise TypeError(f"softmax attention continues a KVCache, not {type(state).__name__}")
        before = None if state is None else state.real.sum(1)
        q, k, v = self.projections.split(zero_padding(x, mask), mask, before)
        real = x.new_ones(x.shape[:2], dtype=torch.bool) if mask is None else mask
        if state is None and mask is None:
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.projections.merge(y), KVCache(k=k, v=v, real=real)
        after = KVCache(k=k, v=v, real=real) if state is None else state.extended(k, v, real)
        y = fused(q, after.k, after.v, _visible(after.real, x.shape[1]))
        return zero_padding(self.projections.merge(y), mask), after

    def explain(self, x: Sequence, mask: Mask | None = None) -> Explanation:
        maps = _map(self.projections, x, mask, causal=True)
        return Explanation({"read by the last token": Channel.of(maps[:, :, -1].mT)}, maps)


def _map(
    projections: Projections, x: Sequence, mask: Mask | None, *, causal: bool
) -> Float[Tensor, "b h t t"]:
    """The attention map of a sequence, zero for padding both as query and as key."""
    q, k, _ = projections.split(zero_padding(x, mask), mask)
    b, t, _ = x.shape
    allowed = torch.ones(b, t, t, dtype=torch.bool, device=x.device)
    allowed = allowed.tril() if causal else allowed
    if mask is not None:
        allowed = allowed & mask.unsqueeze(1) & mask.unsqueeze(2)
    return attention_map(q, k, allowed)


def _visible(real: Bool[Tensor, "b s"], t: int) -> Bool[Tensor, "b t s"]:
    """Which of the ``s`` cached tokens each of the last ``t`` queries may attend to."""
    s = real.shape[1]
    not_ahead = torch.ones(t, s, dtype=torch.bool, device=real.device).tril(s - t)
    return rearrange(real, "b s -> b 1 s") & not_ahead
