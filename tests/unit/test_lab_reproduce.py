"""The command in a report makes the same comparison again."""

import shlex

import pytest

from subquad.cli import app
from subquad.cli.flags import configure
from subquad.lab.compare import TEACHING
from subquad.lab.compare.reproduce import compare_command
from subquad.tasks import learning_tasks

#: A value that is not the default, for every kind of field.
GIVEN = {
    "classify": {"pooling": "attention", "token_dropout": 0.3, "class_weights": True, "length": 9}
    | {"label_smoothing": 0.0, "header": False, "steps": 4, "mixers": "fnet"}
    | {"mixer_options": ("fnet.transform=hartley", "fnet.padding=fixed")},
    "regress": {"token_dropout": 0.1, "quotes": True, "minutes": 1.5, "label": "a b"},
    "language": {"tied": True, "positions": "learned", "epochs": 3.0, "optimizer": "adamw"},
    "masked": {"mask_rate": 0.4, "pairs": "none", "types": 2, "projection": False},
    "pixels": {"mixture": 4, "level_cosines": 2, "patience": 3, "save_every": 7},
}


class Stop(Exception):
    """Nothing is trained."""


@pytest.mark.parametrize("task", learning_tasks())
def test_the_command_says_every_setting(task, monkeypatch):
    config = configure(task, "data file.csv", GIVEN[task])
    mixers = ["fnet"] if task == "classify" else ["linear", "none"]
    words = shlex.split(compare_command(config, mixers, 2, "out", "test.csv"))
    assert words[:3] == ["subquad", "compare", "data file.csv"]
    made = []

    def compare(config, mixers, seeds, out, *, test, teach, watch):  # noqa: ARG001
        made.append((config, mixers, seeds, str(out), test, teach))
        raise Stop

    monkeypatch.setattr("subquad.lab.compare.experiment.compare", compare)
    with pytest.raises(Stop):
        app.main(words[1:], standalone_mode=False)
    again, *rest = made[0]
    assert rest == [mixers, 2, "out", "test.csv", TEACHING]
    assert again.having(mixers=config.model.mixers) == config
