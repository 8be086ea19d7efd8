"""Floors: simple baselines that a model should beat, fitted to the same training set as the models.

A mixer that does not beat its floors is not worth its cost, and the report says so. A task lists
its floors by name (``Task.floors``); how each is fitted depends on the kind of target (classes,
label sets or numbers), not on the task.
"""

import math
import re
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from subquad.data.batches import Examples
from subquad.data.targets import Classes, ClassSets, Numbers, Target
from subquad.errors import SubquadError
from subquad.lab import frozen
from subquad.run import load
from subquad.tasks import Config, Task
from subquad.tasks.base import Labelled
from subquad.tasks.outputs import PictureOutput

Rows = npt.NDArray[np.int64]
#: A fitted baseline: from texts, or encoded examples, to one prediction for each.
Guess = Callable[[Any], npt.NDArray[Any]]

MAJORITY, BAG, LOGISTIC = "majority class", "bag of words", "logistic regression"
FROZEN = "frozen vectors"
MEAN, FREQUENT = "mean", "most frequent labels"
UNIGRAM, MARKOV = "each pixel alone", "the pixel before"
#: With more levels than this, the table of pairs is too large to store and too sparse to estimate.
MARKOV_LEVELS = 64


@dataclass(frozen=True)
class Floor:
    """One baseline and its metrics on data that it was not fitted to."""

    name: str
    what: str
    """How it works, in one line for the report."""
    held_out: dict[str, Any]
    test: dict[str, Any] | None
    seconds: float
    """Wall-clock time of fitting and scoring."""


@dataclass(frozen=True)
class _Data:
    """What a baseline is fitted to and scored on."""

    task: Task
    config: Config
    training: Examples
    held_out: Examples
    test: str | None


@dataclass(frozen=True)
class _Scored:
    """How a baseline works, and its metrics on the held-out set and the test file."""

    what: str
    held_out: dict[str, Any]
    test: dict[str, Any] | None


def floors(
    task: Task, config: Config, training: Examples, held_out: Examples, test: str | None = None
) -> list[Floor]:
    """Fit and score the baselines of ``task``; the list is empty if it has none.

    Raises:
        SubquadError: ``config.data.path`` or ``test`` cannot be read or contains an unknown label,
            or the task asks for a baseline that does not exist.
    """
    data, made = _Data(task, config, training, held_out, test), []
    wanted = task.floors()
    if config.training.start is not None and BAG in wanted:
        wanted = (*wanted, FROZEN)
    for name in wanted:
        if name not in _FLOORS:
            known = ", ".join(_FLOORS)
            raise SubquadError(
                f"the task {task.name} asks for the floor {name!r}, which does not exist; "
                f"available: {known}"
            )
        began = time.perf_counter()
        found = _FLOORS[name](data)
        if found is not None:
            seconds = time.perf_counter() - began
            made.append(Floor(name, found.what, found.held_out, found.test, seconds))
    return made


def _on_rows(data: _Data, what: str, guess: Guess) -> _Scored:
    """Score a ``guess`` that takes encoded examples."""

    def score(examples: Examples) -> dict[str, Any]:
        assert examples.target is not None
        return _measured(data.task, examples.target, guess(examples))

    tested = None if data.test is None else score(encoded(data.task, data.test))
    return _Scored(what, score(data.held_out), tested)


def _on_texts(data: _Data, what: str, held_out: Labelled, guess: Guess) -> _Scored:
    """Score a ``guess`` that takes a list of texts."""

    def score(rows: Labelled) -> dict[str, Any]:
        return _measured(data.task, rows.target, guess(rows.texts))

    tested = None if data.test is None else score(data.task.labelled(data.test))
    return _Scored(what, score(held_out), tested)


def _measured(task: Task, truth: Target, guess: npt.NDArray[Any]) -> dict[str, Any]:
    if not len(truth.values):
        return {"examples": 0} | dict.fromkeys(task.floor_figures, math.nan)
    found = task.measured(truth, guess) | {"examples": len(truth.values)}
    return {name: found[name] for name in ("examples", *task.floor_figures)}


def _majority(data: _Data) -> _Scored:
    most = int(np.bincount(data.training.answers(Classes)).argmax())
    name = data.task.class_names[most]
    what = f"always predicts {name!r}, the most frequent class in the training set"
    return _on_rows(data, what, lambda rows: np.full(len(rows), most, dtype=np.int64))


def _most_frequent(data: _Data) -> _Scored:
    sets, counts = np.unique(data.training.answers(ClassSets), axis=0, return_counts=True)
    most = sets[counts.argmax()]
    names = ", ".join(np.array(data.task.class_names)[most]) or "none"
    what = f"always predicts {names}, the most frequent set of labels in the training set"
    return _on_rows(data, what, lambda rows: np.tile(most, (len(rows), 1)))


def _mean(data: _Data) -> _Scored:
    mean = float(data.training.answers(Numbers).mean())
    what = f"always predicts {mean:g}, the mean of the training set"
    return _on_rows(data, what, lambda rows: np.full(len(rows), mean))


