"""Floors on data small enough to know the answer."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from subquad.data.digits import LEVELS
from subquad.data.targets import Numbers
from subquad.errors import SubquadError
from subquad.lab.compare import floors as room
from subquad.lab.compare.floors import BAG, LOGISTIC, MAJORITY, MARKOV, MEAN, UNIGRAM, floors
from subquad.tasks import task_class


def fitted(config, test=None):
    task, training, held_out = task_class(config.task).fit(
        config, Path(config.data.path).parent / "store"
    )
    return {f.name: f for f in floors(task, config, training, held_out, test)}, training, held_out


def text_config(path, **data):
    config = task_class("classify").defaults()
    return replace(config, data=replace(config.data, path=str(path), **data))


def write(path, rows):
    path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    return path


@pytest.fixture
def texts(tmp_path):
    rows = [(f"good fine nice {i}", "yes") for i in range(30)]
    rows += [(f"bad poor sad {i}", "no") for i in range(20)]
    return write(tmp_path / "texts.csv", rows)


def test_the_bag_of_words_separates_what_words_separate(texts):
    found, _, held_out = fitted(text_config(texts, validation=0.2))
    assert found[BAG].held_out["accuracy"] == 1
    assert found[BAG].held_out["examples"] == len(held_out) == 10
    assert found[MAJORITY].held_out["accuracy"] == pytest.approx(0.6)
    assert found[MAJORITY].held_out["macro_f1"] == pytest.approx(0.375)
    assert "'yes'" in found[MAJORITY].what


def test_the_bag_of_words_is_fitted_to_the_training_rows_only(texts, monkeypatch):
    from sklearn.feature_extraction.text import TfidfVectorizer

    seen = []
    original = TfidfVectorizer.fit_transform
    monkeypatch.setattr(
        TfidfVectorizer,
        "fit_transform",
        lambda self, raw, y=None: seen.extend(raw) or original(self, raw, y),
    )
    config = text_config(texts, validation=0.2)
    fitted(config)
    training, _ = task_class("classify").texts(config)
    assert seen == list(training.texts)


def test_floors_on_a_test_file_stand_beside_the_held_out_ones(texts, tmp_path):
    other = write(tmp_path / "test.csv", [("good", "yes"), ("bad", "no"), ("sad", "yes")])
    found, _, _ = fitted(text_config(texts), str(other))
    assert found[BAG].test["accuracy"] == pytest.approx(2 / 3)
    assert found[MAJORITY].test["examples"] == 3


def test_texts_without_a_word_are_told_apart_by_their_signs(tmp_path):
    rows = [("! ?", "a")] * 10 + [("# %", "b")] * 10
    found, _, _ = fitted(text_config(write(tmp_path / "signs.csv", rows), validation=0.2))
    assert found[BAG].held_out["accuracy"] == 1


def test_digits_have_a_logistic_regression_above_nine_tenths():
    found, _, _ = fitted(text_config("digits"))
    assert found[LOGISTIC].held_out["accuracy"] > 0.9
    assert found[MAJORITY].held_out["accuracy"] < 0.12


def test_pixel_floors_are_the_bits_of_counting():
    found, training, held_out = fitted(task_class("pixels").defaults())
    rows, others = room.matrix(training)[:, 1:], room.matrix(held_out)[:, 1:]
    bits = []
    for place in range(64):
        counts = np.bincount(rows[:, place], minlength=LEVELS) + 0.5
        bits += [-np.log2(counts[level] / counts.sum()) for level in others[:, place]]
    assert found[UNIGRAM].held_out["bits_per_dim"] == pytest.approx(np.mean(bits))
    assert found[MARKOV].held_out["bits_per_dim"] < found[UNIGRAM].held_out["bits_per_dim"]


def test_transitions_are_distributions():
    _, training, _ = fitted(task_class("pixels").defaults())
    table = room._transitions(room.matrix(training), LEVELS)
    np.testing.assert_allclose(table.sum(-1), 1)
    assert (table > 0).all()


def test_a_regression_has_the_mean_and_a_bag_of_words(tmp_path):
    rows = [(f"it is {w} {i}", d) for i in range(20) for w, d in (("cold", -8), ("hot", 31.5))]
    config = task_class("regress").defaults()
    path = str(write(tmp_path / "texts.csv", rows))
    config = config.having(path=path, validation=0.2, label="label")
    other = write(tmp_path / "test.csv", [("cold", -8), ("hot", 31.5)])
    found, training, held_out = fitted(config, str(other))
    assert list(found) == [MEAN, BAG]
    mean = training.answers(Numbers).mean()
    spread = np.square(held_out.answers(Numbers) - mean).mean()
    assert found[MEAN].held_out["mse"] == pytest.approx(spread)
    assert found[MEAN].held_out["pearson"] == 0
    assert found[BAG].held_out["mse"] < 0.2 * spread
    assert found[BAG].held_out["examples"] == len(held_out) == 8
    assert found[BAG].test["spearman"] == pytest.approx(1)


def test_a_floor_that_is_not_known_is_named(texts, monkeypatch):
    monkeypatch.setattr(task_class("classify"), "floors", lambda _: ("a coin",))
    with pytest.raises(
        SubquadError, match="the task classify asks for the floor 'a coin', which does not exist"
    ):
        fitted(text_config(texts))
