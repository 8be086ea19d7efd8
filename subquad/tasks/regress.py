"""Regression from texts or pairs of texts: one number per row, such as the similarity of two
sentences."""

from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from subquad.data import digits
from subquad.data.batches import Batch, Examples
from subquad.data.numbers import Scale
from subquad.data.source import Source, open_source
from subquad.data.splits import split
from subquad.data.store import tokenised
from subquad.data.targets import Numbers, Target
from subquad.data.tokenizers import Tokenizer
from subquad.errors import UsageError
from subquad.models import Classifier, ModelConfig
from subquad.tasks.base import Labelled, Loss, Score
from subquad.tasks.config import Config, DataConfig, TaskOptions, TrainConfig
from subquad.tasks.doubts import about_words
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

Values = npt.NDArray[np.float64]


class Regress(PooledTask):
    """Predicts a number from a text, using a classifier model with a single output. Targets are
    standardised by the mean and standard deviation of the training set."""

    name: ClassVar[str] = "regress"
    score = Score("mse", higher_is_better=False)
    floor_figures = ("mse", "mae", "pearson", "spearman")
    Options: ClassVar[type[TaskOptions]] = PooledOptions
    labels: Scale

    @classmethod
    def defaults(cls) -> Config:
        return Config(
            task=cls.name,
            data=DataConfig(length=512),
            model=ModelConfig(mixers=("fastformer",), d=128, ff=256, dropout=0.2),
            training=TrainConfig(epochs=4, batch=16),
            options=PooledOptions(),
        )

    @classmethod
    def fit(
        cls, config: Config, store: Path, given: Source | None = None
    ) -> tuple["Regress", Examples, Examples]:
        data = config.data
        if data.path == digits.NAME:
            raise UsageError(
                f"--task regress needs texts with numbers; {digits.NAME!r} has classes"
            )
        source = open_training(data, given, labelled=True).knowing(Scale())
        y = _numbers(source)
        if not len(y):
            refuse_none_left(source)
        train, held = split(len(y), data.validation, seed=config.training.seed)
        tokenizer = tokenizer_for(data, chosen_texts(source, train))
        task = cls(reading(config, source), Scale.fitted(y[train], data.path), tokenizer)
        assert task.tokenizer is not None
        stored = tokenised(source, task.tokenizer, store, length=data.length, labels=task.labels)
        training, held_out = stored.examples.view(train), stored.examples.view(held)
        doubt = about_words(task.tokenizer, held_out if len(held) else training)
        task.notes = [*notes(source, stored.examples, data.length), *filter(None, [doubt])]
        return task, training, held_out

    @classmethod
    def load(cls, run: Path, config: Config) -> "Regress":
        return cls(config, Scale.load(run / LABELS), Tokenizer.load(run / TOKENIZER))

    def model(self) -> Classifier:
        assert self.tokenizer is not None
        return self.built(vocabulary=len(self.tokenizer), classes=1)

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        truth = batch.answers(Numbers)
        wanted = (truth - self.labels.mean) / self.labels.std
        found = self.outputs(model, batch).float().squeeze(1)
        return Loss((found - wanted.float()).square().sum(), len(truth))

    def evaluate(
        self, model: nn.Module, examples: Examples, batches: Iterator[Batch]
    ) -> dict[str, Any]:
        truth, guess = [], []
        for batch in batches:
            truth.append(batch.answers(Numbers).cpu().numpy())
            guess.append(self._told(model, batch))
        found = self.measured(Numbers(np.concatenate(truth)), np.concatenate(guess))
        return found | {"examples": len(examples)}

    def measured(self, truth: Target, guess: Values) -> dict[str, Any]:
        return scores(truth.values, guess, self.labels.mean)

    def floors(self) -> tuple[str, ...]:
        return ("mean", "bag of words")

    @classmethod
    def texts(cls, config: Config) -> tuple[Labelled, Labelled]:
        source = open_training(config.data, labelled=True)
        y = _numbers(source)
        rows = split(len(y), config.data.validation, seed=config.training.seed)
        train, held = (
            Labelled(list(chosen_texts(source, part)), Numbers(y[part])) for part in rows
        )
        return train, held

    def labelled(self, path: str) -> Labelled:
        source = open_source(path, self.config.data.reading(), labelled=True).knowing(self.labels)
        texts = [record.text for record in source.records()]
        return Labelled(texts, Numbers(_numbers(source)))

    def predict(self, model: nn.Module, inputs: Sequence[str]) -> list[dict[str, Any]]:
        batch = self.batch(model, inputs)
        found = zip(self._told(model, batch), self.cut(batch), strict=True)
        return [{"number": value} | cut for value, cut in found]

    def about(self, model: nn.Module) -> dict[str, Any]:  # noqa: ARG002
        return {"outputs": "a number, in units of std from mean"} | vars(self.labels)

    def _told(self, model: nn.Module, batch: Batch) -> Values:
        found: torch.Tensor = self.outputs(model, batch).double().squeeze(1).cpu()
        values: Values = found.numpy() * self.labels.std + self.labels.mean
        return values


def _numbers(source: Source) -> Values:
    """The target of each record."""
    found = (Scale.index(str(r.label), source.place(r.row)) for r in source.records())
    return np.frombuffer(array("d", found), dtype=np.float64)


def scores(truth: Values, guess: Values, mean: float) -> dict[str, Any]:
    """Errors and correlations, and the error of always predicting the training ``mean``.
    Correlations are 0 if one of the two is constant."""
    from scipy import stats

    flat = len(truth) < 2 or bool(np.ptp(truth) == 0 or np.ptp(guess) == 0)
    return {
        "mse": float(np.square(truth - guess).mean()),
        "mse_of_the_mean": float(np.square(truth - mean).mean()),
        "mae": float(np.abs(truth - guess).mean()),
        "pearson": 0.0 if flat else float(stats.pearsonr(truth, guess).statistic),
        "spearman": 0.0 if flat else float(stats.spearmanr(truth, guess).statistic),
    }
