"""The models that BERT and FNet are pretrained with and tuned to, over the same encoder and pooler.

A body (``encoder`` and ``pooler``) bears the same names in all of them, so that what one has
learned the next can begin with. Classification of rows, of pairs of texts (token types) and
regression (one class) is ``subquad.models.Classifier`` with ``pooling="pooler"``.
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
from subquad.models.model import Classifier, Encoder, Pooler
from subquad.shapes import Mask, Pooled, Sequence, Tokens


class MaskedHead(nn.Module):
    """Vector → logits over the vocabulary: linear, GELU (tanh form), layer norm, the embedding's
    own matrix, and a bias."""

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
    """Encoder and pooler with two heads: the masked token, and the order of two segments.

    Args: ``config``; ``vocabulary``; ``length`` of the longest row; ``heads`` those that there are.
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
        """A vector per token, and the pooled one per row."""
        x = self.encoder(tokens, mask, types=types)
        return x, self.pooler(x, mask)

    def masked_logits(self, x: Float[Tensor, "*n d"]) -> Float[Tensor, "*n v"]:
        """Logits over the vocabulary; only the vectors that are asked for cost anything."""
        assert self.masked is not None, "a model without a masked head"
        front = self.encoder.embedding
        assert isinstance(front, Embedding), "masked tokens of a model that reads none"
        out: Tensor = self.masked(x, front.tokens.weight)
        return out

    def order_logits(self, pooled: Pooled) -> Float[Tensor, "b 2"]:
        """0: the second segment follows the first."""
        assert self.order is not None, "a model without a head for the order"
        out: Tensor = self.order(pooled)
        return out


class TokenClassifier(nn.Module):
    """Each token → one of ``classes``: tags; or, with two, where an answer starts and ends. The
    pooler is not read, but stays with its body."""

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
    """Multiple choice: ``model``, of one class, says how well each option ``[b, o, t]`` fits."""
    b = len(tokens)
    flat = [None if part is None else part.flatten(0, 1) for part in (tokens, mask, types)]
    assert flat[0] is not None
    logits: Tensor = model(flat[0], flat[1], flat[2])
    if logits.shape[1] != 1:
        raise ValueError(f"multiple choice takes a model of one class, not {logits.shape[1]}")
    return logits.view(b, -1)
