"""Flags: those of the task that is named, with its defaults; others are refused by name."""

import pytest

from subquad.cli import run as command
from subquad.cli.flags import configure, field_help
from subquad.errors import UsageError
from subquad.tasks import TASKS
from subquad.tasks.classify import ClassifyOptions
from subquad.tasks.config import PARTS
from subquad.tasks.registry import has


def said(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    code = command([*argv])
    out, err = capsys.readouterr()
    return code, " ".join((out + err).split())


def test_help_without_a_task_groups_the_tasks_own_options(capsys):
    code, text = said(capsys, "train", "--help")
    assert code == 0
    for heading in ("Options of classify, regress:", "Options of classify:", "Options of pixels:"):
        assert heading in text
    assert text.index("Options of pixels:") < text.index("--level-cosines")
    assert "[default: words; language: bytes; masked: bpe]" in text
    assert "None" not in text


@pytest.mark.parametrize("before", [True, False])
def test_help_of_a_task_has_its_defaults_only(capsys, before):
    task = ["--task", "pixels"]
    code, text = said(capsys, "train", *(task if before else []), "--help", *task)
    assert code == 0
    assert "--mixture" in text
    assert "[default: 22]" in text
    assert "language:" not in text
    for flag in ("--tokenizer", "--class-weights", "--pooling"):
        assert flag not in text


def test_defaults_that_are_found_out_are_said_in_words(capsys):
    _, text = said(capsys, "train", "--help", "--task=classify")
    assert "[default: 0.5 if texts have 100 tokens or more on average, otherwise 0.2]" in text
    _, text = said(capsys, "train", "--help", "--task=regress")
    assert "drawn anew each time. [default: 0.0]" in text
    _, text = said(capsys, "train", "--help", "--task=language")
    assert "[learned|sinusoidal|none]" in text
    assert "[default: depends on the mixers]" in text


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--mixture=3", "--mixture is an option of pixels, not of classify"),
        ("--mask-rate=0.2", "--mask-rate is an option of masked, not of classify"),
        ("--tied", "--tied is an option of language, pixels, not of classify"),
        ("--no-tied", "--tied is an option of language, pixels, not of classify"),
        ("--waves=3", "No such option"),
        ("--columns=3", "No such option"),
    ],
)
def test_an_option_of_another_task_is_refused_by_name(capsys, flag, words):
    for verb in ("train", "compare"):
        code, text = said(capsys, verb, "digits", "--task", "classify", "--out", "x", flag)
        assert code == 2
        assert words in text


def test_values_of_another_task_are_refused_in_python_too():
    with pytest.raises(UsageError, match="--pairs is an option of masked, not of pixels"):
        configure("pixels", "digits", {"pairs": "next"})
    with pytest.raises(UsageError, match="there is no option --depth"):
        configure("pixels", "digits", {"depth": 3})
    assert configure("pixels", "digits", {"pairs": None, "mixture": 2}).options.mixture == 2


@pytest.mark.parametrize("task", TASKS)
def test_every_field_has_a_sentence_that_a_person_can_follow(task):
    for part in PARTS:
        cls = type(getattr(TASKS[task].defaults(), part))
        texts = field_help(cls)
        for name in cls.__dataclass_fields__:
            if name not in ("path", "pad", "columns") and has(TASKS[task], name):
                assert texts[name][0].isupper() or texts[name].startswith(("csv", "bf16", "words"))
                assert "None" not in texts[name]


def test_a_field_says_what_its_own_class_says_of_it():
    assert "class" in field_help(ClassifyOptions)["class_weights"]
    assert "pooling" in field_help(ClassifyOptions)
