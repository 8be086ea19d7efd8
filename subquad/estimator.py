"""subquad as scikit-learn knows models: ``TextClassifier`` and ``TextRegressor``.

>>> model = TextClassifier(mixer="fastformer").fit(texts, labels)
>>> model.predict(["free money"])

They learn from a list of texts, work in ``cross_val_score``, ``GridSearchCV`` and as the last step
of a ``Pipeline``, and are saved and loaded as runs, which the command reads.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from subquad.data.cells import label_of
from subquad.data.memory import listed, plain
from subquad.errors import SubquadError, UsageError
from subquad.fitting import Temporary, train
from subquad.run import Run, load
from subquad.storage import write_text

#: What scikit-learn's side of a run is written to.
ESTIMATOR = "estimator.json"

Labels = npt.NDArray[Any]


class _TextEstimator(BaseEstimator):
    """What both have in common: parameters, texts, and the run that is learned."""

    task: ClassVar[str]

    def __init__(
        self,
        mixer: str | None = None,
        *,
        epochs: float | None = None,
        lr: float | None = None,
        d: int | None = None,
        layers: int | None = None,
        length: int | None = None,
        random_state: Any = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.mixer = mixer
        self.epochs = epochs
        self.lr = lr
        self.d = d
        self.layers = layers
        self.length = length
        self.random_state = random_state
        self.options = options

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        return tags

    def _learn(self, texts: list[str], labels: list[Any]) -> None:
        """Train ``run_``; what is wrong is a ``ValueError``, as scikit-learn's users expect."""
        named = ("mixer", "epochs", "lr", "d", "layers", "length")
        further = dict(self.options or {})
        if twice := next((name for name in (*named, "seed") if name in further), None):
            raise UsageError(f"options has {twice!r}, which is a parameter of its own")
        given = {name: getattr(self, name) for name in named} | further
        if self.random_state is not None:
            given["seed"] = int(check_random_state(self.random_state).randint(2**31 - 1))
        try:
            self.run_ = train(task=self.task, texts=texts, labels=labels, **given)
        except SubquadError as error:
            raise UsageError(str(error)) from None

    def _answers(self, texts: Iterable[str]) -> list[dict[str, Any]]:
        check_is_fitted(self, "run_")
        try:
            return self.run_.predict(_texts(texts))
        except SubquadError as error:
            raise UsageError(str(error)) from None

    def save(self, path: str | Path) -> None:
        """Write the run into the directory ``path``, which must not exist: the command reads it,
        and so does ``load``.

        Raises:
            NotFittedError: nothing has been learned.
            UsageError: ``path`` is taken, or a class is neither text, number nor truth value.
        """
        check_is_fitted(self, "run_")
        path = Path(path)
        if path.exists():
            raise UsageError(f"{path} is there already: choose another directory")
        parameters = {name: plain(value) for name, value in self.get_params().items()}
        if not isinstance(self.random_state, int | None):
            parameters["random_state"] = self.run_.config.training.seed
        try:
            about = json.dumps({"parameters": parameters, **self._about()}, indent=1)
        except TypeError as error:
            raise UsageError(f"this cannot be saved as JSON: {error}") from None
        for name, content in _files(self.run_.path).items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
        write_text(path / ESTIMATOR, about + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """What ``save`` wrote, or any run of the same task.

        Raises:
            SubquadError: it is no such run.
        """
        run = load(path)
        if run.config.task != cls.task:
            raise UsageError(f"{path} is a run of the task {run.config.task}, not {cls.task}")
        file = Path(path) / ESTIMATOR
        about: dict[str, Any] = {}
        if file.exists():
            try:
                about = json.loads(file.read_text(encoding="utf-8"))
                made = cls(**about["parameters"])
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise SubquadError(f"{file} cannot be read: {error}") from None
        else:
            made = cls(mixer=",".join(run.config.model.mixers))
        made._opened(run, about)
        return made

    def _about(self) -> dict[str, Any]:
        return {}

    def _opened(self, run: Run, about: dict[str, Any]) -> None:  # noqa: ARG002
        self.run_ = run

    def __getstate__(self) -> dict[str, Any]:
        """A fitted one takes its run with it, as the bytes of its files: to other processes."""
        state: dict[str, Any] = dict(super().__getstate__())
        if "run_" in state:
            state["run_"] = _files(state["run_"].path)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "run_" in state:
            kept = Temporary()
            for name, content in state["run_"].items():
                (kept.path / name).write_bytes(content)
            state = state | {"run_": replace(load(kept.path), kept=kept)}
        super().__setstate__(state)


class TextClassifier(ClassifierMixin, _TextEstimator):
    """A classifier of texts.

    Args:
        mixer: the token mixer, or one for each layer with commas between.
        epochs, lr, d, layers, length: as the flags of ``subquad train``; None = the task's default.
        random_state: decides the split, the first weights and the order; None = always the same.
        options: further settings, called as the flags are: ``{"class_weights": True}``.

    After ``fit``: ``classes_``, the labels as they were given, in order; ``run_``, the trained run.
    """

    task: ClassVar[str] = "classify"

    def fit(self, X: Iterable[str], y: Iterable[Any]) -> Self:
        """Learn from texts and a label for each.

        Raises:
            UsageError (a ``ValueError``): what cannot be learned from, by its place from 1.
        """
        texts, labels = _texts(X), _labels(y)
        check_consistent_length(texts, labels)
        try:
            check_classification_targets(labels)
            self.classes_, numbers = np.unique(labels, return_inverse=True)
        except TypeError as error:
            raise UsageError(f"the labels are of several types: {error}") from None
        if len(self.classes_) < 2:
            raise UsageError(f"one class ({self.classes_[0]!r}): a classifier needs at least two")
        names = _names(self.classes_)
        self._learn(texts, [names[i] for i in numbers])
        return self

    def predict(self, X: Iterable[str]) -> Labels:
        """The class of each text, one of ``classes_``."""
        best = self.predict_proba(X).argmax(axis=1)
        found: Labels = self.classes_[best]
        return found

    def predict_proba(self, X: Iterable[str]) -> npt.NDArray[np.float64]:
        """``[n, c]``: the probability of each class of ``classes_``."""
        answers = self._answers(X)
        names = _names(self.classes_)
        found = [[answer["probabilities"][name] for name in names] for answer in answers]
        return np.array(found, dtype=np.float64)

    def _about(self) -> dict[str, Any]:
        return {"classes": self.classes_.tolist(), "dtype": self.classes_.dtype.str}

    def _opened(self, run: Run, about: dict[str, Any]) -> None:
        super()._opened(run, about)
        names = list(run.task.class_names)
        self.classes_ = np.array(about.get("classes", names), dtype=about.get("dtype"))


class TextRegressor(RegressorMixin, _TextEstimator):
    """A regressor of texts: a number for each. Arguments as those of ``TextClassifier``."""

    task: ClassVar[str] = "regress"

    def fit(self, X: Iterable[str], y: Iterable[float]) -> Self:
        """Learn from texts and a number for each.

        Raises:
            UsageError (a ``ValueError``): what cannot be learned from, by its place from 1.
        """
        texts, numbers = _texts(X), _labels(y)
        check_consistent_length(texts, numbers)
        if len(texts) < 2:
            raise UsageError("1 sample: a regressor needs at least two")
        self._learn(texts, numbers.tolist())
        return self

    def predict(self, X: Iterable[str]) -> npt.NDArray[np.float64]:
        """The number of each text."""
        return np.array([answer["number"] for answer in self._answers(X)], dtype=np.float64)


def _files(run: Path) -> dict[str, bytes]:
    """The files of a run by name; not those that only training needs."""
    return {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}


def _texts(X: Any) -> list[str]:
    if hasattr(X, "toarray"):
        raise UsageError("X is a sparse matrix; a list of texts is wanted")
    texts = listed("X", X)
    if not texts:
        raise UsageError("X has 0 texts; at least 1 is wanted")
    return list(texts)  # type: ignore[arg-type]  # what is none is named by its place


def _labels(y: Any) -> Labels:
    if y is None:
        raise UsageError("y should be a 1d array of labels, got None")
    labels: Labels = column_or_1d(y, warn=True)
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    return labels


def _names(classes: Labels) -> list[str]:
    """What the classes are called in the run: as in a file, unless two would have one name."""
    found = [label_of(plain(value), "y") for value in classes]
    names = [name for name, problem in found if not problem]
    if len({name.lower() for name in names}) < len(classes):
        return [f"class {i}" for i in range(len(classes))]
    return names
