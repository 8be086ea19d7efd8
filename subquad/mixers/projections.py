"""The four projections of multi-head attention, shared by softmax and linear attention."""

from typing import Literal

import torch
from einops import rearrange
from torch import Tensor, nn

from subquad.mixers.base import head_width
from subquad.mixers.rotary import places, rotated
from subquad.shapes import Heads, Mask, Sequence, Values

#: Which projections have biases: all four, those of queries, keys and values, or none.
Biases = Literal["all", "qkv", "none"]
_BIASES: tuple[Biases, ...] = ("all", "qkv", "none")


class Projections(nn.Module):
    """W_Q, W_K and W_V in one matrix, split into heads, and the output projection W_O.

    Args:
        d: model width, a multiple of ``heads``.
        heads: number of heads of queries.
        kv_heads: number of heads of keys and values, each of which serves as many heads of queries
            (Ainslie et al. 2023, arXiv 2305.13245); None for as many as ``heads``.
        biases: which projections have biases.
        rotary: the base of rotary positions (``rotary``); None for none.

    Raises:
        ValueError: numbers that do not divide each other; the message names them.
    """

    def __init__(
        self,
        d: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        biases: Biases = "all",
        rotary: float | None = None,
    ) -> None:
        super().__init__()
        k = head_width(d, heads)
        self.heads, self.kv_heads = heads, heads if kv_heads is None else kv_heads
        if self.kv_heads < 1 or heads % self.kv_heads:
            raise ValueError(f"kv_heads={kv_heads} must divide heads={heads}")
        if biases not in _BIASES:
            raise ValueError(f"biases={biases!r} is not one of {', '.join(_BIASES)}")
        if rotary is not None and (k % 2 or not rotary > 0):
            raise ValueError(f"rotary={rotary} needs a head width that is even, and is above zero")
        self.biases, self.rotary = biases, rotary
        self.qkv = nn.Linear(d, d + 2 * k * self.kv_heads, bias=biases != "none")
        self.out = nn.Linear(d, d, bias=biases == "all")

    @property
    def plain(self) -> bool:
        """Whether these are the projections of Vaswani et al. 2017, without further options."""
        return self.kv_heads == self.heads and self.biases == "all" and self.rotary is None

    def split(
        self, x: Sequence, mask: Mask | None = None, before: Tensor | None = None
    ) -> tuple[Heads, Heads, Values]:
        """Queries, keys and values ``[b, h, t, d/h]``. Rotary positions count the real tokens of
        ``mask``, after those read ``before`` ``[b]``."""
        qkv = self.qkv(x)
        if self.kv_heads == self.heads:
            q, k, v = rearrange(qkv, "b t (s h k) -> s b h t k", s=3, h=self.heads)
        else:
            q, k, v = self._grouped(qkv)
        if self.rotary is not None:
            at = places(x, mask, before)
            q, k = rotated(q, at, self.rotary), rotated(k, at, self.rotary)
        return q, k, v

    def _grouped(self, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Every head of keys and values, repeated for the heads of queries that share it."""
        width = self.out.in_features // self.heads
        few = self.kv_heads * width
        q, k, v = qkv.split([self.out.in_features, few, few], dim=-1)
        times = self.heads // self.kv_heads
        return (
            rearrange(q, "b t (h k) -> b h t k", h=self.heads),
            *(
                torch.repeat_interleave(rearrange(x, "b t (h k) -> b h t k", k=width), times, dim=1)
                for x in (k, v)
            ),
        )

    def merge(self, y: Values) -> Sequence:
        """Concatenate the heads and apply W_O."""
        out: Tensor = self.out(rearrange(y, "b h t m -> b t (h m)"))
        return out
