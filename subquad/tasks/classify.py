"""Classification of texts, and of the built-in digits read as 64 pixels in a row."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from subquad.data import digits
from subquad.data.batches import Batch, Examples, collate
from subquad.data.labels import Labels
from subquad.data.masking import Specials
from subquad.data.source import Source, open_source
from subquad.data.splits import count_duplicates, split
from subquad.data.store import tokenised
from subquad.data.tokenizers import CLS, MASK, SEP, Tokenizer
from subquad.errors import UsageError
from subquad.models import Classifier, ModelConfig
from subquad.tasks.base import Loss, Score, Task
from subquad.tasks.config import Config, DataConfig, TrainConfig
from subquad.tasks.doubts import about_labels, about_words
from subquad.tasks.metrics import classification, confusion
from subquad.tasks.texts import (
    LABELS,
    TOKENIZER,
    chosen_texts,
    counts,
    notes,
    open_training,
    reading,
    refuse_none_left,
    tokenizer_for,
)

#: Texts of so many tokens on average are long.
LONG = 100


@dataclass(frozen=True)
class Texts:
    """Texts with the number of each one's class."""

    texts: Sequence[str]
    labels: npt.NDArray[np.int64]


class Classify(Task):
    """Text or pixels in, a class out."""

    name: ClassVar[str] = "classify"
    settled: ClassVar[tuple[str, ...]] = ("length", "token_dropout")
    causal: ClassVar[bool] = False
    score: ClassVar[Score] = Score("accuracy", higher_is_better=True)

    def __init__(self, config: Config, labels: Labels, tokenizer: Tokenizer | None) -> None:
        self.config = config
        self.labels = labels
        self.tokenizer = tokenizer
        self.separator: int | None = None
        if tokenizer is not None and config.model.pooling == "pooler":
            self.tokenizer, specials = _framed(tokenizer)
            self.separator = specials.sep
            self.config = replace(config, model=replace(config.model, pad=specials.pad))
        self.weights: torch.Tensor | None = None

    @classmethod
    def defaults(cls) -> Config:
        return Config(
            task=cls.name,
            data=DataConfig(length=512),
            model=ModelConfig(
                mixers=("fastformer",), d=128, ff=256, dropout=0.2, token_dropout=None
            ),
            training=TrainConfig(epochs=4, batch=16, label_smoothing=0.1),
        )

    @classmethod
    def fit(cls, config: Config, store: Path) -> tuple["Classify", Examples, Examples]:
        if config.data.path == digits.NAME:
            return cls._fit_digits(config)
        data = config.data
        source = open_training(data, labelled=True)
        labels, y = _labels(source)
        doubts = about_labels(labels.names, len(y), data.path)
        train, held = split(len(y), data.validation, seed=config.training.seed, labels=y)
        tokenizer = tokenizer_for(data, chosen_texts(source, train))
        task = cls(reading(config, source), labels, tokenizer)
        assert task.tokenizer is not None
        stored = tokenised(source, task.tokenizer, store, length=data.length, labels=labels)
        training, held_out = stored.examples.view(train), stored.examples.view(held)
        task.notes = [
            *notes(source, stored.examples, data.length),
            *task._settle(float(training.tokens.lengths.mean())),
            *doubts,
            *filter(
                None,
                [
                    about_words(task.tokenizer, held_out if len(held) else training),
                    labels.rare(y, data.path),
                    _repeated(source, train, held),
                ],
            ),
        ]
        if config.training.class_weights:
            task.weights = torch.from_numpy(labels.weights(y[train]))
        return task, training, held_out

    @classmethod
    def texts(cls, config: Config) -> tuple[Texts, Texts]:
        """The training texts and the held-out ones, in memory: the rows that ``fit`` encodes."""
        source = open_training(config.data, labelled=True)
        _, y = _labels(source)
        rows = split(len(y), config.data.validation, seed=config.training.seed, labels=y)
        train, held = (Texts(list(chosen_texts(source, part)), y[part]) for part in rows)
        return train, held

    @classmethod
    def _fit_digits(cls, config: Config) -> tuple["Classify", Examples, Examples]:
        length = digits.SHAPE[0] * digits.SHAPE[1]
        usual = cls.defaults().data
        for name in ("text", "label", "format", "tokenizer", "quotes", "vocabulary"):
            if getattr(config.data, name) != getattr(usual, name):
                raise UsageError(f"--{name} is for texts; {digits.NAME!r} are pixels")
        if config.data.length not in (usual.length, length):
            raise UsageError(f"--length is for texts; {digits.NAME!r} have {length} pixels")
        config = replace(config, data=replace(config.data, length=length))
        examples = digits.load()
        assert examples.labels is not None
        rows = split(len(examples), config.data.validation, seed=0, labels=examples.labels)
        task = cls(config, Labels(tuple(map(str, range(10)))), None)
        task.notes = [*filter(None, [digits.also_here()]), *task._settle(length)]
        return task, examples.select(rows[0]), examples.select(rows[1])

    def _settle(self, mean: float) -> list[str]:
        """The one default that depends on the data: long texts say everything several times, so
        more of them can be left out (LOG.md). What a person should know of it."""
        if self.config.model.token_dropout is not None:
            return []
        share = 0.5 if mean >= LONG else 0.2
        model = replace(self.config.model, token_dropout=share)
        self.config = replace(self.config, model=model)
        return [
            f"token_dropout is {share}: texts have {mean:.0f} tokens on average "
            f"({'' if mean >= LONG else 'fewer than '}{LONG}{' or more' if mean >= LONG else ''})"
        ]

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

    def examples(self, path: str, store: Path) -> Examples:
        if self.tokenizer is None:
            if path != digits.NAME:
                raise UsageError(f"this run reads {digits.NAME!r}, not {path!r}")
            self.notes = [*filter(None, [digits.also_here()])]
            return self._fit_digits(self.config)[2]
        source = open_source(path, self.config.data.reading(), labelled=True).knowing(self.labels)
        length = self.config.data.length
        stored = tokenised(source, self.tokenizer, store, length=length, labels=self.labels)
        self.notes = notes(source, stored.examples, length)
        self.counts = counts(source, stored.examples, length)
        return stored.examples

    def labelled(self, path: str) -> Texts:
        """The texts of another file and their classes, which training must have seen."""
        source = open_source(path, self.config.data.reading(), labelled=True).knowing(self.labels)
        records = list(source.records())
        pairs = ((record.row, str(record.label)) for record in records)
        return Texts([record.text for record in records], self.labels.indices(pairs, path))

    def model(self) -> Classifier:
        return Classifier(
            self.config.model,
            vocabulary=digits.LEVELS if self.tokenizer is None else len(self.tokenizer),
            length=self.config.data.length,
            classes=len(self.labels),
        )

    def _logits(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """The second text of a pair, what stands behind the first [SEP], is of type 1."""
        types = None
        if self.config.model.types > 1 and self.separator is not None:
            ends = (batch.tokens == self.separator) & batch.mask
            types = ((ends.cumsum(1) - ends.long()) > 0).long()
        logits: torch.Tensor = model(batch.tokens, batch.mask, types)
        return logits

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        assert batch.labels is not None
        logits = self._logits(model, batch)
        weights = None if self.weights is None else self.weights.to(logits.device)
        total = nn.functional.cross_entropy(
            logits.float(),
            batch.labels,
            weight=weights,
            reduction="sum",
            label_smoothing=self.config.training.label_smoothing,
        )
        return Loss(total, len(batch.labels))

    def evaluate(
        self, model: nn.Module, examples: Examples, batches: Iterator[Batch]
    ) -> dict[str, Any]:
        truth, guess = [], []
        total = 0.0
        for batch in batches:
            assert batch.labels is not None
            logits = self._logits(model, batch).float()
            total += float(nn.functional.cross_entropy(logits, batch.labels, reduction="sum"))
            truth.append(batch.labels.cpu().numpy())
            guess.append(logits.argmax(-1).cpu().numpy())
        table = confusion(np.concatenate(truth), np.concatenate(guess), len(self.labels))
        return classification(table, self.labels) | {"loss": total / len(examples)}

    def _batch(self, model: nn.Module, inputs: Sequence[str]) -> Batch:
        assert self.tokenizer is not None
        tokens = self.tokenizer.ragged(inputs, self.config.data.length)
        batch = collate(Examples(tokens), np.arange(len(inputs)))
        return batch.to(next(model.parameters()).device)

    def predict(self, model: nn.Module, inputs: Sequence[str]) -> list[dict[str, Any]]:
        if self.tokenizer is None:
            raise UsageError(f"this run reads {digits.NAME!r}: it predicts from pixels, not texts")
        batch = self._batch(model, inputs)
        chances = self._logits(model, batch).float().softmax(-1)
        return [
            {
                "label": self.labels.names[int(row.argmax())],
                "probabilities": dict(zip(self.labels.names, row.tolist(), strict=True)),
            }
            | cut
            for row, cut in zip(chances, self._cut(batch), strict=True)
        ]

    def _cut(self, batch: Batch) -> list[dict[str, bool]]:
        """``{"cut": True}`` for each row that reaches the length, where it was cut."""
        reach = batch.mask.sum(1) >= self.config.data.length
        return [{"cut": True} if cut else {} for cut in reach.tolist()]


def _framed(tokenizer: Tokenizer) -> tuple[Tokenizer, Specials]:
    """Each text between [CLS] and [SEP], as the pooler is used to; and the specials."""
    complete = tokenizer.with_specials(CLS, SEP, MASK)
    specials = Specials.of(complete)
    return complete.framed(specials.cls, specials.sep), specials


def _labels(source: Source) -> tuple[Labels, npt.NDArray[np.int64]]:
    """The classes of a source, and that of each record."""
    codes: dict[str, int] = {}
    coded = array("q")
    for record in source.records():
        assert record.label is not None
        coded.append(codes.setdefault(record.label, len(codes)))
    if not codes:
        refuse_none_left(source)
    labels = Labels.of(codes, str(source.path))
    order = np.array([labels.index(name, str(source.path)) for name in codes], dtype=np.int64)
    return labels, order[np.frombuffer(coded, dtype=np.int64)]


def _repeated(source: Source, train: npt.NDArray[np.int64], held: npt.NDArray[np.int64]) -> str:
    count = count_duplicates(chosen_texts(source, train), chosen_texts(source, held))
    return f"{count} of {len(held)} held-out texts also occur in training" if count else ""
