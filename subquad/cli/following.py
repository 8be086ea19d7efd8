"""Shows the progress of long jobs: a bar on terminals, and lines on terminals and in logs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from subquad.cli.console import bar, say

if TYPE_CHECKING:  # a verb imports the laboratory when it is called, not before
    from subquad.lab.progress import Progress, Watch


@contextmanager
def following(description: str) -> "Iterator[Watch]":
    """Yields the callback that a long job reports its progress to."""
    with bar(description) as update:

        def watch(progress: "Progress") -> None:
            update(progress.spent, progress.stage)
            if progress.line:
                say(progress.line)

        yield watch
