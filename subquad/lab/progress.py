"""What a long piece of work says while it goes on: to a bar on a terminal, or line by line to a
log."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Progress:
    """Where the work stands."""

    spent: float
    """The part of all work that is done, from 0 to 1."""
    stage: str
    """What is being done now, in a few words."""
    line: str = ""
    """A line for people about what has just been finished or found; most steps have none."""


#: Called whenever there is progress.
Watch = Callable[[Progress], None]


def ignore(progress: Progress) -> None:
    """Nobody watches."""


def part(watch: Watch, begin: float, share: float) -> Watch:
    """The watch of a piece of the work that starts at ``begin`` and is ``share`` of it all."""
    return lambda p: watch(replace(p, spent=begin + share * min(p.spent, 1.0)))


def of_training(watch: Watch, stage: str) -> Callable[[dict[str, Any], float], None]:
    """What ``train`` reports, as progress of ``stage``; its notes on the data are lines."""

    def note(line: dict[str, Any], spent: float) -> None:
        watch(Progress(spent, stage, line["text"] if line["kind"] == "note" else ""))

    return note
