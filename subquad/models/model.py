"""The two models: a classifier of whole sequences, and a causal model that can stream."""

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from subquad.mixers.base import CausalMixer, Mixer, zero_padding
from subquad.models.block import Block, blocks, initialise
from subquad.models.config import ModelConfig
from subquad.models.dropout import Dropout
from subquad.models.embeddings import Embedding, FrontEnd, real_positions
from subquad.models.norms import make_norm
from subquad.models.pooling import AttentionPooling, Pooler, first_token
from subquad.models.state import ModelState
from subquad.shapes import Logits, Mask, Pooled, Positions, Sequence, Tokens

#: How a classifier pools a sequence.
Pooling = Literal["mean", "cls", "attention", "pooler", "first"]


class Encoder(nn.Module):
    """An input layer and bidirectional blocks, for one vector per token or frame.

    If a mixer accepts one length only (FNet's ``padding="fixed"``), sequences are padded to it here
    and truncated again afterwards, so that results do not depend on the rest of the batch.

    Args:
        config: the architecture.
        front: an ``Embedding`` or ``Frames``, which also defines the maximum length.
    """

    def __init__(self, config: ModelConfig, front: FrontEnd) -> None:
        super().__init__()
        length = front.length
        self.embedding = front
        self.blocks = blocks(config, causal=False, length=length)
        self.pad = config.pad
        last = config.norm == "pre"
        self.norm = make_norm(config) if last else nn.Identity()

        made_for = (m.fixed_length for m in self.modules() if isinstance(m, Mixer))
        self.fixed_length = max((n for n in made_for if n is not None), default=None)
        if self.fixed_length is not None and self.fixed_length < length:
            raise ValueError(
                f"a mixer is fixed to length {self.fixed_length}, but sequences have up to {length}"
            )

    def forward(
        self,
        tokens: Tensor,
        mask: Mask | None = None,
        positions: Positions | None = None,
        types: Tokens | None = None,
    ) -> Sequence:
        """Encode a batch.

        Args:
            tokens: ids ``[b, t]`` or frames ``[b, t, f]``.
            mask: ``[b, t]``, True at real tokens.
            positions: ``[b, t]``; by default, real tokens are counted.
            types: ``[b, t]`` token types.

        Returns:
            ``[b, t, d]``.
        """
        t = tokens.shape[1]
        if self.fixed_length is not None:
            assert positions is None, "padding takes part, so that positions are counted here"
            fill = (0, max(self.fixed_length - t, 0))
            real = torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
            mask = nn.functional.pad(real if mask is None else mask, fill)
            types = None if types is None else nn.functional.pad(types, fill).masked_fill(~mask, 0)
            tokens = _padded(tokens, mask, self.pad)
        if positions is None:
            positions = real_positions(tokens, mask)
        if self.fixed_length is not None and mask is not None:
            # Padding that takes part keeps its actual position, as in the papers' code.
            places = real_positions(tokens, None).clamp(max=self.embedding.length - 1)
            positions = torch.where(mask, positions, places)
        x = self.embedding(tokens, positions, types)
        for block in self.blocks:
            x = block(x, mask)
        out: Sequence = self.norm(x[:, :t])
        return out


def _padded(tokens: Tensor, mask: Mask, pad: int) -> Tensor:
    """Pad to the length of ``mask``; where it is False, tokens are ``pad`` and frames zero."""
    if tokens.dim() == 3:
        longer = nn.functional.pad(tokens, (0, 0, 0, mask.shape[1] - tokens.shape[1]))
        return longer.masked_fill(~mask.unsqueeze(-1), 0)
    longer = nn.functional.pad(tokens, (0, mask.shape[1] - tokens.shape[1]))
    return longer.masked_fill(~mask, pad)