def _bag_of_words(data: _Data) -> _Scored:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline

    training, held_out = data.task.texts(data.config)
    patterns = (r"(?u)\b\w+\b", r"(?u)\S+", r"(?us).")  # words; else symbols; else white space
    fits = [p for p in patterns if any(re.search(p, text) for text in training.texts)]
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=fits[0])
    numbers = isinstance(training.target, Numbers)
    last, then = LogisticRegression(max_iter=1000, C=10), "logistic regression"
    if numbers:
        last, then = Ridge(), "ridge regression"
    elif isinstance(training.target, ClassSets):
        last, then = OneVsRestClassifier(last), "logistic regression for each label"
    model = make_pipeline(words, last)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Label (not )?.* is present in all training examples")
        model.fit(training.texts, training.target.values)
    what = f"TF-IDF of words and word pairs (sublinear), then {then}; ignores word order"
    return _on_texts(data, what, held_out, lambda texts: _told(model, texts))


def _frozen(data: _Data) -> _Scored | None:
    """None if the start has no vectors of texts."""
    assert data.config.training.start is not None
    try:
        run = load(data.config.training.start)
        run.embed(["a"])
    except SubquadError:
        return None
    training, held_out = data.task.texts(data.config)
    model = frozen.estimator(training.target).fit(run.embed(training.texts), training.target.values)
    what = f"{frozen.in_words(training.target)} on the vectors of the start, which is not trained"
    return _on_texts(
        data, what, held_out, lambda texts: _told(model, run.embed(texts) if texts else ())
    )


def _logistic(data: _Data) -> _Scored:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler

    model = make_pipeline(MinMaxScaler(), LogisticRegression(max_iter=1000))
    model.fit(matrix(data.training), data.training.answers(Classes))
    what = f"multinomial logistic regression on the {data.training.lengths[0]} pixel values"
    return _on_rows(data, what, lambda rows: _told(model, matrix(rows) if len(rows) else ()))


def _told(model: Any, inputs: Sequence[Any] | npt.NDArray[Any]) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = model.predict(inputs) if len(inputs) else np.zeros(0)
    return found


def _unigram(data: _Data) -> _Scored:
    logs = np.log2(_marginals(matrix(data.training), _levels(data)))
    what = "how often each level occurs at each position; no context"
    return _bits(data, what, lambda rows: logs[np.arange(rows.shape[1] - 1), rows[:, 1:]])


def _markov(data: _Data) -> _Scored | None:
    if _levels(data) > MARKOV_LEVELS:
        return None
    logs = np.log2(_transitions(matrix(data.training), _levels(data)))
    what = "how often one level follows another at each position (first-order Markov model)"
    places = np.arange(data.training.lengths[0] - 1)
    return _bits(data, what, lambda rows: logs[places, rows[:, :-1], rows[:, 1:]])


def _levels(data: _Data) -> int:
    made = data.task.generates()
    assert isinstance(made, PictureOutput), "pixel baselines need a task that generates images"
    return made.levels


def _bits(data: _Data, what: str, log2: Guess) -> _Scored:
    """Score a table of log2-probabilities in bits per pixel."""

    def score(examples: Examples) -> dict[str, Any]:
        bits = -float(log2(matrix(examples)).mean())
        return {"examples": len(examples), "bits_per_dim": bits, "loss": bits * math.log(2)}

    tested = None if data.test is None else score(encoded(data.task, data.test))
    return _Scored(what, score(data.held_out), tested)


def _marginals(rows: Rows, levels: int) -> npt.NDArray[np.float64]:
    """p(level) at each position, ``[position, level]``, smoothed by adding ½ to every count."""
    counts = np.full((rows.shape[1] - 1, levels), 0.5)
    for level in range(levels):
        counts[:, level] += (rows[:, 1:] == level).sum(0)
    return counts / counts.sum(1, keepdims=True)


def _transitions(rows: Rows, levels: int) -> npt.NDArray[np.float64]:
    """p(level | previous level) at each position, ``[position, previous, level]``, smoothed with
    the position's marginal distribution, which counts as four observations."""
    counts = np.zeros((rows.shape[1] - 1, levels + 1, levels))
    places = np.broadcast_to(np.arange(rows.shape[1] - 1), rows[:, 1:].shape)
    np.add.at(counts, (places, rows[:, :-1], rows[:, 1:]), 1)
    counts += 4 * _marginals(rows, levels)[:, None, :]
    return counts / counts.sum(2, keepdims=True)


_FLOORS: dict[str, Callable[[_Data], _Scored | None]] = {
    MAJORITY: _majority,
    FREQUENT: _most_frequent,
    MEAN: _mean,
    BAG: _bag_of_words,
    FROZEN: _frozen,
    LOGISTIC: _logistic,
    UNIGRAM: _unigram,
    MARKOV: _markov,
}


def encoded(task: Task, path: str) -> Examples:
    """The examples of a test file, in memory."""
    with tempfile.TemporaryDirectory(prefix="subquad-") as scratch:
        examples = task.examples(path, Path(scratch) / "store")
        return examples.select(np.arange(len(examples)))


def matrix(examples: Examples) -> Rows:
    """Examples of equal length as one array ``[rows, length]``."""
    return np.stack([examples.tokens[i] for i in range(len(examples))]).astype(np.int64)
