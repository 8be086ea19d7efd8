"""Embeddings of pixel levels that reflect that levels are numbers.

A pixel's level is a token with an embedding, like a word; but unlike with words, neighbouring
levels mean nearly the same. Here the (input or output) embedding of level l is

    w_l = v_l + Σ_{k=1..K} cos(π k (l + ½) / levels) u_k

where all v and u are learned: what is learned about one level carries over to its neighbours, which
v alone cannot do. The cosines are those of the discrete cosine transform, lowest frequency first.
In MNIST, grey levels are a seventh of the pixels but nine tenths of the bits (LOG.md).
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from subquad.models.model import CausalModel
from subquad.shapes import Sequence, Tokens


def cosines(rows: int, levels: int, count: int) -> Float[Tensor, "rows count"]:
    """cos(π k (l + ½) / levels) for k = 1, 2, …; zero in rows that are not levels."""
    level = torch.arange(levels, dtype=torch.float64) + 0.5
    k = torch.arange(1, count + 1)
    made = torch.cos(math.pi * k * level.unsqueeze(1) / levels)
    return nn.functional.pad(made, (0, 0, 0, rows - levels)).float()


class _Shared(nn.Module):
    """Holds v and u; ``weight`` ``[rows, d]`` is computed from them."""

    cosines: Tensor

    def _begin(self, own: Tensor, levels: int, count: int) -> None:
        nn.Module.__init__(self)
        size = own.detach().std() * (2 / count) ** 0.5
        self.own = nn.Parameter(own.detach())
        self.shared = nn.Parameter(torch.randn(count, own.shape[1]) * size)
        self.register_buffer("cosines", cosines(len(own), levels, count), persistent=False)

    def _weight(self) -> Float[Tensor, "rows d"]:
        return self.own + self.cosines.to(self.shared.dtype) @ self.shared


class LevelEmbedding(_Shared, nn.Embedding):
    """Embeddings of levels, and of further tokens that are not levels, such as the start token."""

    weight = property(_Shared._weight)

    def __init__(self, plain: nn.Embedding, levels: int, count: int) -> None:
        self._begin(plain.weight, levels, count)
        self.num_embeddings, self.embedding_dim = plain.num_embeddings, plain.embedding_dim

    def forward(self, tokens: Tokens) -> Sequence:
        return nn.functional.embedding(tokens, self.weight)

    def settled(self) -> nn.Embedding:
        return nn.Embedding.from_pretrained(self.weight.detach(), freeze=False)


class LevelHead(_Shared, nn.Linear):
    """The output layer: one logit per level."""

    weight = property(_Shared._weight)

    def __init__(self, plain: nn.Linear, levels: int, count: int) -> None:
        self._begin(plain.weight, levels, count)
        self.in_features, self.out_features = plain.in_features, plain.out_features
        self.bias = plain.bias

    def settled(self) -> nn.Linear:
        made = nn.Linear(self.in_features, self.out_features)
        made.weight, made.bias = nn.Parameter(self.weight.detach()), self.bias
        return made


def share(model: CausalModel, levels: int, count: int) -> None:
    """Let the embeddings of ``model``'s levels (its first ``levels`` tokens) share ``count``
    cosines, at most ``levels - 1``. The output layer does so only if it has one output per level
    and is not tied."""
    count = min(count, levels - 1)
    if not count:  # there is only one level
        return
    model.embedding.tokens = LevelEmbedding(model.embedding.tokens, levels, count)
    if model.head is not None and model.outputs == levels:
        model.head = LevelHead(model.head, levels, count)


def settle(model: nn.Module) -> None:
    """Replace shared embeddings by ordinary embeddings and linear layers, for exports and for code
    that changes weights. The model still computes the same function."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, LevelEmbedding | LevelHead):
                setattr(module, name, child.settled())
