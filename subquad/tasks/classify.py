"""Classification of texts, or of the built-in digits as sequences of 64 pixels: one class per row
(``one_label``), or any number of them (``several_labels``)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy.typing as npt
import torch
from torch import nn

from subquad.data import digits
from subquad.data.batches import Batch, Examples
from subquad.data.label_sets import LabelSets
from subquad.data.labels import Labels
from subquad.data.rows import Record
from subquad.data.source import ReadOptions, Source, open_source
from subquad.data.splits import split
from subquad.data.store import tokenised
from subquad.data.targets import Classes, Target
from subquad.data.tokenizers import Tokenizer
from subquad.errors import UsageError
from subquad.models import Classifier, ModelConfig
from subquad.tasks.base import Inputs, Labelled, Loss
from subquad.tasks.calibration import Calibration, calibrated
from subquad.tasks.classify_options import ClassifyOptions
from subquad.tasks.config import Config, DataConfig, TaskOptions, TrainConfig
from subquad.tasks.doubts import about_labels, about_words
from subquad.tasks.labelled import read_labels
from subquad.tasks.one_label import OneLabel
from subquad.tasks.outputs import ClassOutput
from subquad.tasks.pooled import PooledTask
from subquad.tasks.several_labels import THRESHOLD, SeveralLabels
from subquad.tasks.texts import (
    LABELS,
    TOKENIZER,
    chosen_texts,
    notes,
    open_training,
    reading,
    tokenizer_for,
)

#: From this average number of tokens on, texts count as long.
LONG = 100


class Classify(PooledTask):
    """Classification of texts or pixel sequences into one class or several labels."""

    name: ClassVar[str] = "classify"
    settled: ClassVar[tuple[str, ...]] = ("length", "token_dropout")
    score = OneLabel.score
    Options: ClassVar[type[TaskOptions]] = ClassifyOptions
    heads: ClassVar[tuple[str, ...]] = ("head", THRESHOLD)
    labels: Labels | LabelSets

    def __init__(
        self, config: Config, labels: Labels | LabelSets, tokenizer: Tokenizer | None
    ) -> None:
        super().__init__(config, labels, tokenizer)
        self.class_names = labels.names
        self.way: OneLabel | SeveralLabels
        self.way = SeveralLabels(labels) if isinstance(labels, LabelSets) else OneLabel(labels)
        self.score, self.floor_figures = self.way.score, self.way.figures
        self.weights: torch.Tensor | None = None
        #: Whether evaluation is on the held-out rows that select the best weights.
        self.learning = False

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
        source = open_training(data, given, labelled=True, options=_reading(config))
        read = read_labels(source)
        labels, target = read.labels, read.target
        doubts = about_labels(labels.names, len(read), data.path) if read.one else []
        train, held = read.split(config)
        tokenizer = tokenizer_for(data, chosen_texts(source, train))
        task = cls(reading(config, source), labels, tokenizer)
        assert task.tokenizer is not None
        stored = tokenised(source, task.tokenizer, store, length=data.length)
        examples = Examples(stored.examples.inputs, target)
        training, held_out = examples.view(train), examples.view(held)
        task.learning = True
        task.notes = [
            *notes(source, examples, data.length),
            *task._settle(float(training.lengths.mean())),
            *doubts,
            *filter(
                None,
                [
                    about_words(task.tokenizer, held_out if len(held) else training),
                    labels.rare(target.values, data.path),
                    read.repeated(train, held),
                ],
            ),
        ]
        if config.options.class_weights:
            task.weights = torch.from_numpy(labels.weights(target.values[train]))
        return task, training, held_out

    @classmethod
    def texts(cls, config: Config) -> tuple[Labelled, Labelled]:
        source = open_training(config.data, labelled=True, options=_reading(config))
        read = read_labels(source)
        train, held = (
            Labelled(list(chosen_texts(source, rows)), read.target.select(rows))
            for rows in read.split(config)
        )
        return train, held

    @classmethod
    def _fit_digits(cls, config: Config) -> tuple["Classify", Examples, Examples]:
        length = digits.SHAPE[0] * digits.SHAPE[1]
        usual = cls.defaults()
        for name in ("text", "label", "format", "tokenizer", "quotes", "vocabulary"):
            if getattr(config.data, name) != getattr(usual.data, name):
                raise UsageError(f"--{name} is for texts; {digits.NAME!r} are pixels")
        if config.options.labels_separator is not None:
            raise UsageError(f"--labels-separator is for texts; {digits.NAME!r} are pixels")
        if config.data.length not in (usual.data.length, length):
            raise UsageError(f"--length is for texts; {digits.NAME!r} have {length} pixels")
        config = replace(config, data=replace(config.data, length=length))
        examples = digits.load()
        classes = examples.answers(Classes)
        rows = split(len(examples), config.data.validation, seed=0, labels=classes)
        task = cls(config, Labels(tuple(map(str, range(10)))), None)
        task.learning = True
        task.notes = [*filter(None, [digits.also_here()]), *task._settle(length)]
        return task, examples.select(rows[0]), examples.select(rows[1])

    def _settle(self, mean: float) -> list[str]:
        """Choose the one default that depends on the data: long texts are redundant, so that more
        of their tokens can be dropped (LOG.md). Returns a note about it."""
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
        labels = LabelSets.load(run / LABELS) or Labels.load(run / LABELS)
        task = cls(config, labels, tokenizer)
        task.way.calibration = Calibration.load(run)
        return task

    def reading(self) -> ReadOptions:
        return _reading(self.config, several=isinstance(self.labels, LabelSets))

    def examples(self, path: str, store: Path) -> Examples:
        if self.tokenizer is None:
            if path != digits.NAME:
                raise UsageError(f"this run can be evaluated on {digits.NAME!r} only, not {path!r}")
            self.notes = [*filter(None, [digits.also_here()])]
            return self._fit_digits(self.config)[2]
        if isinstance(self.labels, Labels):
            return super().examples(path, store)
        source = open_source(path, self.reading(), labelled=True).knowing(self.labels)
        return Examples(
            self.read(source, store, None).inputs, read_labels(source, self.labels).target
        )

    def labelled(self, path: str) -> Labelled:
        source = open_source(path, self.reading(), labelled=True).knowing(self.labels)
        texts = [record.text for record in source.records()]
        return Labelled(texts, read_labels(source, self.labels).target)

    def model(self) -> Classifier:
        vocabulary = digits.LEVELS if self.tokenizer is None else len(self.tokenizer)
        made = self.built(vocabulary=vocabulary, classes=len(self.labels))
        self.way.prepare(made)
        return made

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        truth, logits = batch.answers(self.way.kind), self.outputs(model, batch)
        weights = None if self.weights is None else self.weights.to(logits.device)
        smoothing = self.config.options.label_smoothing
        return Loss(self.way.loss(logits.float(), truth, weights, smoothing), len(truth))

    def evaluate(
        self, model: nn.Module, examples: Examples, batches: Iterator[Batch]
    ) -> dict[str, Any]:
        del examples
        return self.way.evaluate(model, self._pairs(model, batches), learning=self.learning)

    def _pairs(
        self, model: nn.Module, batches: Iterator[Batch]
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Truth and logits of each batch."""
        kind = self.way.kind
        return ((batch.answers(kind), self.outputs(model, batch).float()) for batch in batches)

    def finish(self, run: Path, model: nn.Module, batches: Iterator[Batch]) -> None:
        self.way.calibration = calibrated(self.way, self._pairs(model, batches))
        self.way.calibration.save(run)

    def remarks(self) -> tuple[str, ...]:
        found = self.way.calibration
        return () if found is None else (found.sentence(),)

    def inputs(self, path: str) -> Inputs:
        self.reads_texts()
        return super().inputs(path)

    def predict(self, model: nn.Module, inputs: Sequence[str]) -> list[dict[str, Any]]:
        self.reads_texts()
        batch = self.batch(model, inputs)
        answers = self.way.answers(model, self.outputs(model, batch).float())
        return [answer | cut for answer, cut in zip(answers, self.cut(batch), strict=True)]

    def truths(self, path: str) -> Iterator[Record]:
        self.reads_texts()
        return open_source(path, self.reading(), labelled=True).knowing(self.labels).records()

    def mistake(self, truth: Record, answer: dict[str, Any]) -> dict[str, Any] | None:
        assert truth.label is not None
        return self.way.mistake(truth.label, answer)

    def answer(self, model: nn.Module, logits: torch.Tensor) -> str:
        return self.way.sentence(model, logits.float())

    def about(self, model: nn.Module) -> dict[str, Any]:
        return self.way.about(model)

    def page(self) -> ClassOutput:
        if self.tokenizer is None:
            raise UsageError("the run classifies pixels, but a page can only classify texts")
        if self.config.data.pair is not None:
            raise UsageError(
                "the run classifies pairs of texts, but a page only single texts; use --to onnx"
            )
        if isinstance(self.labels, LabelSets):
            raise UsageError(
                "the run predicts several labels, but a page only one class; use --to onnx"
            )
        return ClassOutput(self.tokenizer, self.labels.names, self.way.temperature)

    def floors(self) -> tuple[str, ...]:
        best = "logistic regression" if self.tokenizer is None else "bag of words"
        return (*self.way.floors, best)

    def measured(self, truth: Target, guess: npt.NDArray[Any]) -> dict[str, Any]:
        return self.way.measured(truth.values, guess)


def _reading(config: Config, *, several: bool = True) -> ReadOptions:
    """How files are read; ``several`` allows more than one label per row."""
    separator = config.options.labels_separator
    return replace(config.data.reading(), several=several, separator=separator)