class Classifier(nn.Module):
    """Classifies sequences into one of ``classes`` (a single class for regression or choices).

    Args:
        config: the architecture.
        classes: number of outputs.
        vocabulary: number of tokens.
        length: maximum sequence length.
        front: the input layer, instead of ``vocabulary`` and ``length``.
        pooling: ``"mean"`` over the real tokens; ``"cls"``, an additional token (id ``vocabulary``)
            at the start; ``"first"``, the first token as it is; ``"attention"``, a learned
            weighted average; or ``"pooler"``, BERT's pooler over the first token.
        token_dropout: fraction of tokens to drop in training.

    Example::

        model = Classifier(ModelConfig(d=64), classes=2, vocabulary=1000, length=128)
        logits = model(torch.randint(1000, (8, 128)))  # [8, 2]
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        classes: int,
        vocabulary: int = 0,
        length: int = 0,
        front: FrontEnd | None = None,
        pooling: Pooling = "mean",
        token_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.pooling = pooling
        self.cls = vocabulary if pooling == "cls" else None
        if front is None:
            extra = 0 if self.cls is None else 1
            front = Embedding(config, vocabulary=vocabulary + extra, length=length + extra)
        elif self.cls is not None:
            raise ValueError("pooling='cls' adds a token, but this model does not read tokens")
        self.encoder = Encoder(config, front)
        poolers = {"attention": AttentionPooling, "pooler": Pooler}
        self.pooler = poolers[pooling](config.d) if pooling in poolers else None
        self.token_dropout = token_dropout
        self.dropout = Dropout(config.dropout)
        self.head = nn.Linear(config.d, classes)
        initialise(self, config.initialisation)

    def pool(self, x: Sequence, mask: Mask | None) -> Pooled:
        """One vector per sequence ``[b, d]``; zeros for one without real tokens."""
        if self.cls is not None:
            return x[:, 0]
        if self.pooler is not None:
            pooled: Pooled = self.pooler(x, mask)
            return pooled
        if self.pooling == "first":
            return first_token(x, mask)
        if mask is None:
            return x.mean(1)
        count = mask.sum(1, keepdim=True).clamp(min=1)
        return zero_padding(x, mask).sum(1) / count

    def forward(
        self, tokens: Tensor, mask: Mask | None = None, types: Tokens | None = None
    ) -> Float[Tensor, "b c"]:
        """Logits ``[b, c]`` for ``tokens``, which are ids ``[b, t]`` or frames ``[b, t, f]``;
        ``mask`` ``[b, t]`` is True at real tokens."""
        out: Tensor = self.head(self.dropout(self.vectors(tokens, mask, types)))
        return out

    def vectors(
        self, tokens: Tensor, mask: Mask | None = None, types: Tokens | None = None
    ) -> Pooled:
        """What the head reads: one vector per sequence ``[b, d]``."""
        if self.cls is not None:
            tokens = nn.functional.pad(tokens, (1, 0), value=self.cls)
            mask = mask if mask is None else nn.functional.pad(mask, (1, 0), value=True)
            types = None if types is None else nn.functional.pad(types, (1, 0))
        positions = None
        if self.training and self.token_dropout:
            tokens, mask, positions, types = self._fewer(tokens, mask, types)
        return self.pool(self.encoder(tokens, mask, positions, types), mask)

    def _fewer(
        self, tokens: Tensor, mask: Mask | None, types: Tokens | None
    ) -> tuple[
        Tensor,
        Bool[Tensor, "b s"] | None,
        Int[Tensor, "b s"] | None,
        Int[Tensor, "b s"] | None,
    ]:
        """Drop some tokens, which also saves their computation. The others keep their positions."""
        kept = torch.rand(tokens.shape[:2], device=tokens.device) >= self.token_dropout
        if self.pooling in ("cls", "first", "pooler"):
            kept[:, 0] = True
        if self.encoder.fixed_length is not None:  # the length is fixed: replace them by padding
            return _padded(tokens, kept, self.encoder.pad), mask, None, types
        kept = kept if mask is None else kept & mask
        most = int(kept.sum(1).max().clamp(min=1))
        which = kept.byte().argsort(dim=1, descending=True, stable=True)[:, :most]
        positions = real_positions(tokens, mask).gather(1, which)
        types = None if types is None else types.gather(1, which)
        rows = torch.arange(len(tokens), device=tokens.device).unsqueeze(1)
        return tokens[rows, which], kept.gather(1, which), positions, types


class CausalModel(nn.Module):
    """Predicts the next token; can stream by carrying a ``ModelState``.

    Args:
        config: the architecture.
        outputs: number of token ids that can be predicted.
        inputs: number of token ids that can be read; may be larger, for a start token.
        length: maximum sequence length, if positions are learned.
        front: the input layer, instead of ``inputs`` and ``length``.

    Example::

        model = CausalModel(ModelConfig(d=64), outputs=256, inputs=257, length=512)
        logits, state = model.scan(torch.tensor([[256, 72, 105]]))  # [1, 3, 256]
        logits, state = model.scan(torch.tensor([[33]]), state)  # continues
    """

    embedding: Embedding

    def __init__(
        self,
        config: ModelConfig,
        *,
        outputs: int,
        inputs: int = 0,
        length: int = 0,
        front: FrontEnd | None = None,
    ) -> None:
        super().__init__()
        if front is None:
            front = Embedding(config, vocabulary=inputs, length=length)
        elif config.tied:
            raise ValueError("tied=True needs a token embedding whose weights the head can share")
        self.embedding = front  # type: ignore[assignment]  # tokens wherever it generates
        self.blocks = blocks(config, causal=True, length=front.length)
        last = config.norm == "pre"
        self.norm = make_norm(config) if last else nn.Identity()
        self.outputs = outputs
        self.head = None if config.tied else nn.Linear(config.d, outputs, bias=config.biases)
        initialise(self, config.initialisation)

    def scan(
        self, tokens: Tensor, state: ModelState | None = None, mask: Mask | None = None
    ) -> tuple[Logits, ModelState]:
        """Read more tokens, continuing from ``state`` (None at the start).

        Args:
            tokens: ids ``[b, t]``.
            state: what an earlier call returned.
            mask: ``[b, t]``, True at real tokens.

        Returns:
            Logits ``[b, t, v]`` for the token after each one, and the state after the last one.
        """
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

    def empty_state(self, rows: int) -> ModelState:
        """The initial state of ``rows`` sequences, before any token has been read."""
        layers = []
        on = next(self.parameters()).device
        for block in self.blocks:
            assert isinstance(block, Block)
            assert isinstance(block.mixer, CausalMixer)
            layers.append(block.mixer.empty_state(rows, device=on))
        return ModelState(torch.zeros(rows, dtype=torch.long, device=on), tuple(layers))

    def forward(self, tokens: Tensor, mask: Mask | None = None) -> Logits:
        return self.scan(tokens, mask=mask)[0]

    def _predict(self, x: Sequence) -> Logits:
        if self.head is None:
            return nn.functional.linear(x, self.embedding.tokens.weight[: self.outputs])
        out: Tensor = self.head(x)
        return out
