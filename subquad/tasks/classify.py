"""Classification of texts, and of the built-in digits read as 64 pixels in a row."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from subquad.data import digits
from subquad.data.batches import Batch, Examples
from subquad.data.labels import Labels
from subquad.data.source import Source, open_source
from subquad.data.splits import Rows, repeated, split, text_hash
from subquad.data.store import tokenised
from subquad.data.targets import Classes, Target
from subquad.data.tokenizers import Tokenizer
from subquad.errors import UsageError
from subquad.models import Classifier, ModelConfig
from subquad.tasks.base import Inputs, Labelled, Loss, Score
from subquad.tasks.config import Config, DataConfig, TaskOptions, TrainConfig, share
from subquad.tasks.doubts import about_labels, about_words
from subquad.tasks.metrics import classification, confusion
from subquad.tasks.outputs import ClassOutput
from subquad.tasks.pooled import PooledOptions, PooledTask
from subquad.tasks.texts import (
    LABELS,
    TOKENIZER,
    chosen_texts,
    notes,
    open_training,
    reading,
    refuse_none_left,
    tokenizer_for,
)

#: Texts of so many tokens on average are long.
LONG = 100


@dataclass(frozen=True, kw_only=True)
class ClassifyOptions(PooledOptions):
    """How classes are learned."""

    token_dropout: float | None = field(
        default=None,
        metadata={"omitted": "0.5 for texts of 100 tokens or more on average, else 0.2"},
    )
    """Part of a row's tokens that the model does not see in training, drawn anew each time."""
    class_weights: bool = False
    """Every class counts the same in the loss, however rare."""
    label_smoothing: float = 0.1
    """Part of the target that is spread over all classes."""

    def check(self) -> None:
        super().check()
        share(self, "label_smoothing")


