"""The results of ``bench``, as plain data."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Row:
    """One candidate at one length ``t``. ``ratio`` is the median speed-up over ``base`` (its time
    divided by this candidate's), with quartiles ``low`` and ``high``. For training steps it is the
    other way round: this candidate's time divided by that of ``base``, a step without mixing."""

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
    """A performance target; ``found`` is None if it was not measured."""

    text: str
    found: float | None
    passed: bool


@dataclass(frozen=True)
class BenchResult:
    """All measurements: timings in ``rows``, peak ``memory`` in bytes by implementation, and other
    ``numbers`` by name."""

    config: dict[str, Any]
    environment: dict[str, Any]
    rows: list[Row]
    memory: dict[str, int]
    numbers: dict[str, float]

    def row(self, kind: str, name: str, t: int) -> Row | None:
        return next((r for r in self.rows if (r.kind, r.name, r.t) == (kind, name, t)), None)
