"""Classification of texts, and of the built-in digits read as 64 pixels in a row."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from subquad.data import digits
from subquad.data.batches import Batch, Examples, collate
from subquad.data.labels import Labels
from subquad.data.ragged import Ragged
from subquad.data.source import ReadOptions, Record, open_source
from subquad.data.splits import split
from subquad.data.tokenizers import Tokenizer
from subquad.models import Classifier, ModelConfig
from subquad.tasks.base import Loss, Score, Task
from subquad.tasks.config import Config, DataConfig, TrainConfig
from subquad.tasks.metrics import classification

TOKENIZER, LABELS = "tokenizer.json", "labels.json"


class Classify(Task):
    """Text or pixels in, a class out."""

    name: ClassVar[str] = "classify"
    causal: ClassVar[bool] = False
    score: ClassVar[Score] = Score("accuracy", higher_is_better=True)

    def __init__(self, config: Config, labels: Labels, tokenizer: Tokenizer | None) -> None:
        self.config = config
        self.labels = labels
        self.tokenizer = tokenizer

    @classmethod
    def defaults(cls) -> Config:
        return Config(
            task=cls.name,
            data=DataConfig(),
            model=ModelConfig(mixers=("fastformer",), dropout=0.2),
            training=TrainConfig(epochs=4, batch=32),
        )

    @classmethod
    def fit(cls, config: Config) -> tuple["Classify", Examples, Examples]:
        if config.data.path == digits.NAME:
            return cls._fit_digits(config)
        records = _labelled(config.data, config.data.path)
        labels = Labels.of((label for _, label in records), config.data.path)
        y = np.array([labels.index(label, config.data.path) for _, label in records])
        train, held = split(
            len(records), config.data.validation, seed=config.training.seed, labels=y
        )
        tokenizer = Tokenizer.train(
            config.data.tokenizer, (records[i][0] for i in train), config.data.vocabulary
        )
        task = cls(config, labels, tokenizer)
        examples = Examples(task._encode([text for text, _ in records]), y)
        return task, examples.select(train), examples.select(held)

    @classmethod
    def _fit_digits(cls, config: Config) -> tuple["Classify", Examples, Examples]:
        length = digits.SHAPE[0] * digits.SHAPE[1]
        config = replace(config, data=replace(config.data, length=length))
        examples = digits.load()
        assert examples.labels is not None
        rows = split(len(examples), config.data.validation, seed=0, labels=examples.labels)
        task = cls(config, Labels(tuple(map(str, range(10)))), None)
        return task, examples.select(rows[0]), examples.select(rows[1])

    def save(self, run: Path) -> None:
        self.labels.save(run / LABELS)
        if self.tokenizer is not None:
            self.tokenizer.save(run / TOKENIZER)

    @classmethod
    def load(cls, run: Path, config: Config) -> "Classify":
        tokenizer = None
        if config.data.path != digits.NAME:
            tokenizer = Tokenizer.load(run / TOKENIZER)
        return cls(config, Labels.load(run / LABELS), tokenizer)

    def examples(self, path: str) -> Examples:
        if self.tokenizer is None:
            return self._fit_digits(self.config)[2]
        records = _labelled(self.config.data, path)
        y = [
            self.labels.index(label, f"{path}, row {i}") for i, (_, label) in enumerate(records, 1)
        ]
        return Examples(self._encode([text for text, _ in records]), np.array(y, dtype=np.int64))

    def _encode(self, texts: Sequence[str]) -> Ragged:
        assert self.tokenizer is not None
        return Ragged.of(self.tokenizer.encode(texts, self.config.data.length))

    def model(self) -> Classifier:
        return Classifier(
            self.config.model,
            vocabulary=digits.LEVELS if self.tokenizer is None else len(self.tokenizer),
            length=self.config.data.length,
            classes=len(self.labels),
        )

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        assert batch.labels is not None
        logits = model(batch.tokens, batch.mask)
        total = nn.functional.cross_entropy(logits.float(), batch.labels, reduction="sum")
        return Loss(total, len(batch.labels))

    def evaluate(
        self, model: nn.Module, examples: Examples, batches: Iterator[Batch]
    ) -> dict[str, Any]:
        truth, guess, total = [], [], 0.0
        for batch in batches:
            assert batch.labels is not None
            logits = model(batch.tokens, batch.mask).float()
            total += float(nn.functional.cross_entropy(logits, batch.labels, reduction="sum"))
            truth.append(batch.labels)
            guess.append(logits.argmax(-1))
        metrics = classification(torch.cat(truth).numpy(), torch.cat(guess).numpy(), self.labels)
        return metrics | {"loss": total / len(examples)}

    def predict(self, model: nn.Module, inputs: Sequence[str]) -> list[dict[str, Any]]:
        batch = collate(Examples(self._encode(inputs)), np.arange(len(inputs)))
        chances = model(batch.tokens, batch.mask).float().softmax(-1)
        return [
            {
                "label": self.labels.names[int(row.argmax())],
                "probabilities": dict(zip(self.labels.names, row.tolist(), strict=True)),
            }
            for row in chances
        ]


def _labelled(data: DataConfig, path: str) -> list[tuple[str, str]]:
    source = open_source(path, ReadOptions(text=data.text, label=data.label), labelled=True)
    return [(record.text, _label(record, path)) for record in source.records()]


def _label(record: Record, path: str) -> str:
    assert record.label is not None, f"{path}, row {record.row}"
    return record.label
