"""What a recipe is given and what it returns."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from subquad.lab.progress import Watch, ignore, part
from subquad.lab.recipes.page import Picture, Table

__all__ = ["Job", "Outcome", "Picture", "Table"]


@dataclass(frozen=True)
class Job:
    """What a person asked for."""

    out: Path
    data: Sequence[str] = ()
    full: bool = False
    """The paper's own settings instead of the CPU-sized preset."""
    seeds: int | None = None
    """Runs of each variant; None = the recipe's own number."""
    watch: Watch = ignore

    def part(self, done: int, of: int) -> Watch:
        """The watch of one piece of work, of which ``done`` are done and there are ``of``."""
        return part(self.watch, done / of, 1 / of)


@dataclass(frozen=True)
class Outcome:
    """What a recipe found."""

    headline: str
    """The result, as a sentence."""
    lead: Sequence[str]
    """What follows from the numbers, one paragraph each."""
    tables: Sequence[Table]
    results: dict[str, Any]
    """All numbers, for JSON."""
    pictures: Sequence[Picture] = ()
    distance: Sequence[str] = ()
    """How far the settings are from the paper's, and how it was measured: a line each."""
    settings: dict[str, Any] = field(default_factory=dict)
