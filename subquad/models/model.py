"""The two models: a classifier over whole rows, and a causal model that streams."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from subquad.mixers.base import Mixer, zero_padding
from subquad.models.block import Block, blocks, initialise
from subquad.models.config import ModelConfig
from subquad.models.embeddings import Embedding, real_positions
from subquad.models.state import ModelState
from subquad.shapes import Logits, Mask, Pooled, Sequence, Tokens

#: Token id that fills rows up. Only mixers that let padding take part ever see its vector.
PAD = 0


class Encoder(nn.Module):
    """Embeddings and bidirectional blocks: a vector per token.

    If a mixer is made for one length only (FNet's ``padding="fixed"``), rows are padded to it here
    and cut again, so that a row's result never depends on its batch.
    """

    def __init__(self, config: ModelConfig, *, vocabulary: int, length: int) -> None:
        super().__init__()
        self.embedding = Embedding(config, vocabulary=vocabulary, length=length)
        self.blocks = blocks(config, causal=False)
        last = config.norm == "pre"
        self.norm = nn.LayerNorm(config.d, config.norm_eps) if last else nn.Identity()

        made_for = (m.fixed_length for m in self.modules() if isinstance(m, Mixer))
        self.fixed_length = max((n for n in made_for if n is not None), default=None)
        if self.fixed_length is not None and self.fixed_length < length:
            raise ValueError(
                f"a mixer is fixed to length {self.fixed_length}, and rows have up to {length}"
            )

    def forward(
        self, tokens: Tokens, mask: Mask | None = None, seen: Mask | None = None
    ) -> Sequence:
        """Vectors ``[b, t, d]``. Tokens that are not ``seen`` are hidden like padding, but keep
        their place: positions count them."""
        t = tokens.shape[1]
        if self.fixed_length is not None:
            fill = (0, max(self.fixed_length - t, 0))
            real = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
            mask = nn.functional.pad(real, fill)
            seen = None if seen is None else nn.functional.pad(seen, fill)
            tokens = nn.functional.pad(tokens, fill)
        positions = real_positions(tokens, mask)
        if seen is not None:
            mask = seen if mask is None else mask & seen
        if self.fixed_length is not None and mask is not None:
            tokens = tokens.masked_fill(~mask, PAD)
        x = self.embedding(tokens, positions)
        for block in self.blocks:
            x = block(x, mask)
        out: Sequence = self.norm(x[:, :t])
        return out


class Classifier(nn.Module):
    """A row of tokens → one of ``classes``.

    ``pooling="cls"`` puts a token of its own (id ``vocabulary``) before every row and reads there;
    ``"mean"`` averages over the real tokens.
    """

    def __init__(self, config: ModelConfig, *, vocabulary: int, length: int, classes: int) -> None:
        super().__init__()
        self.cls = vocabulary if config.pooling == "cls" else None
        extra = 0 if self.cls is None else 1
        self.encoder = Encoder(config, vocabulary=vocabulary + extra, length=length + extra)
        self.token_dropout = config.token_dropout
        self.dropout = nn.Dropout(config.dropout)
        self.head = nn.Linear(config.d, classes)
        initialise(self)

    def pool(self, x: Sequence, mask: Mask | None) -> Pooled:
        """One vector per row; zeros for a row without real tokens."""
        if self.cls is not None:
            return x[:, 0]
        if mask is None:
            return x.mean(1)
        count = mask.sum(1, keepdim=True).clamp(min=1)
        return zero_padding(x, mask).sum(1) / count

    def forward(self, tokens: Tokens, mask: Mask | None = None) -> Float[Tensor, "b c"]:
        """Logits ``[b, c]``."""
        seen = None
        if self.training and self.token_dropout:
            seen = torch.rand(tokens.shape, device=tokens.device) >= self.token_dropout
        if self.cls is not None:
            tokens = nn.functional.pad(tokens, (1, 0), value=self.cls)
            mask, seen = (
                m if m is None else nn.functional.pad(m, (1, 0), value=True) for m in (mask, seen)
            )
        x = self.encoder(tokens, mask, seen)
        if seen is not None:
            mask = seen if mask is None else mask & seen
        out: Tensor = self.head(self.dropout(self.pool(x, mask)))
        return out


class CausalModel(nn.Module):
    """Tokens → logits for the next token; streams through a ``ModelState``.

    ``inputs`` token ids can be read, the first ``outputs`` of them predicted (a start token may be
    read only).
    """

    def __init__(self, config: ModelConfig, *, inputs: int, outputs: int, length: int) -> None:
        super().__init__()
        self.embedding = Embedding(config, vocabulary=inputs, length=length)
        self.blocks = blocks(config, causal=True)
        last = config.norm == "pre"
        self.norm = nn.LayerNorm(config.d, config.norm_eps) if last else nn.Identity()
        self.outputs = outputs
        self.head = None if config.tied else nn.Linear(config.d, outputs)
        initialise(self)

    def scan(
        self, tokens: Tokens, state: ModelState | None = None, mask: Mask | None = None
    ) -> tuple[Logits, ModelState]:
        """Logits ``[b, t, v]`` after each token, and the state after the last one."""
        positions = real_positions(tokens, mask)
        read = torch.full((tokens.shape[0],), tokens.shape[1], device=tokens.device)
        read = read if mask is None else mask.sum(1)
        if state is not None:
            positions, read = positions + state.position.unsqueeze(1), read + state.position
        x = self.embedding(tokens, positions)
        layers = []
        for i, block in enumerate(self.blocks):
            assert isinstance(block, Block)
            x, after = block.scan(x, None if state is None else state.layers[i], mask)
            layers.append(after)
        return self._predict(self.norm(x)), ModelState(read, tuple(layers))

    def forward(self, tokens: Tokens, mask: Mask | None = None) -> Logits:
        return self.scan(tokens, mask=mask)[0]

    def _predict(self, x: Sequence) -> Logits:
        if self.head is None:
            return nn.functional.linear(x, self.embedding.tokens.weight[: self.outputs])
        out: Tensor = self.head(x)
        return out
