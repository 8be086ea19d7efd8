"""Progress of long-running work, for a progress bar on a terminal or lines in a log."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Progress:
    """The state of the work."""

    spent: float
    """The fraction of the work that is done, from 0 to 1."""
    stage: str
    """What is happening now, in a few words."""
    line: str = ""
    """A line for the log about what has just finished; usually empty."""


#: A callback that is called whenever there is progress.
Watch = Callable[[Progress], None]


def ignore(progress: Progress) -> None:
    """The default callback, which does nothing."""


def part(watch: Watch, begin: float, share: float) -> Watch:
    """A callback for a part of the work that starts at ``begin`` and is ``share`` of the whole."""
    return lambda p: watch(replace(p, spent=begin + share * min(p.spent, 1.0)))


def of_training(watch: Watch, stage: str) -> Callable[[dict[str, Any], float], None]:
    """A callback for ``train`` that reports to ``watch`` as ``stage``; notes about the data become
    log lines."""

    def note(line: dict[str, Any], spent: float) -> None:
        watch(Progress(spent, stage, line["text"] if line["kind"] == "note" else ""))

    return note
