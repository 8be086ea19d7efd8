"""Ways to summarise a sequence of vectors in one."""

import torch
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


class Pooler(nn.Module):
    """BERT's pooler: tanh of a linear layer over the first real token."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.dense = nn.Linear(d, d)

    def forward(self, x: Sequence, mask: Mask | None = None) -> Pooled:
        return torch.tanh(self.dense(first_token(x, mask)))


def first_token(x: Sequence, mask: Mask | None = None) -> Pooled:
    """The vector of each sequence's first real token; zero if there is none."""
    if mask is None:
        return x[:, 0]
    first = mask.int().argmax(1)
    rows = torch.arange(x.shape[0], device=x.device)  # works for graphs of any batch size
    return x[rows, first].masked_fill(~mask.any(1, keepdim=True), 0)
