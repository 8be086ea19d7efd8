"""Causal text: the next byte or token, given all before it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import nn

from subquad.data.batches import Examples
from subquad.data.ragged import Ragged
from subquad.data.source import ReadOptions, open_source
from subquad.data.splits import split
from subquad.data.tokenizers import Tokenizer
from subquad.errors import SubquadError
from subquad.models import CausalModel, ModelConfig
from subquad.tasks.causal import CausalTask
from subquad.tasks.classify import TOKENIZER
from subquad.tasks.config import Config, DataConfig, TrainConfig


class Language(CausalTask):
    """All texts in one stream, a start token before each, cut into windows of ``length`` tokens.

    The start token is predicted too: it ends a text.
    """

    name: ClassVar[str] = "language"

    def __init__(self, config: Config, tokenizer: Tokenizer) -> None:
        self.config = config
        self.tokenizer = tokenizer
        #: Stands before every text.
        self.start = len(tokenizer)

    @classmethod
    def defaults(cls) -> Config:
        return Config(
            task=cls.name,
            data=DataConfig(tokenizer="bytes", length=256),
            model=ModelConfig(mixers=("linear",), layers=4, d=256, heads=8, ff=1024, dropout=0.1),
            training=TrainConfig(minutes=20, batch=32, lr=2e-3),
        )

    @classmethod
    def fit(cls, config: Config) -> tuple["Language", Examples, Examples]:
        texts, held_out = _parts(_texts(config.data, config.data.path), config)
        tokenizer = Tokenizer.train(config.data.tokenizer, texts, config.data.vocabulary)
        task = cls(config, tokenizer)
        return task, task._windows(texts), task._windows(held_out)

    def save(self, run: Path) -> None:
        self.tokenizer.save(run / TOKENIZER)

    @classmethod
    def load(cls, run: Path, config: Config) -> "Language":
        return cls(config, Tokenizer.load(run / TOKENIZER))

    def examples(self, path: str) -> Examples:
        return self._windows(_texts(self.config.data, path))

    def _windows(self, texts: Sequence[str]) -> Examples:
        start = np.array([self.start], dtype=np.int32)
        rows = (np.asarray(ids, dtype=np.int32) for ids in self.tokenizer.encode(texts))
        stream = np.concatenate([part for row in rows for part in (start, row)] or [start])
        size = sum(len(text.encode()) for text in texts)
        return Examples(Ragged.windows(stream, self.config.data.length), bytes=size)

    def model(self) -> nn.Module:
        known = self.start + 1
        length = self.config.data.length
        return CausalModel(self.config.model, inputs=known, outputs=known, length=length)

    def units(self, bits: float, count: int, examples: Examples) -> dict[str, Any]:
        assert examples.bytes, "text has bytes"
        return {
            "bits_per_byte": bits / examples.bytes,
            "bits_per_token": bits / count,
            "perplexity_per_token": 2 ** (bits / count),
        }


def _texts(data: DataConfig, path: str) -> list[str]:
    source = open_source(path, ReadOptions(text=data.text), labelled=False)
    return [record.text for record in source.records()]


def _parts(texts: list[str], config: Config) -> tuple[list[str], list[str]]:
    """Held out: some of many texts; of a single one, its end."""
    if len(texts) > 1:
        train, held = split(len(texts), config.data.validation, seed=config.training.seed)
        return [texts[i] for i in train], [texts[i] for i in held]
    cut = round(len(texts[0]) * (1 - config.data.validation))
    if cut < 1:
        raise SubquadError(f"{config.data.path} is too short to learn from")
    return [texts[0][:cut]], [texts[0][cut:]] if cut < len(texts[0]) else []
