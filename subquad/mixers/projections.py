"""The four projections of multi-head attention, shared by softmax and linear attention."""

from einops import rearrange
from torch import Tensor, nn

from subquad.mixers.base import head_width
from subquad.shapes import Heads, Sequence, Values


class Projections(nn.Module):
    """W_Q, W_K and W_V in one matrix, split into heads, and the output projection W_O."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        head_width(d, heads)
        self.heads = heads
        self.qkv = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)

    def split(self, x: Sequence) -> tuple[Heads, Heads, Values]:
        """Queries, keys and values ``[b, h, t, d/h]`` (views of one tensor)."""
        q, k, v = rearrange(self.qkv(x), "b t (s h k) -> s b h t k", s=3, h=self.heads)
        return q, k, v

    def merge(self, y: Values) -> Sequence:
        """Concatenate the heads and apply W_O."""
        out: Tensor = self.out(rearrange(y, "b h t m -> b t (h m)"))
        return out