class Classify(PooledTask):
    """Text or pixels in, a class out."""

    name: ClassVar[str] = "classify"
    settled: ClassVar[tuple[str, ...]] = ("length", "token_dropout")
    score: ClassVar[Score] = Score("accuracy", higher_is_better=True)
    floor_figures: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1")
    Options: ClassVar[type[TaskOptions]] = ClassifyOptions
    labels: Labels

    def __init__(self, config: Config, labels: Labels, tokenizer: Tokenizer | None) -> None:
        super().__init__(config, labels, tokenizer)
        self.class_names = labels.names
        self.weights: torch.Tensor | None = None

    @classmethod
    def defaults(cls) -> Config:
        return Config(
            task=cls.name,
            data=DataConfig(length=512),
            model=ModelConfig(mixers=("fastformer",), d=128, ff=256, dropout=0.2),
            training=TrainConfig(epochs=4, batch=16),
            options=ClassifyOptions(),
        )

    @classmethod
    def fit(
        cls, config: Config, store: Path, given: Source | None = None
    ) -> tuple["Classify", Examples, Examples]:
        if config.data.path == digits.NAME:
            return cls._fit_digits(config)
        data = config.data
        source = open_training(data, given, labelled=True)
        labels, y, hashes = _read(source)
        doubts = about_labels(labels.names, len(y), data.path)
        train, held = split(len(y), data.validation, seed=config.training.seed, labels=y)
        tokenizer = tokenizer_for(data, chosen_texts(source, train))
        task = cls(reading(config, source), labels, tokenizer)
        assert task.tokenizer is not None
        stored = tokenised(source, task.tokenizer, store, length=data.length, labels=labels)
        training, held_out = stored.examples.view(train), stored.examples.view(held)
        task.notes = [
            *notes(source, stored.examples, data.length),
            *task._settle(float(training.lengths.mean())),
            *doubts,
            *filter(
                None,
                [
                    about_words(task.tokenizer, held_out if len(held) else training),
                    labels.rare(y, data.path),
                    _again(hashes, train, held),
                ],
            ),
        ]
        if config.options.class_weights:
            task.weights = torch.from_numpy(labels.weights(y[train]))
        return task, training, held_out

    @classmethod
    def texts(cls, config: Config) -> tuple[Labelled, Labelled]:
        source = open_training(config.data, labelled=True)
        _, y, _ = _read(source)
        rows = split(len(y), config.data.validation, seed=config.training.seed, labels=y)
        train, held = (
            Labelled(list(chosen_texts(source, part)), Classes(y[part])) for part in rows
        )
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
        classes = examples.answers(Classes)
        rows = split(len(examples), config.data.validation, seed=0, labels=classes)
        task = cls(config, Labels(tuple(map(str, range(10)))), None)
        task.notes = [*filter(None, [digits.also_here()]), *task._settle(length)]
        return task, examples.select(rows[0]), examples.select(rows[1])

    def _settle(self, mean: float) -> list[str]:
        """The one default that depends on the data: long texts say everything several times, so
        more of them can be left out (LOG.md). What a person should know of it."""
        if self.config.options.token_dropout is not None:
            return []
        share = 0.5 if mean >= LONG else 0.2
        options = replace(self.config.options, token_dropout=share)
        self.config = replace(self.config, options=options)
        return [
            f"token_dropout is {share}: texts have {mean:.0f} tokens on average "
            f"({'' if mean >= LONG else 'fewer than '}{LONG}{' or more' if mean >= LONG else ''})"
        ]

    @classmethod
    def load(cls, run: Path, config: Config) -> "Classify":
        tokenizer = None
        if config.data.path != digits.NAME:
            tokenizer = Tokenizer.load(run / TOKENIZER)
        return cls(config, Labels.load(run / LABELS), tokenizer)

    def examples(self, path: str, store: Path) -> Examples:
        if self.tokenizer is not None:
            return super().examples(path, store)
        if path != digits.NAME:
            raise UsageError(f"this run reads {digits.NAME!r}, not {path!r}")
        self.notes = [*filter(None, [digits.also_here()])]
        return self._fit_digits(self.config)[2]

    def labelled(self, path: str) -> Labelled:
        source = open_source(path, self.config.data.reading(), labelled=True).knowing(self.labels)
        records = list(source.records())
        pairs = ((record.row, str(record.label)) for record in records)
        truth = Classes(self.labels.indices(pairs, path))
        return Labelled([record.text for record in records], truth)

    def model(self) -> Classifier:
        vocabulary = digits.LEVELS if self.tokenizer is None else len(self.tokenizer)
        return self.built(vocabulary=vocabulary, classes=len(self.labels))

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        truth, logits = batch.answers(Classes), self.outputs(model, batch)
        weights = None if self.weights is None else self.weights.to(logits.device)
        total = nn.functional.cross_entropy(
            logits.float(),
            truth,
            weight=weights,
            reduction="sum",
            label_smoothing=self.config.options.label_smoothing,
        )
        return Loss(total, len(truth))

    def evaluate(
        self, model: nn.Module, examples: Examples, batches: Iterator[Batch]
    ) -> dict[str, Any]:
        truth, guess = [], []
        total = 0.0
        for batch in batches:
            answers, logits = batch.answers(Classes), self.outputs(model, batch).float()
            total += float(nn.functional.cross_entropy(logits, answers, reduction="sum"))
            truth.append(answers.cpu().numpy())
            guess.append(logits.argmax(-1).cpu().numpy())
        table = confusion(np.concatenate(truth), np.concatenate(guess), len(self.labels))
        return classification(table, self.labels) | {"loss": total / len(examples)}

    def inputs(self, path: str) -> Inputs:
        self._texts()
        return super().inputs(path)

    def predict(self, model: nn.Module, inputs: Sequence[str]) -> list[dict[str, Any]]:
        self._texts()
        batch = self.batch(model, inputs)
        chances = self.outputs(model, batch).float().softmax(-1)
        return [
            {
                "label": self.labels.names[int(row.argmax())],
                "probabilities": dict(zip(self.labels.names, row.tolist(), strict=True)),
            }
            | cut
            for row, cut in zip(chances, self.cut(batch), strict=True)
        ]

    def _texts(self) -> Tokenizer:
        """The tokenizer of a run that reads texts; another refuses them."""
        if self.tokenizer is None:
            raise UsageError(f"this run reads {digits.NAME!r}: it predicts from pixels, not texts")
        return self.tokenizer

    def answer(self, logits: torch.Tensor) -> str:
        chances = logits.float().softmax(-1)
        best = self.labels.names[int(chances.argmax())]
        return f"says {best} ({float(chances.max()):.0%})"

    def page(self) -> ClassOutput:
        if self.tokenizer is None:
            raise UsageError("it reads pixels, and a page reads texts")
        if self.config.data.pair is not None:
            raise UsageError("it reads pairs of texts, and a page one text: --to onnx exports it")
        return ClassOutput(self.tokenizer, self.labels.names)

    def floors(self) -> tuple[str, ...]:
        best = "logistic regression" if self.tokenizer is None else "bag of words"
        return ("majority class", best)

    def measured(self, truth: Target, guess: npt.NDArray[np.int64]) -> dict[str, Any]:
        table = confusion(truth.values, guess.astype(np.int64), len(self.labels))
        return classification(table, self.labels)


def _read(source: Source) -> tuple[Labels, npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """The classes of a source, that of each record, and a hash of each text."""
    codes: dict[str, int] = {}
    coded, hashes = array("q"), array("Q")
    for record in source.records():
        assert record.label is not None
        coded.append(codes.setdefault(record.label, len(codes)))
        hashes.append(text_hash(record.text))
    if not codes:
        refuse_none_left(source)
    labels = Labels.of(codes, str(source.path))
    order = np.array([labels.index(name, str(source.path)) for name in codes], dtype=np.int64)
    y = order[np.frombuffer(coded, dtype=np.int64)]
    return labels, y, np.frombuffer(hashes, dtype=np.uint64)


def _again(hashes: npt.NDArray[np.uint64], train: Rows, held: Rows) -> str:
    count = repeated(hashes[train], hashes[held])
    return f"{count} of {len(held)} held-out texts also occur in training" if count else ""
