"""Models for pretraining and fine-tuning as in BERT and FNet, with the same encoder and pooler.

The body (``encoder`` and ``pooler``) has the same parameter names in all of them, so that
pretrained weights can be reused. For classification of texts or pairs of texts (by token types),
and for regression (one class), use ``subquad.models.Classifier`` with ``pooling="pooler"``.
"""

from collections.abc import Sequence as Several

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from subquad.models.block import initialise
from subquad.models.config import ModelConfig
from subquad.models.dropout import Dropout
from subquad.models.embeddings import Embedding
from subquad.models.gelu import tanh_gelu
from subquad.models.model import Classifier, Encoder
from subquad.models.pooling import Pooler
from subquad.shapes import Mask, Pooled, Sequence, Tokens


class MaskedHead(nn.Module):
    """Logits over the vocabulary: linear, GELU (tanh), layer norm, the (tied) embedding matrix and
    a bias."""

    def __init__(self, config: ModelConfig, vocabulary: int) -> None:
        super().__init__()
        self.dense = nn.Linear(config.d, config.d)
        self.norm = nn.LayerNorm(config.d, config.norm_eps)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(
        self, x: Float[Tensor, "*n d"], table: Float[Tensor, "v d"]
    ) -> Float[Tensor, "*n v"]:
        h = tanh_gelu(self.dense(x))
        return nn.functional.linear(self.norm(h), table, self.bias)


class Pretraining(nn.Module):
    """Encoder and pooler with heads for masked tokens and for the order of two segments.

    Args:
        config: the architecture.
        vocabulary: number of tokens.
        length: maximum sequence length.
        heads: which heads to have, of ``"masked"`` and ``"order"``.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        vocabulary: int,
        length: int,
        heads: Several[str] = ("masked", "order"),
    ) -> None:
        super().__init__()
        self.encoder = Encoder(config, Embedding(config, vocabulary=vocabulary, length=length))
        self.pooler = Pooler(config.d)
        self.masked = MaskedHead(config, vocabulary) if "masked" in heads else None
        self.order = nn.Linear(config.d, 2) if "order" in heads else None
        initialise(self, config.initialisation)

    def forward(
        self, tokens: Tokens, mask: Mask | None = None, types: Tokens | None = None
    ) -> tuple[Sequence, Pooled]:
        """One vector per token ``[b, t, d]``, and the pooled vector of each sequence ``[b, d]``."""
        x = self.encoder(tokens, mask, types=types)
        return x, self.pooler(x, mask)

    def masked_logits(self, x: Float[Tensor, "*n d"]) -> Float[Tensor, "*n v"]:
        """Logits over the vocabulary, for any selection of token vectors."""
        assert self.masked is not None, "the model has no masked head"
        front = self.encoder.embedding
        assert isinstance(front, Embedding), "the model does not read tokens"
        out: Tensor = self.masked(x, front.tokens.weight)
        return out

    def order_logits(self, pooled: Pooled) -> Float[Tensor, "b 2"]:
        """Logits of the order; class 0 means that the second segment follows the first."""
        assert self.order is not None, "the model has no order head"
        out: Tensor = self.order(pooled)
        return out


class TokenClassifier(nn.Module):
    """Classifies each token into one of ``classes``, as for tagging; with two classes, start and
    end of an answer. The pooler is not used, but kept as a part of the body.

    Args:
        config: the architecture.
        vocabulary: number of tokens.
        length: maximum sequence length.
        classes: number of classes.
    """

    def __init__(self, config: ModelConfig, *, vocabulary: int, length: int, classes: int) -> None:
        super().__init__()
        self.encoder = Encoder(config, Embedding(config, vocabulary=vocabulary, length=length))
        self.pooler = Pooler(config.d)
        self.dropout = Dropout(config.dropout)
        self.head = nn.Linear(config.d, classes)
        initialise(self, config.initialisation)

    def forward(
        self, tokens: Tokens, mask: Mask | None = None, types: Tokens | None = None
    ) -> Float[Tensor, "b t c"]:
        """Logits ``[b, t, c]``."""
        out: Tensor = self.head(self.dropout(self.encoder(tokens, mask, types=types)))
        return out


def choices(
    model: Classifier,
    tokens: Int[Tensor, "b o t"],
    mask: Tensor | None = None,
    types: Int[Tensor, "b o t"] | None = None,
) -> Float[Tensor, "b o"]:
    """Multiple choice: the score of each option.

    Args:
        model: a classifier with a single class.
        tokens: ``[b, o, t]``, o options per question.
        mask: ``[b, o, t]``, True at real tokens, or None.
        types: ``[b, o, t]`` token types, or None.

    Returns:
        Scores ``[b, o]``.

    Raises:
        ValueError: the model has more than one class.
    """
    b = len(tokens)
    flat = [None if part is None else part.flatten(0, 1) for part in (tokens, mask, types)]
    assert flat[0] is not None
    logits: Tensor = model(flat[0], flat[1], flat[2])
    if logits.shape[1] != 1:
        raise ValueError(f"multiple choice needs a model with one class, not {logits.shape[1]}")
    return logits.view(b, -1)
