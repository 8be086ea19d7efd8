"""Configuration ↔ arguments. Every flag is a field of a dataclass: its name, type, help and default
are read from there, so that none is written twice."""

import ast
import dataclasses
import inspect
import json
import textwrap
from collections.abc import Callable
from dataclasses import replace
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import click

from subquad import mixers
from subquad.errors import UsageError
from subquad.models import ModelConfig
from subquad.tasks import TASKS, Config, DataConfig, TrainConfig, task_class

Values = dict[str, Any]

#: Fields that have another flag, or none.
_RENAMED = {"mixers": "--mixer", "mixer_options": "--mixer-option", "start": "--from"}
_HIDDEN = {"path", "pad", "columns"}
_HELP = {
    "mixer_options": "An option of the mixers in use, or of one: fnet.padding=fixed. `subquad "
    "mixers` lists them; may be repeated."
}
_BUDGET = ("steps", "epochs", "minutes")


def field_help(cls: type) -> dict[str, str]:
    """The string under each field of a dataclass, in one line."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
        ):
            found[field.target.id] = " ".join(str(below.value.value).split())
    return found


def _default(cls: type, name: str) -> str:
    """``[default: 2; language: 4]``, as the tasks have it."""
    part = {DataConfig: "data", ModelConfig: "model", TrainConfig: "training"}[cls]
    values = {task: getattr(getattr(c.defaults(), part), name) for task, c in TASKS.items()}
    shown = {task: ",".join(v) if isinstance(v, tuple) else v for task, v in values.items()}
    usual = max(shown.values(), key=list(shown.values()).count)
    parts = [] if usual in (None, "", {}) else [str(usual)]
    parts += [f"{task}: {value}" for task, value in shown.items() if value not in (usual, None)]
    return f"  [default: {'; '.join(parts)}]" if parts else ""


def _type(annotation: Any) -> Any:
    inner = [a for a in get_args(annotation) if a is not NoneType]
    if get_origin(annotation) is Literal:
        return click.Choice(inner)
    kind = inner[0] if NoneType in get_args(annotation) else annotation
    return kind if kind in (int, float, bool) else str


def _option(field: dataclasses.Field[Any], annotation: Any, text: str) -> click.Option:
    flag = _RENAMED.get(field.name, f"--{field.name.replace('_', '-')}")
    kind = _type(annotation)
    if kind is bool:
        flag = f"{flag}/--no-{field.name.replace('_', '-')}"
    return click.Option(
        [flag, field.name],
        type=kind,
        default=None,
        multiple=field.name == "mixer_options",
        help=text,
        metavar="KEY=VALUE" if field.name == "mixer_options" else None,
    )


def config_flags(*, without: tuple[str, ...] = ()) -> Callable[[click.Command], click.Command]:
    """Add ``--task`` and a flag per configuration field to a command."""

    def add(command: click.Command) -> click.Command:
        command.params.append(
            click.Option(
                ["--task"], type=click.Choice(list(TASKS)), required=True, help="What to learn."
            )
        )
        for cls in (DataConfig, ModelConfig, TrainConfig):
            hints, texts = get_type_hints(cls), field_help(cls)
            for field in dataclasses.fields(cls):
                if field.name not in (*_HIDDEN, *without):
                    text = _HELP.get(field.name, texts[field.name]).replace("``", "")
                    text += _default(cls, field.name)
                    command.params.append(_option(field, hints[field.name], text))
        return command

    return add


#: What says how a file is read; a trained run may read otherwise than training did.
_READING = ("text", "label", "pair", "format", "encoding", "on_bad_row", "header", "quotes")


def reading_flags(command: click.Command, without: str = "") -> click.Command:
    """Add the flags that say how a file is read (but ``without``); none given = as the run's
    training did."""
    hints, texts = get_type_hints(DataConfig), field_help(DataConfig)
    for field in dataclasses.fields(DataConfig):
        if field.name in _READING and field.name != without:
            text = texts[field.name] + "  [default: as in training]"
            command.params.append(_option(field, hints[field.name], text))
    return command


def configure(task: str, path: str, values: Values) -> Config:
    """The task's defaults with the given values (None = not given) on top.

    Raises:
        UsageError: a value that cannot be; it is named.
    """
    config = task_class(task).defaults()
    given = {name: value for name, value in values.items() if value not in (None, ())}
    if any(name in given for name in _BUDGET):
        given = dict.fromkeys(_BUDGET) | given
    if "mixers" in given:
        given["mixers"] = tuple(name.strip() for name in given["mixers"].split(","))
    if "mixer_options" in given:
        used = given.get("mixers", config.model.mixers)
        used += (mixers.ATTENTION,) if given.get("hybrid") else ()
        causal = task_class(task).causal
        given["mixer_options"] = _mixer_options(given["mixer_options"], used, causal)
    config = replace(
        config,
        data=_replaced(config.data, given | {"path": path}),
        model=_replaced(config.model, given),
        training=_replaced(config.training, given),
    )
    if config.training.start is None:
        return config
    from subquad.transfer import inherit

    return inherit(config, given.keys())


def _replaced(part: Any, given: Values) -> Any:
    names = {field.name for field in dataclasses.fields(part)}
    return replace(part, **{name: value for name, value in given.items() if name in names})


def _mixer_options(
    given: tuple[str, ...], used: tuple[str, ...], causal: bool
) -> dict[str, dict[str, Any]]:
    """``KEY=VALUE`` goes to every used mixer that has KEY; ``NAME.KEY=VALUE`` to NAME only."""
    chosen: dict[str, dict[str, Any]] = {}
    try:
        known = {name: mixers.options(name, causal=causal) for name in used}
    except ValueError as error:
        raise UsageError(str(error)) from None
    for item in given:
        key, equals, value = item.partition("=")
        only, dot, option = key.rpartition(".")
        takers = [n for n in known if option in known[n] and (not dot or n == only)]
        if not equals or not takers:
            having = "; ".join(f"{n}: {', '.join(known[n]) or 'none'}" for n in known)
            raise UsageError(
                f"--mixer-option {item!r}: expected KEY=VALUE with an option of the mixers in use"
                f" ({having})"
            )
        for name in takers:
            if option in chosen.get(name, {}):
                raise UsageError(
                    f"--mixer-option {item!r}: {name}.{option} was already given as "
                    f"{chosen[name][option]!r}; give it once"
                )
            chosen.setdefault(name, {})[option] = _value(value)
    return chosen


def _value(text: str) -> Any:
    """Numbers, true, false and null are what they look like; the rest is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
