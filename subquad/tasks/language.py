"""Causal language modelling: predict the next byte or token from all before it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import nn

from subquad.data.batches import Examples
from subquad.data.ragged import Ragged, Windows
from subquad.data.source import Source, open_source
from subquad.data.store import tokenised
from subquad.data.tokenizers import Tokenizer
from subquad.errors import SubquadError, UsageError
from subquad.models import CausalModel, ModelConfig, foreign
from subquad.tasks.causal import CausalTask
from subquad.tasks.config import Config, DataConfig, TaskOptions, TrainConfig
from subquad.tasks.doubts import about_words
from subquad.tasks.outputs import TextOutput
from subquad.tasks.texts import (
    TOKENIZER,
    before,
    counts,
    notes,
    open_training,
    reading,
    tokenizer_for,
    tokens_before,
)

_LOSES = "bits per byte are not reported, because the tokenizer cannot reproduce this text exactly"


@dataclass(frozen=True)
class LanguageOptions(TaskOptions):
    """Options of ``language``."""

    start_token: str | None = field(
        default=None, metadata={"body": True, "omitted": "an id of its own"}
    )
    """Token of the tokenizer that stands before every text."""
    end_token: str | None = field(
        default=None, metadata={"body": True, "omitted": "the start token"}
    )
    """Token of the tokenizer that ends a text where the model predicts it."""


class Language(CausalTask):
    """All texts are joined into one stream, with a start token before each, and cut into windows of
    ``length`` tokens.

    The start token is predicted as well, and marks the end of a text. The held-out set is the end
    of the stream.
    """

    name: ClassVar[str] = "language"
    takes: ClassVar[tuple[str, ...]] = ("texts",)
    settled: ClassVar[tuple[str, ...]] = ("length", "positions")
    unused: ClassVar[frozenset[str]] = frozenset({"label", "pair", "types"})
    tokenizer: Tokenizer
    Options: ClassVar[type[TaskOptions]] = LanguageOptions

    def __init__(self, config: Config, tokenizer: Tokenizer) -> None:
        self.config = config
        self.tokenizer = tokenizer
        usual = len(tokenizer) if tokenizer.separator is None else tokenizer.separator
        #: Stands before every text.
        self.start = _known(tokenizer, "start_token", config.options.start_token, usual)
        self.end = _known(tokenizer, "end_token", config.options.end_token, self.start)

    @classmethod
    def defaults(cls) -> Config:
        return Config(
            task=cls.name,
            data=DataConfig(tokenizer="bytes", length=256),
            # In ten minutes on two cores, many small steps learn more than a few large ones. The
            # convolution is there because linear attention alone is slow to learn local context.
            model=ModelConfig(
                mixers=("convolution", "linear"),
                layers=4,
                d=128,
                heads=4,
                ff=512,
                norm="pre",
                positions=None,
                dropout=0.0,
            ),
            training=TrainConfig(minutes=10, batch=4, lr=4e-3, optimizer="muon"),
            options=LanguageOptions(),
        )

    @classmethod
    def fit(
        cls, config: Config, store: Path, given: Source | None = None
    ) -> tuple["Language", Examples, Examples]:
        data = config.data
        source = open_training(data, given, labelled=False)
        characters = sum(len(record.text) for record in source.pieces())
        cut = round(characters * (1 - data.validation))
        if cut < 2:
            raise SubquadError(f"{data.path} is too short to train on: {characters} characters")
        tokenizer = tokenizer_for(data, before(source, cut))
        task = cls(replace(reading(config, source), model=config.model.placed()), tokenizer)
        stored = tokenised(source, tokenizer, store, start=task.start)
        stream = stored.examples.tokens.values
        here = min(tokens_before(source, tokenizer, cut, starts=True), len(stream) - 1)
        if here < 2:
            raise SubquadError(f"{data.path} is too short to train on: {here} tokens")
        task.notes = notes(source, stored.examples, None)
        if config.model.positions is None:
            task.notes = [*task.notes, _places(task.config.model)]
        size = _bytes(source) - sum(len(text.encode()) for text in before(source, cut))
        # The first held-out token is only read, not predicted. It is the start token of a text if
        # the cut falls there (which keeps texts of equal length aligned with the windows), or
        # otherwise the last training token.
        first = here if stream[here] == task.start else here - 1
        held_out = task._windows(stream[first:] if size else stream[:0], size)
        if size and held_out.bytes is None:
            task.notes = [*task.notes, _LOSES]
        if doubt := about_words(tokenizer, held_out if size else stored.examples):
            task.notes = [*task.notes, doubt]
        return task, task._windows(stream[:here], None), held_out

    @classmethod
    def of(cls, body: foreign.Body) -> "Language":
        """The task of a loaded body."""
        usual = cls.defaults()
        tokenizer = Tokenizer.load(body.tokenizer)
        start, end = (i if i is None else tokenizer.token(i) or None for i in body.ends)
        data = replace(usual.data, length=body.length, tokenizer=str(body.tokenizer))
        training = replace(usual.training, precision="fp32")
        config = replace(usual, data=data, model=body.config, training=training)
        return cls(
            replace(config, options=LanguageOptions(start_token=start, end_token=end)), tokenizer
        )

    def save(self, run: Path) -> None:
        self.tokenizer.save(run / TOKENIZER)

    @classmethod
    def load(cls, run: Path, config: Config) -> "Language":
        return cls(config, Tokenizer.load(run / TOKENIZER))

    def examples(self, path: str, store: Path) -> Examples:
        source = open_source(path, self.config.data.reading(), labelled=False)
        stored = tokenised(source, self.tokenizer, store, start=self.start)
        found = self._windows(stored.examples.tokens.values, _bytes(source))
        lost = [] if found.bytes else [_LOSES]
        self.notes = [*notes(source, stored.examples, None), *lost]
        self.counts = counts(source, stored.examples, None)
        return found

    def _windows(self, stream: Any, size: int | None) -> Examples:
        """Windows over a stream that encodes ``size`` bytes of text. With unknown tokens the number
        of bytes is undefined."""
        unknown = self.tokenizer.unknown
        if not self.tokenizer.exact or (unknown is not None and bool((stream == unknown).any())):
            size = None
        return Examples(Windows.over(stream, self.config.data.length), bytes=size)

    def unlabelled(self, path: str, store: Path) -> Examples:
        stream = self.examples(path, store).tokens.values
        # A window has one more token, which is there to be predicted.
        return Examples(Windows.over(stream, max(self.config.data.length - 1, 1)))

    def model(self) -> nn.Module:
        known = max(len(self.tokenizer), self.start + 1)
        length = self.config.data.length
        return CausalModel(self.config.model, inputs=known, outputs=known, length=length)

    def rows(self, texts: Sequence[str], length: int | None) -> Ragged:
        rows = self.tokenizer.rows(texts, length and length - 1)
        return Ragged.of(np.concatenate([[self.start], row]).astype(np.int32) for row in rows)

    def generates(self) -> TextOutput:
        return TextOutput(self.tokenizer, self.start, self.end)

    def units(self, bits: float, count: int, examples: Examples) -> dict[str, Any]:
        measured = {"bits_per_token": bits / count, "perplexity_per_token": 2 ** (bits / count)}
        return (
            measured if not examples.bytes else {"bits_per_byte": bits / examples.bytes} | measured
        )


def _known(tokenizer: Tokenizer, option: str, token: str | None, usual: int) -> int:
    """The id of a token that was named, or the ``usual`` one."""
    if token is None:
        return usual
    if (found := tokenizer.special(token)) is None:
        flag = option.replace("_", "-")
        raise UsageError(f"--{flag} {token!r} is not a token of the tokenizer")
    return found


def _places(model: ModelConfig) -> str:
    if model.positions == "none":
        return "no positional encoding: the convolution encodes the order of tokens, at any length"
    return (
        f"learned positions, as {model.layer_mixers()[0]} does not encode the order of tokens "
        "(--positions)"
    )


def _bytes(source: Source) -> int:
    return sum(len(record.text.encode()) for record in source.pieces())
