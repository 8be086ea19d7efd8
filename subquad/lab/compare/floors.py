"""What must be beaten: the simplest methods, given exactly the rows that the models are given.

A mixer that does not clear its floor has not earned its cost, and the report says so.
"""

import math
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from subquad.data.batches import Examples
from subquad.tasks import Config, Task
from subquad.tasks.classify import Classify, Texts
from subquad.tasks.metrics import classification, confusion
from subquad.tasks.pixels import Pixels

Rows = npt.NDArray[np.int64]
Scores = Callable[[Rows], npt.NDArray[np.float64]]

MAJORITY, BAG, LOGISTIC = "majority class", "bag of words", "logistic regression"
UNIGRAM, MARKOV = "each pixel alone", "the pixel before"
#: Beyond so many levels the table of pairs is too large to keep and too sparse to fill.
MARKOV_LEVELS = 64


@dataclass(frozen=True)
class Floor:
    """One simple method and its figures on rows that it was not fitted to."""

    name: str
    what: str
    """One line for people: how it works."""
    held_out: dict[str, Any]
    test: dict[str, Any] | None
    seconds: float
    """Fitting and scoring, wall clock."""


def floors(
    task: Task, config: Config, training: Examples, held_out: Examples, test: str | None = None
) -> list[Floor]:
    """The floors of a task; a task without any gets an empty list.

    Raises:
        SubquadError: ``config.data.path`` or ``test`` cannot be read, or holds an unknown label.
    """
    if type(task) is Classify:  # a regression is one too, and has no classes
        majority = _majority(task, training, held_out, test)
        if task.tokenizer is not None:
            return [majority, _bag_of_words(task, config, test)]
        return [majority, _logistic(task, training, held_out, test)]
    if isinstance(task, Pixels):
        return _pixels(task, training, held_out, test)
    return []


def _majority(task: Classify, training: Examples, held_out: Examples, test: str | None) -> Floor:
    began = time.perf_counter()
    most = int(np.bincount(_labels(training), minlength=len(task.labels)).argmax())

    def score(truth: Rows) -> dict[str, Any]:
        return _brief(truth, np.full_like(truth, most), task)

    tested = None if test is None else score(_labels(encoded(task, test)))
    what = f"always answers {task.labels.names[most]!r}, the most frequent class in training"
    return Floor(MAJORITY, what, score(_labels(held_out)), tested, time.perf_counter() - began)


def _bag_of_words(task: Classify, config: Config, test: str | None) -> Floor:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    began = time.perf_counter()
    training, held_out = task.texts(config)
    patterns = (r"(?u)\b\w+\b", r"(?u)\S+", r"(?us).")  # words; signs; white space alone
    fits = [p for p in patterns if any(re.search(p, text) for text in training.texts)]
    model = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=fits[0]),
        LogisticRegression(max_iter=1000, C=10),
    )
    model.fit(training.texts, training.labels)

    def score(texts: Texts) -> dict[str, Any]:
        guess = model.predict(texts.texts) if texts.texts else texts.labels
        return _brief(texts.labels, guess, task)

    tested = None if test is None else score(task.labelled(test))
    what = "TF-IDF of words and word pairs (sublinear), then logistic regression; knows no order"
    return Floor(BAG, what, score(held_out), tested, time.perf_counter() - began)


def _logistic(task: Classify, training: Examples, held_out: Examples, test: str | None) -> Floor:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler

    began = time.perf_counter()
    model = make_pipeline(MinMaxScaler(), LogisticRegression(max_iter=1000))
    model.fit(matrix(training), _labels(training))

    def score(examples: Examples) -> dict[str, Any]:
        truth = _labels(examples)
        return _brief(truth, model.predict(matrix(examples)) if len(truth) else truth, task)

    tested = None if test is None else score(encoded(task, test))
    what = "multinomial logistic regression on the 64 pixel values"
    return Floor(LOGISTIC, what, score(held_out), tested, time.perf_counter() - began)


def _pixels(task: Pixels, training: Examples, held_out: Examples, test: str | None) -> list[Floor]:
    """Bits per pixel of two tables of counts over places and grey levels."""

    def unigram() -> Scores:
        logs = np.log2(_marginals(matrix(training), task.images.levels))
        return lambda found: logs[np.arange(found.shape[1] - 1), found[:, 1:]]

    def markov() -> Scores:
        logs = np.log2(_transitions(matrix(training), task.images.levels))
        return lambda found: logs[np.arange(found.shape[1] - 1), found[:, :-1], found[:, 1:]]

    def floor(name: str, what: str, fit: Callable[[], Scores]) -> Floor:
        began = time.perf_counter()
        log2 = fit()

        def score(examples: Examples) -> dict[str, Any]:
            bits = -float(log2(matrix(examples)).mean())
            return {"examples": len(examples), "bits_per_dim": bits, "loss": bits * math.log(2)}

        tested = None if test is None else score(encoded(task, test))
        return Floor(name, what, score(held_out), tested, time.perf_counter() - began)

    found = [floor(UNIGRAM, "how often each level occurs at each place; no context", unigram)]
    if task.images.levels <= MARKOV_LEVELS:
        what = "how often a level follows another at each place (Markov)"
        found.append(floor(MARKOV, what, markov))
    return found


def _marginals(rows: Rows, levels: int) -> npt.NDArray[np.float64]:
    """p(level) at each place, ``[place, level]``; one half is added to every count."""
    counts = np.full((rows.shape[1] - 1, levels), 0.5)
    for level in range(levels):
        counts[:, level] += (rows[:, 1:] == level).sum(0)
    return counts / counts.sum(1, keepdims=True)


def _transitions(rows: Rows, levels: int) -> npt.NDArray[np.float64]:
    """p(level | the one before it) at each place, ``[place, before, level]``; where a pair is
    rare, the place's own marginal stands in (it counts as four observations)."""
    counts = np.zeros((rows.shape[1] - 1, levels + 1, levels))
    places = np.broadcast_to(np.arange(rows.shape[1] - 1), rows[:, 1:].shape)
    np.add.at(counts, (places, rows[:, :-1], rows[:, 1:]), 1)
    counts += 4 * _marginals(rows, levels)[:, None, :]
    return counts / counts.sum(2, keepdims=True)


def encoded(task: Task, path: str) -> Examples:
    """The examples of a test file, in memory."""
    with tempfile.TemporaryDirectory(prefix="subquad-") as scratch:
        examples = task.examples(path, Path(scratch) / "store")
        return examples.select(np.arange(len(examples)))


def matrix(examples: Examples) -> Rows:
    """Rows of one length as an array ``[rows, length]``."""
    return np.stack([examples.tokens[i] for i in range(len(examples))]).astype(np.int64)


def _labels(examples: Examples) -> Rows:
    assert examples.labels is not None
    return examples.labels


def _brief(truth: Rows, guess: Rows, task: Classify) -> Any:
    if not len(truth):
        return {"examples": 0, "accuracy": math.nan, "macro_f1": math.nan}
    table = confusion(truth, guess.astype(np.int64), len(task.labels))
    metrics = classification(table, task.labels)
    return {name: metrics[name] for name in ("examples", "accuracy", "macro_f1")}
