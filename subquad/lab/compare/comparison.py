"""The results of ``compare``, as plain data."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from subquad.lab.compare.floors import Floor
from subquad.lab.compare.runs import Result, plain_result
from subquad.lab.compare.verdict import Candidate, Figure, Verdict
from subquad.lab.instruments.layer import Measured
from subquad.tasks import Config

REPORT, RESULTS = "report.html", "results.json"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The results of ``compare``; ``report`` and ``results`` are the paths of its two files."""

    out: Path
    config: Config
    test: str | None
    figure: Figure
    runs: tuple[Result, ...]
    floors: tuple[tuple[Floor, ...], ...]
    """The baselines for each seed: data from a file is split anew for every seed."""
    measured: Measured | None
    verdict: Verdict
    machine: dict[str, Any]
    command: str
    labels: tuple[str, ...] = ()

    @property
    def mixers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(r.mixer for r in self.runs))

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(r.seed for r in self.runs))

    @property
    def report(self) -> Path:
        return self.out / REPORT

    @property
    def results(self) -> Path:
        return self.out / RESULTS

    def of(self, mixer: str) -> list[Result]:
        return [r for r in self.runs if r.mixer == mixer]

    def candidates(self) -> list[Candidate]:
        """Baselines, then mixers, each with its values of the deciding metric."""
        return candidates(self.runs, self.floors, self.figure)

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON-serialisable data."""
        rows = [
            {"name": c.name, "floor": c.floor, "mean": c.mean, "std": c.std, "seeds": c.values}
            for c in self.candidates()
        ]
        return {
            "command": self.command,
            "machine": self.machine,
            "figure": asdict(self.figure),
            "verdict": asdict(self.verdict),
            "table": rows,
            "seeds": self.seeds,
            "mixers": self.mixers,
            "test": self.test,
            "config": json.loads(self.config.to_json()),
            "runs": [plain_result(r) for r in self.runs],
            "floors": [[asdict(f) for f in of_seed] for of_seed in self.floors],
            "cost": None if self.measured is None else self.measured.to_dict(),
        }


def candidates(
    runs: Sequence[Result], found: Sequence[Sequence[Floor]], figure: Figure
) -> list[Candidate]:
    """Baselines, then mixers in the order in which they were trained."""

    names = [f.name for f in found[0]] if found else []
    rows = [
        Candidate(
            name, tuple(value(f, figure) for of_seed in found for f in of_seed if f.name == name)
        )
        for name in names
    ]
    for mixer in dict.fromkeys(r.mixer for r in runs):
        mine = [r for r in runs if r.mixer == mixer]
        seconds = statistics.median(r.seconds_per_step for r in mine)
        rows.append(Candidate(mixer, tuple(value(r, figure) for r in mine), seconds))
    return rows


def value(one: Floor | Result, figure: Figure) -> float:
    """The deciding metric of one run or one baseline."""
    metrics = one.held_out if figure.split == "held-out" else one.test
    assert metrics is not None
    return float(metrics[figure.key])


def in_a_line(run: Result, figure: Figure) -> str:
    """One line for the log about a finished run."""
    found = f"{figure.split} {figure.title} {figure.show(value(run, figure))}"
    return f"{run.mixer}, seed {run.seed}: {found} after {run.seconds:,.1f} s"
