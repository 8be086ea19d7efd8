"""Whether a comparison's budget was large enough is judged by its curves and the task's default."""

from dataclasses import replace

import pytest

from subquad.lab.compare.budget import cautions, in_words
from subquad.lab.compare.runs import Result
from subquad.lab.compare.verdict import Figure
from subquad.tasks import learning_tasks, task_class

ACCURACY = Figure("accuracy", True, 1000, "held-out")
LOSS = Figure("mse", False, 1000, "held-out")


def run(mixer, key, *values, seconds=60.0):
    curve = [{"step": 10 * (i + 1), key: v} for i, v in enumerate(values)]
    return Result(
        mixer=mixer,
        seed=0,
        held_out={},
        test=None,
        curve=curve,
        parameters=1,
        steps=curve[-1]["step"],
        seconds=seconds,
        seconds_per_step=0.1,
        rows_per_second=1.0,
        tokens_per_second=1.0,
    )


def budget(task="classify", **given):
    config = task_class(task).defaults()
    unset = dict.fromkeys(("steps", "epochs", "minutes"))
    return replace(config, training=replace(config.training, **(unset | given)))


def said(runs, figure=ACCURACY, config=None, rows=100):
    return " ".join(cautions(config or budget(epochs=100), runs, figure, rows))


def test_a_curve_that_still_rises_is_named_with_what_the_last_quarter_brought():
    runs = [
        run("linear", "accuracy", 0.5, 0.6, 0.7, 0.8),
        run("none", "accuracy", 0.5, 0.6, 0.6, 0.6),
    ]
    assert "linear (by 10.0 points)" in said(runs)
    assert "none" not in said(runs)


def test_less_is_better_where_the_figure_says_so():
    assert "linear (by 50.0 %)" in said([run("linear", "mse", 9.0, 4.0, 4.0, 2.0)], LOSS)
    assert not said([run("linear", "mse", 1.0, 2.0, 2.0, 4.0)], LOSS)


def test_what_may_be_chance_is_not_named():
    up, down = (run("linear", "accuracy", 0.5, 0.6, 0.7, end) for end in (0.78, 0.64))
    assert not said([up, down])
    assert "linear" in said([up, up])
    assert not said([run("linear", "accuracy", 0.5, 0.6, 0.7, 0.704)])
    assert not said([run("linear", "accuracy", 0.7)])


@pytest.mark.parametrize("task", learning_tasks())
def test_a_budget_below_the_task_s_default_is_named(task):
    usual = task_class(task).defaults()
    (unit,) = [u for u in ("steps", "epochs", "minutes") if getattr(usual.training, u) is not None]
    wanted = getattr(usual.training, unit)
    score = task_class(task).score
    figure = Figure(score.name, score.higher_is_better, 10, "held-out")
    enough = run("none", score.name, 0.5, seconds=60 * wanted)
    assert not said([enough], figure, usual, rows=1)
    short = said([enough], figure, budget(task, **{unit: 1}))
    assert short == f"The budget was 1 {unit[:-1]}; the default for {task} is {wanted:g}."


def test_a_budget_in_another_unit_is_counted_in_that_of_the_default():
    config = budget(steps=10)
    rows = 10 * config.training.batch
    assert said([run("none", "accuracy", 0.5)], config=config, rows=rows).startswith(
        "The budget was 1 epoch; the default"
    )
    assert not said([run("none", "accuracy", 0.5)], config=config, rows=rows // 5)
    language = budget("language", steps=10)
    spent = said([run("none", "accuracy", 0.5, seconds=30.0)], config=language)
    assert spent.startswith("The budget was 0.5 minutes;")


def test_budgets_in_words():
    assert in_words(budget(epochs=1.0)) == "1 epoch"
    assert in_words(budget(steps=12_000)) == "12,000 steps"
