"""The estimators in scikit-learn's hands, and its own checks of them.

Those checks speak numbers: ``OfNumbers`` turns each row of numbers into a text, a word for each, so
that everything but the reading of a table is checked.
"""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_regressors_train, parametrize_with_checks
from sklearn.utils.validation import validate_data

from subquad import TextClassifier, TextRegressor, estimator
from subquad.errors import SubquadError, UsageError
from subquad.run import load

TINY = {"ff": 16, "heads": 2, "batch": 8, "steps": 40, "dropout": 0.0, "token_dropout": 0.0}
TINY |= {"evaluations": 1, "precision": "fp32"}
SMALL = {"d": 16, "layers": 1, "length": 16, "lr": 0.02}
WORDS = ("goal match team", "bank loan price", "rain cloud wind")
TEXTS = [f"{WORDS[i % 3]} {i % 5}" for i in range(60)]


def classifier(**given: Any) -> TextClassifier:
    return TextClassifier(**(SMALL | {"options": TINY} | given))


def regressor(**given: Any) -> TextRegressor:
    return TextRegressor(**(SMALL | {"options": TINY} | given))


KINDS = {
    "str": ["sport", "money", "weather"],
    "int": [7, -1, 10],
    "numpy": [np.int16(7), np.int16(3), np.int16(11)],
    "bool": [True, False, True],
    "float": [1.0, 2.0, 10.0],
    "odd names": ["", "1.0", "1"],
    "alike": ["True", "true", "TRUE"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_labels_come_back_as_they_were(tmp_path: Path, kind: str) -> None:
    labels = np.array([KINDS[kind][i % 3] for i in range(60)])
    model = classifier().fit(TEXTS, labels.tolist() if kind != "numpy" else labels)
    assert model.classes_.tolist() == sorted(set(KINDS[kind]))
    assert model.classes_.dtype == labels.dtype
    assert model.score(TEXTS, labels) > 0.9
    assert model.predict(TEXTS).dtype == labels.dtype
    chances = model.predict_proba(TEXTS)
    assert chances.shape == (60, len(model.classes_))
    np.testing.assert_allclose(chances.sum(1), 1, rtol=1e-5)
    model.save(tmp_path / "run")
    again = TextClassifier.load(tmp_path / "run")
    assert again.classes_.dtype == labels.dtype
    np.testing.assert_array_equal(again.predict_proba(TEXTS), chances)
    assert again.get_params() == model.get_params()


def test_what_is_saved_is_a_run(tmp_path: Path) -> None:
    model = classifier().fit(TEXTS, [WORDS[i % 3].split()[0] for i in range(60)])
    model.save(tmp_path / "run")
    answer = load(tmp_path / "run").predict(TEXTS[:1])[0]
    assert answer["label"] == model.predict(TEXTS[:1])[0] == "goal"
    with pytest.raises(UsageError, match="is there already"):
        model.save(tmp_path / "run")
    (tmp_path / "run" / estimator.ESTIMATOR).unlink()  # as a run that the command trained
    assert TextClassifier.load(tmp_path / "run").predict(TEXTS[:1]) == ["goal"]
    with pytest.raises(UsageError, match="a run of the task classify, not regress"):
        TextRegressor.load(tmp_path / "run")
    for text in ("[", "[1]", '{"parameters": {"colour": 1}}'):
        (tmp_path / "run" / estimator.ESTIMATOR).write_text(text)
        with pytest.raises(SubquadError, match=r"estimator\.json cannot be read"):
            TextClassifier.load(tmp_path / "run")


def test_numbers_are_told(tmp_path: Path) -> None:
    numbers = [(-2.5, 0.25, 9.0)[i % 3] for i in range(60)]
    model = regressor().fit(TEXTS, numbers)
    assert model.score(TEXTS, numbers) > 0.8
    model.save(tmp_path / "run")
    again = TextRegressor.load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict(TEXTS), model.predict(TEXTS))


@pytest.mark.parametrize(
    "make", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_copies_answer_alike_and_live_alone(make: Any) -> None:
    model = classifier(random_state=3).fit(TEXTS, ["a", "b", "c"] * 20)
    chances = model.predict_proba(TEXTS)
    other = make(model)
    assert other.run_.path != model.run_.path
    assert other.run_.path.is_dir()
    del model
    np.testing.assert_array_equal(other.predict_proba(TEXTS), chances)
    assert other.run_.best()


def test_the_seed_decides() -> None:
    labels = ["a", "b", "c"] * 20
    first, second, third = (
        classifier(random_state=seed).fit(TEXTS, labels).predict_proba(TEXTS) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, second)
    assert np.abs(first - third).max() > 1e-6


def test_cross_validation_search_and_pipeline() -> None:
    labels = ["a", "b", "c"] * 20
    assert cross_val_score(classifier(), TEXTS, labels, cv=2).mean() > 0.9
    search = GridSearchCV(classifier(), {"mixer": ["none", "linear"], "d": np.array([8, 16])}, cv=2)
    search.fit(TEXTS, labels)
    assert search.best_score_ > 0.9
    assert search.best_estimator_.run_.config.model.d in (8, 16)
    folded = make_pipeline(
        FunctionTransformer(lambda texts: [t.lower() for t in texts]), clone(classifier())
    )
    assert folded.fit([t.upper() for t in TEXTS], labels).score(TEXTS, labels) > 0.9


def test_what_cannot_be_learned_from_is_a_value_error_in_one_line() -> None:
    labels = ["a", "b", "c"] * 20
    for texts, y, said in (
        ("a text", ["a"], "X is a str; a list is wanted"),
        ([], [], "X has 0 texts"),
        ([*TEXTS[:-1], None], labels, r"in memory, row 60: the text .* is empty"),
        ([*TEXTS[:-1], 7], labels, r"row 60: the text .* holds 7 \(int\), not a string"),
        ([*TEXTS[:-1], ""], labels, "row 60: .* is empty"),
        (np.array(TEXTS).reshape(-1, 1), labels, r"X has shape \[60, 1\]; one dimension"),
        (TEXTS, labels[:-1], "inconsistent numbers of samples"),
        (TEXTS, ["a"] * 60, r"one class \(.*'a'.*\): a classifier needs at least two"),
        (TEXTS, None, "should be a 1d array"),
        (TEXTS, [0.5, float("nan")] * 30, "NaN"),
        (TEXTS, ["a", 1, None] * 20, "types"),
        (TEXTS, np.linspace(0, 1, 60), "continuous"),
    ):
        with pytest.raises(ValueError, match=said) as error:
            classifier().fit(texts, y)
        assert isinstance(error.value, ValueError)
    with pytest.raises(NotFittedError):
        classifier().predict(TEXTS)
    model = classifier().fit(TEXTS, labels)
    with pytest.raises(ValueError, match="text 2 is empty"):
        model.predict(["a", ""])
    with pytest.raises(ValueError, match="X is a str"):
        model.predict("free money")
    with pytest.raises(ValueError, match="options has 'lr'"):
        classifier(options={"lr": 1}).fit(TEXTS, labels)
    with pytest.raises(ValueError, match="there is no option --colour"):
        classifier(options={"colour": 1}).fit(TEXTS, labels)
    with pytest.raises(ValueError, match="y contains NaN"):
        regressor().fit(TEXTS, [1.0, float("nan"), 2.0] * 20)


class OfNumbers:
    """Rows of numbers as texts: the sign and the size of each number in its column, as a word."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.two_d_array = True
        tags.input_tags.one_d_array = tags.input_tags.string = False
        return tags

    def _words(self, X: Any, *, reset: bool) -> list[str]:
        X = validate_data(self, X, reset=reset)
        return [" ".join(f"c{i}v{v:.0f}" for i, v in enumerate(row)) for row in X]

    def fit(self, X: Any, y: Any) -> Any:
        return super().fit(self._words(X, reset=True), y)  # type: ignore[misc]

    def predict(self, X: Any) -> Any:
        estimator.check_is_fitted(self)
        return super().predict(self._words(X, reset=False))  # type: ignore[misc]


class ClassifierOfNumbers(OfNumbers, TextClassifier):
    def predict(self, X: Any) -> Any:
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> Any:
        estimator.check_is_fitted(self)
        return TextClassifier.predict_proba(self, self._words(X, reset=False))


class RegressorOfNumbers(OfNumbers, TextRegressor):
    pass


#: Checks that these tiny models in fp32 cannot pass, and why.
EXACT = {
    "check_methods_subset_invariance": "asks for 1e-7: test_a_row_alone_is_as_in_a_batch for 1e-5"
}
NOT_HERE = EXACT | {
    "check_regressors_train": "needs more steps: test_a_regressor_learns_numbers gives them"
}


@parametrize_with_checks(
    [
        ClassifierOfNumbers(**SMALL, options=TINY),
        RegressorOfNumbers(**SMALL, options=TINY),
    ],
    expected_failed_checks=lambda made: NOT_HERE if isinstance(made, TextRegressor) else EXACT,
)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("cls", [ClassifierOfNumbers, RegressorOfNumbers])
def test_a_row_alone_is_as_in_a_batch(cls: type[Any]) -> None:
    x = np.random.default_rng(0).normal(size=(20, 3))
    made = cls(**SMALL, options=TINY).fit(x, (x[:, 0] > 0).astype(int))
    told = made.predict_proba if hasattr(made, "predict_proba") else made.predict
    alone = np.concatenate([told(row[None]) for row in x])
    assert np.allclose(told(x), alone, atol=1e-5)


@pytest.mark.parametrize("readonly_memmap", [False, True])
def test_a_regressor_learns_numbers(readonly_memmap: bool) -> None:
    model = RegressorOfNumbers(**(SMALL | {"lr": 0.01}), options=TINY | {"steps": 150})
    check_regressors_train("RegressorOfNumbers", model, readonly_memmap=readonly_memmap)
