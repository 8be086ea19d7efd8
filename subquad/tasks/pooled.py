"""What the tasks share that pool a whole row (a text or a pair of texts) to predict from it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import Tensor, nn

from subquad.data.batches import Batch, Examples, collate
from subquad.data.masking import Specials
from subquad.data.ragged import Ragged
from subquad.data.source import ReadOptions, Source, open_source
from subquad.data.store import tokenised
from subquad.data.targets import Coding
from subquad.data.tokenizers import CLS, MASK, SEP, Tokenizer
from subquad.errors import UsageError
from subquad.models import Classifier
from subquad.models.model import Pooling
from subquad.tasks.base import Inputs, Task
from subquad.tasks.config import Config, TaskOptions, share
from subquad.tasks.texts import LABELS, TOKENIZER, counts, notes, text_inputs, texts_given


@dataclass(frozen=True, kw_only=True)
class PooledOptions(TaskOptions):
    """Options of tasks with one prediction per row."""

    pooling: Pooling = field(default="mean", metadata={"body": True})
    """How tokens are pooled: mean over all tokens, an additional leading token (cls), a learned
    weighted average (attention, as in Fastformer's released encoder), the first token as it is
    (first), or BERT's pooler over the first token (pooler)."""
    special_tokens: bool = field(default=False, metadata={"body": True})
    """Put the tokenizer's own special tokens around each text, such as [CLS] and [SEP]."""
    token_dropout: float | None = 0.0
    """Fraction of a row's tokens that is hidden from the model in training, drawn anew each
    time."""

    def check(self) -> None:
        super().check()
        if self.token_dropout is not None:
            share(self, "token_dropout")


class PooledTask(Task):
    """Base class of tasks that make one prediction per row.

    Args:
        config: the run's configuration.
        labels: encodes the label column (``Labels``, ``LabelSets`` or ``Scale``).
        tokenizer: None if rows are not texts.
    """

    labels: Any
    causal: ClassVar[bool] = False
    usage: ClassVar[str] = "predict RUN FILE"
    unused: ClassVar[frozenset[str]] = frozenset({"tied"})
    keeps_heads: ClassVar[bool] = False
    takes: ClassVar[tuple[str, ...]] = ("texts", "labels", "pairs")

    def __init__(self, config: Config, labels: Any, tokenizer: Tokenizer | None) -> None:
        self.config = config
        self.labels = labels
        self.tokenizer = tokenizer
        self.separator: int | None = None
        if tokenizer is not None and config.options.special_tokens:
            self.tokenizer = tokenizer.framed_as_its_own()
            assert self.tokenizer.frame is not None
            self.separator = next(iter(self.tokenizer.frame.between), None)
        elif tokenizer is not None and config.options.pooling == "pooler":
            self.tokenizer, specials = _framed(tokenizer)
            self.separator = specials.sep
            self.config = replace(config, model=replace(config.model, pad=specials.pad))

    @classmethod
    def check(cls, config: Config) -> None:
        apart = config.options.pooling == "pooler" or config.options.special_tokens
        if config.data.pair is not None and not apart:
            raise ValueError(
                "--pair needs --pooling pooler or --special-tokens, which tell the two texts apart"
            )

    def save(self, run: Path) -> None:
        self.labels.save(run / LABELS)
        if self.tokenizer is not None:
            self.tokenizer.save(run / TOKENIZER)

    def examples(self, path: str, store: Path) -> Examples:
        source = open_source(path, self.reading(), labelled=True).knowing(self.labels)
        return self.read(source, store, self.labels)

    def reading(self) -> ReadOptions:
        """How later files are read."""
        return self.config.data.reading()

    def read(self, source: Source, store: Path, labels: Coding | None) -> Examples:
        """The rows of a source, with targets encoded by ``labels`` unless that is None; sets
        ``notes`` and ``counts``."""
        assert self.tokenizer is not None
        length = self.config.data.length
        stored = tokenised(source, self.tokenizer, store, length=length, labels=labels)
        self.notes = notes(source, stored.examples, length)
        self.counts = counts(source, stored.examples, length)
        return stored.examples

    def built(self, *, vocabulary: int, classes: int) -> Classifier:
        """Build a model with ``classes`` outputs for ``vocabulary`` tokens."""
        options = self.config.options
        return Classifier(
            self.config.model,
            vocabulary=vocabulary,
            length=self.config.data.length,
            classes=classes,
            pooling=options.pooling,
            token_dropout=options.token_dropout or 0.0,
        )

    def outputs(self, model: nn.Module, batch: Batch) -> Tensor:
        """Logits ``[b, c]``."""
        logits: Tensor = model(batch.tokens, batch.mask, self.types(batch.tokens, batch.mask))
        return logits

    def vectors(self, model: nn.Module, inputs: Sequence[str]) -> Tensor:
        batch = self.batch(model, inputs)
        assert isinstance(model, Classifier)
        return model.vectors(batch.tokens, batch.mask, self.types(batch.tokens, batch.mask))

    def types(self, tokens: Tensor, mask: Tensor) -> Tensor | None:
        """Type 1 for the second text of a pair (everything after the first [SEP]), otherwise 0."""
        if self.config.model.types < 2 or self.separator is None:
            return None
        ends = ((tokens == self.separator) & mask).long()
        return ((ends.cumsum(1) - ends) > 0).long()

    def inputs(self, path: str) -> Inputs:
        return text_inputs(path, self.config.data)

    def unlabelled(self, path: str, store: Path) -> Examples:
        self.reads_texts()
        return self.read(open_source(path, self.config.data.reading(), labelled=False), store, None)

    def embedded(self, path: str) -> Inputs:
        self.reads_texts()
        return text_inputs(path, self.config.data)

    def reads_texts(self) -> Tokenizer:
        """The tokenizer.

        Raises:
            UsageError: the run does not read texts.
        """
        if self.tokenizer is None:
            raise UsageError(
                f"this run was trained on {self.config.data.path!r}: it reads pixels, not texts"
            )
        return self.tokenizer

    def checked(self, inputs: Iterable[Any]) -> Iterator[str]:
        return texts_given(inputs, pairs=self.config.data.pair is not None)

    def rows(self, texts: Sequence[str], length: int | None) -> Ragged:
        assert self.tokenizer is not None
        return self.tokenizer.ragged(texts, length)

    def cut(self, batch: Batch) -> list[dict[str, bool]]:
        """For each row, ``{"cut": True}`` if it reaches the maximum length and was truncated."""
        reach = batch.mask.sum(1) >= self.config.data.length
        return [{"cut": True} if cut else {} for cut in reach.tolist()]

    def batch(self, model: nn.Module, texts: Sequence[str]) -> Batch:
        """Texts as one batch, on the model's device."""
        rows = self.rows(texts, self.config.data.length)
        batch = collate(Examples(rows), np.arange(len(texts)))
        return batch.to(next(model.parameters()).device)


def _framed(tokenizer: Tokenizer) -> tuple[Tokenizer, Specials]:
    """A tokenizer that puts each text between [CLS] and [SEP], as the pooler expects, and its
    special tokens."""
    complete = tokenizer.with_specials(CLS, SEP, MASK)
    specials = Specials.of(complete)
    return complete.framed(specials.cls, specials.sep), specials
