"""Command-line flags from configuration dataclasses. Every flag is a field: its name, type, help
and default are taken from there, so that nothing is written twice. A task has flags for its own
options and for those common settings that apply to it."""

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Sequence
from types import NoneType
from typing import Any, get_args, get_type_hints

import click

from subquad.configuring import Values, configure
from subquad.errors import UsageError
from subquad.models.config import literals
from subquad.tasks import DataConfig, learning_tasks, task_class
from subquad.tasks.config import PARTS
from subquad.tasks.registry import has, meaningless

__all__ = ["TaskCommand", "Values", "configure", "field_help", "reading_flags"]

#: Fields whose flag has another name, and fields without a flag.
_RENAMED = {"mixers": "--mixer", "mixer_options": "--mixer-option", "start": "--from"}
_HIDDEN = {"path", "pad", "columns"}
_HELP = {
    "mixer_options": "Set an option of the mixers in use, or of one of them, as in "
    "fnet.padding=fixed. `subquad mixers` lists all options; may be repeated."
}


def field_help(cls: type) -> dict[str, str]:
    """The docstring under each field of a dataclass and its base classes, each as one line."""
    found = {}
    for part in (c for c in reversed(cls.__mro__) if dataclasses.is_dataclass(c)):
        body = ast.parse(textwrap.dedent(inspect.getsource(part))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, below in zip(body.body, body.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
            ):
                found[field.target.id] = " ".join(str(below.value.value).split())
    return found


def flag_of(name: str) -> str:
    """The flag of a field."""
    return _RENAMED.get(name, f"--{name.replace('_', '-')}")


def _default(part: str, field: dataclasses.Field[Any], tasks: Sequence[str]) -> str:
    """The defaults of these tasks, as in ``[default: 2; language: 4]``."""
    shown = {}
    for task in tasks:
        usual = getattr(task_class(task).defaults(), part)
        shown[task] = _shown(usual.__dataclass_fields__[field.name], getattr(usual, field.name))
    usual = max(shown.values(), key=list(shown.values()).count)
    parts = [usual] if usual else []
    parts += [f"{task}: {value}" for task, value in shown.items() if value not in (usual, "")]
    return f"  [default: {'; '.join(parts)}]" if parts else ""


def _shown(field: dataclasses.Field[Any], value: Any) -> str:
    """A default as text; "" if the flag has no effect unless it is given."""
    if value is None or value == {}:
        return str(field.metadata.get("omitted", ""))
    if isinstance(value, bool):
        return flag_of(field.name)[2:] if value else ""
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _type(annotation: Any) -> Any:
    if known := literals(annotation):
        return click.Choice(known)
    inner = [a for a in get_args(annotation) if a is not NoneType]
    kind = inner[0] if NoneType in get_args(annotation) else annotation
    return kind if kind in (int, float, bool) else str


def _option(field: dataclasses.Field[Any], annotation: Any, text: str) -> click.Option:
    flag, kind = flag_of(field.name), _type(annotation)
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


def _groups(tasks: Sequence[str], without: Sequence[str]) -> dict[str, list[click.Option]]:
    """The flags of these tasks by heading: data, model, training, and then options that are
    specific to some of the tasks."""
    made: dict[str, list[click.Option]] = {}
    taken = {*_HIDDEN, *without}
    for part in PARTS:
        for task in tasks:
            cls = type(getattr(task_class(task).defaults(), part))
            hints, texts = get_type_hints(cls), field_help(cls)
            for field in dataclasses.fields(cls):
                having = [t for t in tasks if has(task_class(t), field.name)]
                if field.name in taken or task not in having:
                    continue
                taken.add(field.name)
                text = _HELP.get(field.name, texts[field.name]).replace("``", "")
                text += _default(part, field, having)
                heading = part.capitalize()
                if part == "options":
                    heading = f"Options of {', '.join(having)}"
                option = _option(field, hints[field.name], text)
                made.setdefault(heading, []).append(option)
    return made


class TaskCommand(click.Command):
    """A command with ``--task`` and a flag for each setting of that task. Its help shows the
    settings of the task if one is given, otherwise those of all tasks."""

    #: Fields that this command has no flags for.
    without: tuple[str, ...] = ()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known, named = learning_tasks(), _named(args)
        task = named if named in known else None
        choice = click.Option(
            ["--task"], type=click.Choice(known), required=True, help="The task to train for."
        )
        groups = _groups([task] if task else known, self.without)
        ctx.meta[_GROUPS] = {_OWN: [choice]} | groups
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name.removeprefix("--no-").lstrip("-").replace("-", "_")
            fields = {flag[2:].replace("-", "_"): field for field, flag in _RENAMED.items()}
            field = fields.get(name, name)
            if (
                task
                and field not in _HIDDEN
                and any(has(task_class(t), field) for t in learning_tasks())
            ):
                raise UsageError(meaningless(task, field)) from None
            raise

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        found: dict[str, list[click.Option]] = ctx.meta.get(_GROUPS, {})
        return [*super().get_params(ctx), *(o for options in found.values() for o in options)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[Any]] = dict(ctx.meta[_GROUPS])
        groups[_OWN] = [*groups[_OWN], *super().get_params(ctx)]
        for heading, options in groups.items():
            named = [option for option in options if isinstance(option, click.Option)]
            records = [record for option in named if (record := option.get_help_record(ctx))]
            with formatter.section(heading):
                formatter.write_dl(records)


_GROUPS, _OWN = "subquad.groups", "Options"


def _named(args: Sequence[str]) -> str:
    """The task named in the arguments, before they are parsed."""
    for arg, after in zip(args, [*args[1:], ""], strict=True):
        if arg == "--task":
            return after
        if arg.startswith("--task="):
            return arg.removeprefix("--task=")
    return ""


#: Settings of how a file is read, which may differ between training and later use of a run.
_READING = ("text", "label", "pair", "format", "encoding", "on_bad_row", "header", "quotes")


def reading_flags(command: click.Command, without: str = "") -> click.Command:
    """Add the flags for how a file is read, except ``without``. Settings that are not given are the
    same as in training."""
    hints, texts = get_type_hints(DataConfig), field_help(DataConfig)
    for field in dataclasses.fields(DataConfig):
        if field.name in _READING and field.name != without:
            text = texts[field.name] + "  [default: as in training]"
            command.params.append(_option(field, hints[field.name], text))
    return command
