"""Tasks by name: here, registered, of other packages; and configurations of earlier versions."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from subquad.errors import SubquadError, UsageError
from subquad.tasks import TASKS, check, load_config, register, task_class, task_names
from subquad.tasks.classify import Classify, ClassifyOptions
from subquad.tasks.config import VERSION
from tests.outside_task import Tones, entry_point

MADE = Path(__file__).parent.parent / "made_by_0_1"


@pytest.fixture
def forgotten():
    yield
    TASKS.pop("tones", None)


@pytest.mark.usefixtures("forgotten")
def test_a_task_is_registered_once():
    assert register(Tones) is Tones
    assert register(Tones) is Tones
    assert task_class("tones") is Tones
    check(Tones.defaults().having(path="x"))

    class Other(Tones):
        pass

    with pytest.raises(SubquadError, match="'tones' already exists: Tones"):
        register(Other)


def test_an_option_may_not_have_the_name_of_a_common_setting():
    class Clash(Tones):
        name = "clash"
        Options = type("ClashOptions", (ClassifyOptions,), {"__annotations__": {}})

    Clash.Options.__dataclass_fields__ = {"lr": None}
    with pytest.raises(
        SubquadError, match="'clash' has an option 'lr', which is the name of a common"
    ):
        register(Clash)


@pytest.mark.usefixtures("forgotten")
def test_a_task_of_another_package_is_loaded_when_it_is_named(tmp_path, monkeypatch):
    assert "tones" not in task_names()
    with pytest.raises(UsageError, match="task 'tones' is not one of classify, embed, language"):
        task_class("tones")
    entry_point(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert task_names()[-1] == "tones"
    assert "tones" not in TASKS
    assert task_class("tones") is Tones


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("nowhere.at:all", "task 'tones' of tones cannot be loaded .* ModuleNotFoundError"),
        ("subquad.tasks.pixels:Pixels", "is not a task of that name"),
        ("json:loads", "is not a task of that name"),
    ],
)
def test_a_package_that_adds_no_task_is_named(tmp_path, monkeypatch, value, words):
    entry_point(tmp_path)
    points = next(tmp_path.glob("*/entry_points.txt"))
    points.write_text(f"[subquad.tasks]\ntones = {value}\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    with pytest.raises(SubquadError, match=words) as refused:
        task_class("tones")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", sorted(p.parent.name for p in MADE.glob("*/config.json")))
def test_a_configuration_of_0_1_keeps_what_it_said(name, tmp_path):
    old = json.loads((MADE / name / "config.json").read_text("utf-8"))
    made = load_config(MADE / name / "config.json")
    check(made)
    cls = task_class(made.task)
    values = old["data"] | old["model"] | old["training"]
    values["level_cosines"] = values.pop("waves")
    if made.task == "regress":
        values["token_dropout"] = values["token_dropout"] or 0.0
    for field, value in values.items():
        part = made.part_of(field)
        if part is None:  # an option of another task
            continue
        found = getattr(getattr(made, part), field)
        if field in ("mixers", "mixer_options"):  # those have new names
            assert len(found) == len(value)
        elif field not in cls.unused:
            assert found == (tuple(value) if isinstance(value, list) else value), field
    (tmp_path / "config.json").write_text(made.to_json(), "utf-8")
    assert load_config(tmp_path / "config.json") == made
    assert json.loads(made.to_json())["version"] == VERSION


def test_what_cannot_be_read_is_said_in_one_line(tmp_path):
    path = tmp_path / "config.json"
    shutil.copy(MADE / "texts" / "config.json", path)
    found = json.loads(Classify.defaults().to_json())
    for change, words in (
        ({"version": VERSION + 1}, "was written by a later version of subquad"),
        ({"task": "speech"}, "task 'speech' is not one of"),
        ({"options": {"depth": 3}}, "is not a subquad configuration"),
        ({"options": None}, "is not a subquad configuration"),
    ):
        path.write_text(json.dumps(found | change), "utf-8")
        with pytest.raises(SubquadError, match=words) as refused:
            load_config(path)
        assert "\n" not in str(refused.value)
