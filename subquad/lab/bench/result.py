"""What ``bench`` found: rows, targets, the crossover, a table, a JSON file and a plot."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from subquad.checkpoint import write_atomically, write_text
from subquad.lab.instruments import machine
from subquad.models.precision import device, resolve


@dataclass(frozen=True)
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
    config: dict[str, Any]
    environment: dict[str, Any]
    rows: list[Row]
    memory: dict[str, int]
    numbers: dict[str, float]

    def row(self, kind: str, name: str, t: int) -> Row | None:
        return next((r for r in self.rows if (r.kind, r.name, r.t) == (kind, name, t)), None)

    def crossover(self) -> str:
        """From which length on linear attention is ahead of softmax, forward."""
        ahead = {r.t: r.ratio >= 1 for r in self.rows if (r.kind, r.name) == ("forward", "native")}
        lengths = sorted(t for t in ahead if t in self.config["lengths"])
        behind = [t for t in lengths if not ahead[t]]
        if not lengths:
            return "not measured"
        if not behind:
            return "none: ahead at every length measured"
        later = [t for t in lengths if t > behind[-1]]
        return f"ahead from {later[0]} tokens on" if later else "not ahead at any length"

    def targets(self) -> list[Target]:
        from subquad.lab.bench.targets import targets

        return targets(self)

    def table(self) -> str:
        lines = [f"{'':21}{'':16}{'tokens':>8}{'ms':>12}{'ratio':>10}  quartiles"]
        for r in self.rows:
            spread = f"{r.low:.2f} to {r.high:.2f}"
            ms = f"{r.seconds * 1e3:.3f}"
            lines.append(f"{r.kind:21}{r.name:16}{r.t:>8}{ms:>12}{r.ratio:>10.2f}  {spread}")
        for name, size in self.memory.items():
            lines.append(f"{'memory':21}{name:16}{size / 2**20:>20.0f} MiB over the inputs")
        lines.append(f"crossover with softmax: {self.crossover()}")
        for target in self.targets():
            found = "not measured" if target.found is None else f"{target.found:.3g}"
            lines.append(f"{'PASS' if target.passed else 'FAIL'}  {target.text}: {found}")
        return "\n".join(lines)

    def save(self, folder: str | Path) -> None:
        """``bench.json``, ``bench.txt`` and ``bench.svg``."""
        folder = Path(folder)
        everything = asdict(self) | {
            "crossover": self.crossover(),
            "targets": [asdict(t) for t in self.targets()],
        }
        write_text(folder / "bench.json", json.dumps(everything, indent=1) + "\n")
        write_text(folder / "bench.txt", self.table() + "\n")
        write_atomically(folder / "bench.svg", self._plot)

    def _plot(self, path: Path) -> None:
        from subquad.lab.bench.plot import plot

        plot(self.rows, path)


def environment(seed: int, command: str) -> dict[str, Any]:
    """What a reader needs to measure again, and to know what was measured."""
    from subquad.kernels import status

    return machine.facts(f"fp32, training steps in {resolve('auto', device('cpu'))}") | {
        "command": command,
        "seed": seed,
        "pinned": os.environ.get("OMP_PROC_BIND", "false"),
        "kernels": asdict(status()),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }
