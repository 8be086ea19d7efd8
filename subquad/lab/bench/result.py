"""What ``bench`` found, as data."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Row:
    """One candidate at one length. ``ratio`` (median, quartiles) is the base's time over its own;
    in a training step its own over the base's, the step without any mixing."""

    kind: str
    name: str
    t: int
    seconds: float
    base: str
    ratio: float
    low: float
    high: float
    rounds: int


@dataclass(frozen=True)
class Target:
    """A number that must be reached; ``found`` is None where it was not measured."""

    text: str
    found: float | None
    passed: bool


@dataclass(frozen=True)
class BenchResult:
    """All rows; ``memory`` in bytes by form, single ``numbers`` by name."""

    config: dict[str, Any]
    environment: dict[str, Any]
    rows: list[Row]
    memory: dict[str, int]
    numbers: dict[str, float]

    def row(self, kind: str, name: str, t: int) -> Row | None:
        return next((r for r in self.rows if (r.kind, r.name, r.t) == (kind, name, t)), None)
