"""Regression of texts, or of pairs: a number per row, such as how alike two sentences are."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from subquad.data import digits
from subquad.data.batches import Batch, Examples
from subquad.data.numbers import SCALE, Numbers
from subquad.data.splits import split
from subquad.data.store import tokenised
from subquad.data.tokenizers import Tokenizer
from subquad.errors import UsageError
from subquad.models import Classifier
from subquad.tasks.base import Loss, Score
from subquad.tasks.classify import Classify
from subquad.tasks.config import Config
from subquad.tasks.doubts import about_words
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


class Regress(Classify):
    """Text in, a number out: the model of a classifier with one class, in units of training's
    spread."""

    name: ClassVar[str] = "regress"
    score: ClassVar[Score] = Score("mse", higher_is_better=False)
    labels: Numbers

    @classmethod
    def defaults(cls) -> Config:
        usual = Classify.defaults()
        training = replace(usual.training, label_smoothing=0.0)
        return replace(usual, task=cls.name, training=training)

    @classmethod
    def fit(cls, config: Config, store: Path) -> tuple["Regress", Examples, Examples]:
        data = config.data
        if data.path == digits.NAME:
            raise UsageError(f"{digits.NAME!r} have classes; regress is for texts with numbers")
        any_number = Numbers()
        source = open_training(data, labelled=True).knowing(any_number)
        y = np.array(
            [any_number.index(str(r.label), source.place(r.row)) for r in source.records()],
            dtype=np.int64,
        )
        if not len(y):
            refuse_none_left(source)
        train, held = split(len(y), data.validation, seed=config.training.seed)
        tokenizer = tokenizer_for(data, chosen_texts(source, train))
        task = cls(reading(config, source), Numbers.fitted(y[train], data.path), tokenizer)
        assert task.tokenizer is not None
        stored = tokenised(source, task.tokenizer, store, length=data.length, labels=task.labels)
        training, held_out = stored.examples.view(train), stored.examples.view(held)
        doubt = about_words(task.tokenizer, held_out if len(held) else training)
        task.notes = [*notes(source, stored.examples, data.length), *filter(None, [doubt])]
        return task, training, held_out

    @classmethod
    def load(cls, run: Path, config: Config) -> "Regress":
        return cls(config, Numbers.load(run / LABELS), Tokenizer.load(run / TOKENIZER))

    def model(self) -> Classifier:
        assert self.tokenizer is not None
        return Classifier(
            self.config.model,
            vocabulary=len(self.tokenizer),
            length=self.config.data.length,
            classes=1,
        )

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        assert batch.labels is not None
        wanted = (batch.labels.double() / SCALE - self.labels.mean) / self.labels.std
        found = self._logits(model, batch).float().squeeze(1)
        return Loss((found - wanted.float()).square().sum(), len(batch.labels))

    def evaluate(
        self, model: nn.Module, examples: Examples, batches: Iterator[Batch]
    ) -> dict[str, Any]:
        truth, guess = [], []
        for batch in batches:
            assert batch.labels is not None
            truth.append(batch.labels.cpu().numpy() / SCALE)
            guess.append(self._numbers(model, batch))
        return scores(np.concatenate(truth), np.concatenate(guess), self.labels.mean) | {
            "examples": len(examples)
        }

    def predict(self, model: nn.Module, inputs: Sequence[str]) -> list[dict[str, Any]]:
        batch = self._batch(model, inputs)
        found = zip(self._numbers(model, batch), self._cut(batch), strict=True)
        return [{"number": value} | cut for value, cut in found]

    def _numbers(self, model: nn.Module, batch: Batch) -> Values:
        found: torch.Tensor = self._logits(model, batch).double().squeeze(1).cpu()
        values: Values = found.numpy() * self.labels.std + self.labels.mean
        return values


def scores(truth: Values, guess: Values, mean: float) -> dict[str, Any]:
    """Errors, beside that of always telling training's ``mean``; correlations are 0 where one of
    the two never changes."""
    from scipy import stats

    flat = len(truth) < 2 or bool(np.ptp(truth) == 0 or np.ptp(guess) == 0)
    return {
        "mse": float(np.square(truth - guess).mean()),
        "mse_of_the_mean": float(np.square(truth - mean).mean()),
        "mae": float(np.abs(truth - guess).mean()),
        "pearson": 0.0 if flat else float(stats.pearsonr(truth, guess).statistic),
        "spearman": 0.0 if flat else float(stats.spearmanr(truth, guess).statistic),
    }
