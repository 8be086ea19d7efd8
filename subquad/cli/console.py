"""Printing, for all commands."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from subquad.cli.streams import abandon, as_json_line


class _People(Console):
    """Messages on stderr. If stderr is closed by its reader, the work continues silently."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        abandon(sys.stderr)


#: The console for messages.
err = _People(stderr=True, highlight=False, soft_wrap=True)

json_flag = click.option(
    "--json", "as_json", is_flag=True, help="Print the result as one JSON document."
)


def say(text: str) -> None:
    """Print a message on stderr."""
    err.print(text, markup=False)


def result(document: Any, *, as_json: bool, text: str) -> None:
    """Print the result on stdout: one JSON document, or ``text``."""
    click.echo(as_json_line(document) if as_json else text)


def scalars(metrics: dict[str, Any]) -> dict[str, Any]:
    """The single values of a metrics document, without tables."""
    return {k: v for k, v in metrics.items() if isinstance(v, int | float | str)}


def figures(metrics: dict[str, Any]) -> str:
    """``accuracy 0.8611  loss 0.43``."""
    parts = scalars(metrics).items()
    return "  ".join(f"{k} {v:.4f}" if isinstance(v, float) else f"{k} {v}" for k, v in parts)


@contextmanager
def counter(description: str, unit: str) -> Iterator[Any]:
    """A running count with its rate, on terminals only. Yields ``advance()``."""
    columns = (
        TextColumn("{task.description} {task.completed:.0f} " + unit),
        TextColumn("{task.fields[pace]}"),
        TimeElapsedColumn(),
    )
    began, done = time.perf_counter(), 0
    with Progress(*columns, console=err, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(description, total=None, pace="")

        def advance() -> None:
            nonlocal done
            done += 1
            pace = f"{done / (time.perf_counter() - began):.0f} {unit}/s"
            progress.update(task, completed=done, pace=pace)

        yield advance


@contextmanager
def bar(description: str) -> Iterator[Any]:
    """A progress bar, on terminals only. Yields ``update(fraction, text)``."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(description, total=1.0)

        def update(fraction: float, text: str | None = None) -> None:
            progress.update(task, completed=min(fraction, 1.0), description=text or description)

        yield update
