"""What a conversion was asked to do, and how far it has come, as ``OUT/conversion.json``."""

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from subquad.errors import SubquadError, UsageError
from subquad.storage import write_text

FILE = "conversion.json"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The settings of a conversion.

    ``keep`` are layers (from 0) that keep their mixer; ``keep_worst`` is how many of those whose
    mixer is learned worst get their old one back.
    """

    source: str
    texts: str
    mixer: str
    options: dict[str, Any]
    minutes: float
    keep: tuple[int, ...] = ()
    keep_worst: int = 0
    layers: int | None = None
    length: int | None = None
    seed: int = 0

    def check(self) -> None:
        """Raise ``UsageError`` (one line) if a value is invalid."""
        if not 0 < self.minutes < 1e6:
            raise UsageError(f"--minutes is {self.minutes}; it must be above zero")
        if self.keep and self.keep_worst:
            raise UsageError("--keep-softmax is either auto:N or a list of layers")


@dataclass
class State:
    """A conversion in progress; ``stages`` are the finished ones with their results, by name."""

    plan: Plan
    data: str
    stages: dict[str, dict[str, Any]] = field(default_factory=dict)
    finished: bool = False

    def save(self, out: Path) -> None:
        """Write the file, atomically."""
        write_text(out / FILE, json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")


def resumed(out: Path, plan: Plan, data: str) -> State:
    """The state of the conversion in ``out``, or a new one.

    Raises:
        UsageError: ``out`` holds a conversion with other settings (they are named) or on other
            texts, or a finished one.
        SubquadError: its file is damaged.
    """
    path = out / FILE
    if not path.exists():
        return State(plan, data)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        before = {field.name: found["plan"][field.name] for field in fields(Plan)}
        state = State(plan, found["data"], dict(found["stages"]), bool(found["finished"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SubquadError(f"{path} cannot be read: {error}") from None
    now = json.loads(json.dumps(asdict(plan)))
    changes = [f"{n} was {before[n]}, is {now[n]}" for n in now if before[n] != now[n]]
    if changes:
        raise UsageError(f"{out} holds another conversion: {'; '.join(changes)}")
    if state.data != data:
        raise UsageError(f"{plan.texts} has changed since the conversion in {out} was begun")
    if state.finished:
        raise UsageError(f"{out} already holds a converted run: choose another directory")
    return state


def seconds_of(out: Path) -> float:
    """The seconds that a finished conversion took to learn."""
    stages = json.loads((out / FILE).read_text(encoding="utf-8"))["stages"]
    return float(sum(stage["seconds"] for stage in stages.values()))
