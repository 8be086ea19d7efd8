"""Regression: numbers come back in their own units, and what is no number is refused."""

import math

import numpy as np
import pytest

from subquad.cli.flags import configure
from subquad.errors import SubquadError, UsageError
from subquad.run import load
from subquad.tasks.regress import scores
from subquad.training import train

SMALL = {"layers": 1, "d": 16, "ff": 16, "heads": 2, "batch": 8, "evaluations": 1, "mixers": "none"}
SMALL |= {"dropout": 0.0, "token_dropout": 0.0, "length": 12, "lr": 0.02}


def written(path, labels, texts=("cold", "mild", "warm", "hot")):
    rows = [f"it is {texts[i % len(texts)]} {i % 3},{label}" for i, label in enumerate(labels)]
    path.write_text("\n".join(["text,score", *rows]) + "\n")
    return str(path)


def test_numbers_are_learned_in_their_own_units(tmp_path):
    degrees = (-10.5, 3.25, 1000.0, 1500.0)
    path = written(tmp_path / "a.csv", [degrees[i % 4] for i in range(80)])
    train(configure("regress", path, SMALL | {"steps": 60}), tmp_path / "run")
    run = load(tmp_path / "run")
    found = run.evaluate(path)
    assert found["mse"] < 0.05 * found["mse_of_the_mean"]
    assert found["pearson"] > 0.97
    cold, hot = (answer["number"] for answer in run.predict(["it is cold 0", "it is hot 0"]))
    assert hot - cold > 1000


@pytest.mark.parametrize("bad", ["warm", "nan", "inf", "1e300"])
def test_what_is_no_number_is_refused_with_its_row(tmp_path, bad):
    path = written(tmp_path / "a.csv", [1.0, 2.0, bad, 3.0])
    with pytest.raises(SubquadError, match="row 3"):
        train(configure("regress", path, SMALL | {"steps": 1}), tmp_path / "run")


def test_equal_numbers_teach_nothing(tmp_path):
    path = written(tmp_path / "a.csv", [2.5] * 20)
    with pytest.raises(SubquadError, match=r"every label is 2\.5"):
        train(configure("regress", path, SMALL | {"steps": 1}), tmp_path / "run")
    with pytest.raises(UsageError, match="has classes"):
        train(configure("regress", "digits", SMALL | {"steps": 1}), tmp_path / "run")


def test_scores():
    truth, guess = np.array([1.0, 2.0, 4.0]), np.array([1.0, 3.0, 9.0])
    found = scores(truth, guess, 2.0)
    assert found["mse"] == pytest.approx(26 / 3)
    assert found["mse_of_the_mean"] == pytest.approx(5 / 3)
    assert found["spearman"] == pytest.approx(1.0)
    assert found["pearson"] == pytest.approx(np.corrcoef(truth, guess)[0, 1])
    still = scores(truth, np.ones(3), 2.0)
    assert still["pearson"] == still["spearman"] == 0.0
    assert all(math.isfinite(value) for value in still.values())
