"""The input and output of a recipe."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from subquad.lab.drawing.document import Picture, Table
from subquad.lab.progress import Watch, ignore, part

__all__ = ["Job", "Outcome", "Picture", "Table"]


@dataclass(frozen=True)
class Job:
    """What the user asked for."""

    out: Path
    data: Sequence[str] = ()
    full: bool = False
    """The paper's own settings instead of the CPU-sized preset."""
    seeds: int | None = None
    """Number of runs of each variant; by default, the recipe decides."""
    watch: Watch = ignore

    def part(self, done: int, of: int) -> Watch:
        """A progress callback for one of ``of`` equal parts, when ``done`` parts are finished."""
        return part(self.watch, done / of, 1 / of)


@dataclass(frozen=True)
class Outcome:
    """The results of a recipe."""

    headline: str
    """The main result in one sentence."""
    lead: Sequence[str]
    """Conclusions from the numbers, one paragraph each."""
    tables: Sequence[Table]
    results: dict[str, Any]
    """All numbers, as JSON-serialisable data."""
    pictures: Sequence[Picture] = ()
    distance: Sequence[str] = ()
    """How the settings differ from the paper's, and how it was measured, one line each."""
    settings: dict[str, Any] = field(default_factory=dict)
