"""How the laboratory's progress is shown: a bar on a terminal; its lines there and in a log."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from subquad.cli.console import bar, say

if TYPE_CHECKING:  # a verb imports the laboratory when it is called, not before
    from subquad.lab.progress import Progress, Watch


@contextmanager
def following(description: str) -> "Iterator[Watch]":
    """Yields what a long piece of work is given to report to."""
    with bar(description) as update:

        def watch(progress: "Progress") -> None:
            update(progress.spent, progress.stage)
            if progress.line:
                say(progress.line)

        yield watch
