"""The command that reproduces a comparison: one flag for each setting that is not the default."""

import dataclasses
import json
import shlex
from collections.abc import Sequence
from typing import Any

from subquad.lab.compare import TEACHING
from subquad.tasks import Config, task_class
from subquad.tasks.config import PARTS
from subquad.transfer import SHAPE

_BUDGET = ("steps", "epochs", "minutes")
#: Fields that have no flag, or whose flag has another name.
_LEFT_OUT = {"path", "mixers", "mixer_options", "pad", "columns"}
_RENAMED = {"start": "from"}


def compare_command(
    config: Config,
    mixers: Sequence[str],
    seeds: int,
    out: str,
    test: str | None,
    teach: float = TEACHING,
) -> str:
    """The command line ``subquad compare …``, quoted for a shell."""
    words = ["subquad", "compare", config.data.path, "--task", config.task]
    words += ["--mixers", ",".join(mixers), "--seeds", str(seeds)]
    words += _flags(config)
    if config.training.start is not None and teach != TEACHING:
        words += ["--teach", f"{teach:g}"]
    if test is not None:
        words += ["--test", test]
    return shlex.join([*words, "--out", out])


def _flags(config: Config) -> list[str]:
    defaults = task_class(config.task).defaults()
    # These settings come with the pretrained run that --from names.
    taken = {*SHAPE, "length", "tokenizer"} if config.training.start else set()
    words: list[str] = []
    for part in PARTS:
        now, usual = getattr(config, part), getattr(defaults, part)
        for field in dataclasses.fields(now):
            value = getattr(now, field.name)
            budget = field.name in _BUDGET and value is not None
            if field.name in _LEFT_OUT | taken:
                continue
            if value is not None and (budget or value != getattr(usual, field.name)):
                words += _flag(_RENAMED.get(field.name, field.name), value)
    for name, options in config.model.mixer_options.items():
        for key, value in options.items():
            text = value if isinstance(value, str) else json.dumps(value)
            words += ["--mixer-option", f"{name}.{key}={text}"]
    return words


def _flag(name: str, value: Any) -> list[str]:
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    return [f"--{flag}", str(value)]
