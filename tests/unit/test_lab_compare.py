"""A whole comparison, tiny: trained, judged, written, continued."""

import json
import re
from dataclasses import replace

import pytest

from subquad.errors import UsageError
from subquad.lab.compare import runs as runs_module
from subquad.lab.compare.experiment import compare
from subquad.lab.compare.runs import run_name
from subquad.mixers import names
from subquad.tasks import learning_tasks, task_class

MIXERS = ("none", "fnet")


def config(path="digits", steps=3, **training):
    base = task_class("classify").defaults()
    return replace(
        base,
        data=replace(base.data, path=str(path)),
        model=replace(base.model, layers=1, d=8, heads=2, ff=8),
        training=replace(
            base.training, epochs=None, steps=steps, batch=8, evaluations=1, **training
        ),
    )


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("compare") / "out"
    lines = []
    found = compare(config(), MIXERS, 2, out, lengths=(8, 16), watch=lines.append)
    return found, lines


def test_every_mixer_and_seed_is_trained_seeds_going_round(done):
    found, heard = done
    spent = [progress.spent for progress in heard]
    assert [(r.mixer, r.seed) for r in found.runs] == [
        ("none", 0),
        ("fnet", 0),
        ("none", 1),
        ("fnet", 1),
    ]
    assert all(r.steps == 3 and r.seconds_per_step > 0 and r.parameters > 0 for r in found.runs)
    assert spent == sorted(spent)
    assert spent[-1] == 1.0


def test_results_hold_every_number_and_the_circumstances(done):
    found, _ = done
    results = json.loads(found.results.read_text())
    assert results["seeds"] == [0, 1]
    assert results["figure"] == {
        "key": "accuracy",
        "higher_is_better": True,
        "rows": 179,
        "split": "held-out",
    }
    assert {"processor", "cores", "threads", "torch", "precision", "subquad", "commit", "date"} <= (
        results["machine"].keys()
    )
    assert results["config"]["training"]["steps"] == 3
    assert [row["name"] for row in results["table"]] == [
        "majority class",
        "logistic regression",
        *MIXERS,
    ]
    assert results["command"].startswith("subquad compare digits --task classify --mixers none,")
    assert "--steps 3" in results["command"]
    assert "--epochs" not in results["command"]


def test_held_out_figures_are_those_of_the_last_weights(done):
    found, _ = done
    for result in found.runs:
        assert result.held_out["accuracy"] == result.curve[-1]["accuracy"]
        assert sum(map(sum, result.held_out["confusion"])) == 179


def test_a_line_is_said_for_every_run_and_every_note_on_the_data(done):
    found, heard = done
    lines = [progress.line for progress in heard if progress.line]
    runs = [line for line in lines if re.match(r"\d of \d: ", line)]
    assert len(runs) == len(found.runs) == 4
    said = r"2 of 4: fnet, seed 0: held-out accuracy \d+\.\d % after \d+\.\d s"
    assert re.fullmatch(said, runs[1])
    assert len(set(lines)) == len(lines) > len(runs)


def test_a_finished_comparison_is_not_trained_again(done, monkeypatch):
    found, _ = done
    monkeypatch.setattr(runs_module, "train", None)
    again = compare(config(), MIXERS, 2, found.out, lengths=())
    assert again.runs == found.runs


#: Rows of a file for each task; pixels have their own built-in ones.
ROWS = {
    "classify": lambda i: f"{'good' if i % 2 else 'bad'} thing {i},{'yes' if i % 2 else 'no'}",
    "regress": lambda i: f"{'good ' * (i % 7)}thing,{i % 7 / 2}",
}


@pytest.mark.parametrize("task", learning_tasks())
def test_every_task_is_compared_by_its_own_score(task, tmp_path):
    path = tmp_path / "data.csv"
    row = ROWS.get(task, lambda i: f"the {i} cats and the {i % 5} dogs sat on mats,x")
    path.write_text("\n".join(["text,label", *map(row, range(60))]) + "\n")
    base = task_class(task).defaults()
    mixer = names(causal=task_class(task).causal)[0]
    data = {"path": "digits"} if task == "pixels" else {"path": str(path), "length": 16}
    small = replace(
        base,
        data=replace(base.data, **data),
        model=replace(base.model, mixers=(mixer,), layers=1, d=8, heads=2, ff=8),
        training=replace(base.training, epochs=None, minutes=None, steps=2, batch=4, evaluations=2),
    )
    found = compare(small, (mixer,), 2, tmp_path / "out", lengths=())
    score = task_class(task).score
    assert found.figure.higher_is_better == score.higher_is_better
    assert found.figure.key == score.name or found.figure.key.startswith("bits_per_")
    assert found.figure.title in found.report.read_text()


def test_other_settings_are_refused_and_named(done):
    found, _ = done
    with pytest.raises(UsageError, match="steps was 3, is 4"):
        compare(config(steps=4), MIXERS, 2, found.out, lengths=())


def test_a_broken_off_comparison_goes_on(tmp_path, monkeypatch):
    real, trained = runs_module.train, []

    def breaks(config, out, **more):
        if len(trained) == 2:
            raise KeyboardInterrupt
        trained.append(out.name)
        return real(config, out, **more)

    monkeypatch.setattr(runs_module, "train", breaks)
    with pytest.raises(KeyboardInterrupt):
        compare(config(), MIXERS, 2, tmp_path, lengths=())
    assert not (tmp_path / "report.html").exists()
    monkeypatch.setattr(
        runs_module,
        "train",
        lambda c, out, **more: trained.append(out.name) or real(c, out, **more),
    )
    compare(config(), MIXERS, 2, tmp_path, lengths=())
    assert trained == [run_name(m, seed) for seed in (0, 1) for m in MIXERS]


def test_figures_are_on_the_test_file_if_there_is_one(tmp_path):
    data, test = tmp_path / "data.csv", tmp_path / "test.csv"
    rows = [f"{'good' if i % 2 else 'bad'} thing {i},{i % 2}" for i in range(40)]
    data.write_text("\n".join(["text,label", *rows]) + "\n")
    test.write_text("text,label\ngood,1\nbad,0\nbad,0\n")
    found = compare(config(data), ("none",), 1, tmp_path / "out", test=str(test), lengths=())
    assert found.figure.split == "test"
    assert found.figure.rows == 3
    assert not found.verdict.claimed
    html = found.report.read_text()
    assert "bag of words" in html
    assert "Only one seed, so no claim" in html
    test.write_text("text,label\ngood,1\nbad,0\n")
    changed = compare(config(data), ("none",), 1, tmp_path / "out", test=str(test), lengths=())
    assert changed.figure.rows == 2


@pytest.mark.parametrize(
    ("mixers", "seeds", "said"),
    [
        (("none", "liner"), 1, "'liner' is not one of"),
        (("none", "none"), 1, "each one only once"),
        ((), 1, "--mixers is empty"),
        (("none",), 0, "at least 1"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(tmp_path, mixers, seeds, said):
    with pytest.raises(UsageError, match=said):
        compare(config(), mixers, seeds, tmp_path / "out")
    assert not (tmp_path / "out").exists()
