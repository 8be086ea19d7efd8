"""Vectors of levels that know that levels are numbers.

A pixel's level is a token like a word, with a vector of its own, but unlike a word's its neighbours
mean nearly the same. Here the vector of level l, read or predicted, is

    w_l = v_l + Σ_{k=1..K} cos(π k (l + ½) / levels) u_k

with all of v and u learned: what one image teaches of a level it teaches of the next too, which v
alone cannot. The cosines are those of the discrete cosine transform, slowest first. In MNIST the
greys are a seventh of the pixels and nine tenths of the bits (LOG.md).
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from subquad.models.model import CausalModel
from subquad.shapes import Sequence, Tokens


def cosines(rows: int, levels: int, count: int) -> Float[Tensor, "rows count"]:
    """cos(π k (l + ½) / levels) for k from 1 on; zero for rows that stand for no level."""
    level = torch.arange(levels, dtype=torch.float64) + 0.5
    k = torch.arange(1, count + 1)
    made = torch.cos(math.pi * k * level.unsqueeze(1) / levels)
    return nn.functional.pad(made, (0, 0, 0, rows - levels)).float()


class _Shared(nn.Module):
    """v and u; ``weight`` ``[rows, d]`` is what they make."""

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
    """Levels (and tokens after them that stand for none, as the start) → vectors."""

    weight = property(_Shared._weight)

    def __init__(self, plain: nn.Embedding, levels: int, count: int) -> None:
        self._begin(plain.weight, levels, count)
        self.num_embeddings, self.embedding_dim = plain.num_embeddings, plain.embedding_dim

    def forward(self, tokens: Tokens) -> Sequence:
        return nn.functional.embedding(tokens, self.weight)

    def settled(self) -> nn.Embedding:
        return nn.Embedding.from_pretrained(self.weight.detach(), freeze=False)


class LevelHead(_Shared, nn.Linear):
    """Vectors → a logit for each level."""

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
    """Make the vectors of ``model``'s levels, its first ``levels`` tokens, share ``count`` cosines
    (one fewer than there are levels, if that is less); the predicted ones only where the head tells
    levels apart and is not tied."""
    count = min(count, levels - 1)
    if not count:  # one level is told from no other
        return
    model.embedding.tokens = LevelEmbedding(model.embedding.tokens, levels, count)
    if model.head is not None and model.outputs == levels:
        model.head = LevelHead(model.head, levels, count)


def settle(model: nn.Module) -> None:
    """Put ordinary embeddings and linear layers in the place of shared tables, for whoever changes
    weights or makes a graph of them. What the model computes stays."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, LevelEmbedding | LevelHead):
                setattr(module, name, child.settled())
