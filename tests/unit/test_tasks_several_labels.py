"""Several labels for each row: what is learned, measured, chosen and told."""

import json
import random

import numpy as np
import pytest
import torch

from subquad.cli import run as command
from subquad.cli.flags import configure
from subquad.errors import SubquadError, UsageError
from subquad.lab.compare.floors import floors
from subquad.run import load
from subquad.tasks.classify import Classify
from subquad.tasks.metrics import several
from subquad.tasks.several_labels import best_threshold
from subquad.training import train

WORDS = {
    "sport": ["match", "goal", "team"],
    "money": ["bank", "loan", "price"],
    "art": ["song", "poem", "stage"],
}
SMALL = {"layers": 1, "d": 16, "heads": 2, "ff": 16, "mixers": "none", "precision": "fp32"}
SMALL |= {"steps": 60, "batch": 8, "evaluations": 2, "length": 16, "lr": 0.02}
SMALL |= {"validation": 0.2, "labels_separator": ";"}


def table(path, rows=100, seed=0):
    draw = random.Random(seed)
    lines = ["text,label"]
    for _ in range(rows):
        labels = [name for name in WORDS if draw.random() < 0.4]
        words = [draw.choice(WORDS[name]) for name in labels for _ in range(2)] + ["the", "of"]
        draw.shuffle(words)
        lines.append(f"{' '.join(words)},{';'.join(labels)}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("several")
    said = []
    config = configure("classify", table(folder / "a.csv"), SMALL)
    run = train(config, folder / "run", watch=lambda line, _: said.append(line))
    return run, said, folder


def test_labels_are_learned_and_told(trained):
    run, _, folder = trained
    found = run.evaluate(table(folder / "test.csv", seed=1))
    assert found["micro_f1"] > 0.9
    assert found["exact"] > 0.7
    assert 0 < found["most_frequent"] < 0.4
    assert set(found["classes"]) == set(WORDS)
    told = run.predict(["the match of bank team", "the of", "song stage"])
    assert [answer["labels"] for answer in told] == [["money", "sport"], [], ["art"]]
    for answer in told:
        least = found["threshold"]
        chances = answer["probabilities"]
        assert answer["labels"] == [name for name, p in chances.items() if p >= least]
    assert run.task.answer(run.model, torch.tensor([9.0, -9.0, -9.0])) == "says art (100%)"
    assert run.task.answer(run.model, torch.full((3,), -9.0)) == "says none of the labels"


def test_the_threshold_is_chosen_on_held_out_rows_and_kept(trained):
    run, said, folder = trained
    again = load(run.path)
    lines = [line for line in said if line["kind"] == "validation"]
    assert run.best()["threshold"] in {line["threshold"] for line in lines}
    kept = again.evaluate(str(folder / "a.csv"))["threshold"]
    assert kept == pytest.approx(run.best()["threshold"])
    other = again.evaluate(table(folder / "few.csv", rows=12, seed=2))
    assert other["threshold"] == kept, "rows that are only evaluated choose nothing"
    task, _, held_out = Classify.fit(run.config, folder / "store")
    assert task.learning
    assert not again.task.learning
    assert len(held_out) == 20


def test_the_best_threshold_by_trying_all():
    draw = np.random.default_rng(0)
    for _ in range(20):
        truth = draw.random((12, 3)) < 0.3
        chances = draw.choice([0.1, 0.25, 0.3, 0.6, 0.61], (12, 3)) + truth * 0.05

        def f1(least, truth=truth, chances=chances):
            return several(truth, chances >= least, "abc")["micro_f1"]

        found = f1(best_threshold(truth, chances))
        assert found == pytest.approx(max(f1(least) for least in np.linspace(0, 1, 201)))
    assert best_threshold(np.zeros((3, 2), bool), np.full((3, 2), 0.7)) == 0.5


def test_metrics_against_scikit_learn():
    from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support

    draw = np.random.default_rng(0)
    truth, guess = draw.random((60, 4)) < 0.4, draw.random((60, 4)) < 0.4
    found = several(truth, guess, "abcd")
    assert found["micro_f1"] == pytest.approx(f1_score(truth, guess, average="micro"))
    assert found["macro_f1"] == pytest.approx(f1_score(truth, guess, average="macro"))
    assert found["exact"] == pytest.approx(accuracy_score(truth, guess))
    p, r, f, n = precision_recall_fscore_support(truth, guess)
    for i, name in enumerate("abcd"):
        mine = found["classes"][name]
        assert (mine["precision"], mine["recall"], mine["f1"], mine["examples"]) == pytest.approx(
            (p[i], r[i], f[i], n[i])
        )
    nothing = several(np.zeros((3, 2), bool), np.zeros((3, 2), bool), "ab")
    assert (nothing["micro_f1"], nothing["macro_f1"], nothing["exact"]) == (0, 0, 1)


def test_floors_are_the_most_frequent_labels_and_one_bag_for_each(trained):
    run, _, folder = trained
    task, training, held_out = Classify.fit(run.config, folder / "store2")
    test = table(folder / "other.csv", seed=3)
    found = {f.name: f for f in floors(task, run.config, training, held_out, test)}
    assert list(found) == ["most frequent labels", "bag of words"]
    assert found["bag of words"].test["micro_f1"] > 0.9
    assert found["most frequent labels"].held_out.keys() == {
        *("examples", "micro_f1", "macro_f1", "exact")
    }
    assert found["most frequent labels"].test["micro_f1"] < 0.7


def test_a_class_that_weighs_more(tmp_path):
    config = configure("classify", table(tmp_path / "a.csv"), SMALL | {"class_weights": True})
    task, training, _ = Classify.fit(config, tmp_path / "store")
    sets = training.target.values
    np.testing.assert_allclose(task.weights.numpy() * sets.sum(0), len(sets) / 3, rtol=1e-5)


@pytest.mark.parametrize(
    ("line", "words"), [("the game,sport;chess", "row 101: label 'chess' was not seen")]
)
def test_a_label_that_was_not_seen(trained, tmp_path, line, words):
    run, _, folder = trained
    path = tmp_path / "b.csv"
    path.write_text((folder / "a.csv").read_text() + line + "\n")
    with pytest.raises(SubquadError, match=words):
        run.evaluate(str(path))
    found = run.reading(on_bad_row="skip").evaluate(str(path))
    assert (found["examples"], found["rows_skipped"]) == (100, 1)


def test_what_cannot_be_is_refused(tmp_path):
    with pytest.raises(UsageError, match="labels-separator is for texts"):
        train(configure("classify", "digits", {"labels_separator": ";"}), tmp_path / "no")
    with pytest.raises(UsageError, match="--labels-separator is empty"):
        train(configure("classify", "x", {"labels_separator": ""}), tmp_path / "no")
    with pytest.raises(UsageError, match="--labels-separator is an option of classify, not of"):
        configure("regress", "x", {"labels_separator": ";"})


def test_one_run_goes_on_from_another(trained, tmp_path):
    run, _, folder = trained
    given = {"start": str(run.path), "steps": 1, "labels_separator": ";"}
    said = []
    config = configure("classify", str(folder / "a.csv"), given)
    train(config, tmp_path / "next", watch=lambda line, _: said.append(line.get("text", "")))
    assert "new: head, threshold" in "\n".join(said)
    resumed = train(run.config, run.path, resume=True)
    assert resumed.best() == run.best()
    labels = json.loads((run.path / "labels.json").read_text())
    assert labels == {"several": True, "classes": ["art", "money", "sport"]}


def test_a_table_of_predictions_has_a_column_for_each_class(trained, capsys):
    run, _, folder = trained
    (folder / "two.txt").write_text("the match of bank team\nthe of\n")
    words = ["predict", str(run.path), str(folder / "two.txt"), "--format", "lines", "--to", "csv"]
    assert command(words) == 0
    head, first, second = capsys.readouterr().out.splitlines()
    chances = [f"p({name})" for name in ("art", "money", "sport")]
    assert head.split(",") == ["row", "labels", *chances, "error"]
    assert first.startswith("1,money;sport,")
    assert second.startswith("2,,")
