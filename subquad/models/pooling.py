"""Attention pooling: a weighted average of a sequence of vectors, with learned weights."""

from torch import nn

from subquad.mixers.base import zero_padding
from subquad.mixers.pooling import pool
from subquad.shapes import Mask, Pooled, Sequence


class AttentionPooling(nn.Module):
    """Σ_i softmax_i(w·tanh(W x_i)) x_i over real tokens, or zeros if there are none: the pooler of
    Fastformer's released encoder (which applies exp to raw scores and can overflow)."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.inner = nn.Linear(d, d)
        self.score = nn.Linear(d, 1, bias=False)

    def forward(self, x: Sequence, mask: Mask | None) -> Pooled:
        x = zero_padding(x, mask)
        return pool(x, self.score(self.inner(x).tanh()), mask)[:, 0]
