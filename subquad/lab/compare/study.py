"""Which mixer is best for this data? Train each at the same budget, several times, and say so.

::

    OUT/
      report.html      for people
      results.json     every number, the configuration and the machine
      runs/MIXER-seedK and runs/MIXER-seedK.json

Seeds go round: every mixer is trained once before any is trained twice, so that a comparison that
is broken off, and a machine that slows down, are fair to all. The same call continues it.
"""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from subquad.checkpoint import write_text
from subquad.data.batches import Examples
from subquad.errors import UsageError
from subquad.lab.compare.floors import Floor, encoded, floors
from subquad.lab.compare.reproduce import compare_command
from subquad.lab.compare.runs import Result, Watch, obtain, refuse_too_large, run_name
from subquad.lab.compare.verdict import Candidate, Figure, Verdict, judge
from subquad.lab.instruments import machine
from subquad.lab.instruments.layer import LENGTHS, Measured, measure
from subquad.locking import alone_in
from subquad.models.precision import device, resolve
from subquad.storage import nothing_left
from subquad.tasks import Config, Task, check, task_class

REPORT, RESULTS = "report.html", "results.json"

#: Parts of the work that training takes; floors and measurement share the rest.
_TRAINING = 0.85


def _ignore(line: dict[str, Any], spent: float) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class Comparison:
    """What ``compare`` found. ``report`` and ``results`` are the files that say it."""

    out: Path
    config: Config
    mixers: tuple[str, ...]
    seeds: tuple[int, ...]
    test: str | None
    figure: Figure
    runs: tuple[Result, ...]
    floors: tuple[tuple[Floor, ...], ...]
    """The floors of each seed: rows are split anew by seed where the data is a file."""
    measured: Measured | None
    verdict: Verdict
    machine: dict[str, Any]
    command: str
    labels: tuple[str, ...] = ()

    @property
    def report(self) -> Path:
        return self.out / REPORT

    @property
    def results(self) -> Path:
        return self.out / RESULTS

    def of(self, mixer: str) -> list[Result]:
        return [r for r in self.runs if r.mixer == mixer]

    def candidates(self) -> list[Candidate]:
        """Floors, then mixers, with the figure that decides."""
        return candidates(self.runs, self.floors, self.figure)

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
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
            "runs": [asdict(r) for r in self.runs],
            "floors": [[asdict(f) for f in of_seed] for of_seed in self.floors],
            "cost": None if self.measured is None else self.measured.to_dict(),
        }


def compare(
    config: Config,
    mixers: Sequence[str],
    seeds: int,
    out: str | Path,
    *,
    test: str | None = None,
    lengths: Sequence[int] = LENGTHS,
    command: str | None = None,
    watch: Watch = _ignore,
) -> Comparison:
    """Train ``mixers`` × ``seeds`` with ``config``, add the floors, measure costs, write it down.

    Figures are on ``test`` if given, else on the held-out rows. ``lengths=()`` measures no costs.
    ``command`` is what the report tells people to type; None = made from the arguments.

    Raises:
        UsageError: a mixer, number of seeds or configuration that cannot be, before any work.
        SubquadError: unusable data, or a run that cannot be trained.
        Interrupted: a signal came; the same call continues.
    """
    with alone_in(Path(out)):
        comparison = study(
            config, mixers, seeds, out, test=test, lengths=lengths, command=command, watch=watch
        )
        write(comparison)
    watch({"kind": "done"}, 1.0)
    return comparison


def study(
    config: Config,
    mixers: Sequence[str],
    seeds: int,
    out: str | Path,
    *,
    test: str | None = None,
    lengths: Sequence[int] = LENGTHS,
    command: str | None = None,
    watch: Watch = _ignore,
) -> Comparison:
    """``compare`` without its two files: only ``out/runs`` is written."""
    out = Path(out)
    plan = _plan(config, mixers, seeds)
    numbers = tuple(dict.fromkeys(c.training.seed for c in plan))
    stores = {seed: out / "runs" / f"store-seed{seed}" for seed in numbers}
    with nothing_left(out, out / "runs", *stores.values()):
        fit = task_class(config.task).fit
        data = {seed: fit(_seeded(config, seed), store) for seed, store in stores.items()}
        if not len(data[numbers[0]][2]):
            raise UsageError(
                "no rows are held out, and they choose the weights: --validation must be above 0"
            )
        for one in plan:
            refuse_too_large(data[one.training.seed][0], one)
        if test is not None:
            encoded(data[numbers[0]][0], test)  # what is wrong with it is said before any training
    runs = []
    for i, one in enumerate(plan):
        runs.append(obtain(one, out, test, data[one.training.seed][1:], _part(watch, i, len(plan))))
    watch({"kind": "floors"}, _TRAINING)
    found = _floors(config, data, test)
    figure = _figure(runs, data[numbers[0]][2], test)
    verdict = judge(candidates(runs, found, figure), figure)
    measured = _measure(config, mixers, lengths, watch)
    return Comparison(
        out=out,
        config=config,
        mixers=tuple(mixers),
        seeds=numbers,
        test=test,
        figure=figure,
        runs=tuple(runs),
        floors=found,
        measured=measured,
        verdict=verdict,
        machine=machine.facts(resolve(config.training.precision, device())),
        command=command or compare_command(config, mixers, seeds, str(out), test),
        labels=tuple(getattr(getattr(data[numbers[0]][0], "labels", None), "names", ())),
    )


def write(comparison: Comparison) -> None:
    """``results.json`` and ``report.html``, each whole or not at all."""
    from subquad.lab.compare.report import render

    text = json.dumps(comparison.to_dict(), indent=1, ensure_ascii=False) + "\n"
    write_text(comparison.results, text)
    write_text(comparison.report, render(comparison))


def candidates(
    runs: Sequence[Result], found: Sequence[Sequence[Floor]], figure: Figure
) -> list[Candidate]:
    """Floors, then mixers in the order they were given."""

    def value(one: Floor | Result) -> float:
        metrics = one.held_out if figure.split == "held-out" else one.test
        assert metrics is not None
        return float(metrics[figure.key])

    names = [f.name for f in found[0]] if found else []
    rows = [
        Candidate(name, tuple(value(f) for of_seed in found for f in of_seed if f.name == name))
        for name in names
    ]
    for mixer in dict.fromkeys(r.mixer for r in runs):
        mine = [r for r in runs if r.mixer == mixer]
        seconds = statistics.median(r.seconds_per_step for r in mine)
        rows.append(Candidate(mixer, tuple(map(value, mine)), seconds))
    return rows


def _plan(config: Config, mixers: Sequence[str], seeds: int) -> list[Config]:
    """Every run in the order of training; refuses what cannot be before anything is done."""
    if seeds < 1:
        raise UsageError(f"{seeds} seeds: at least 1 is needed")
    if not mixers or len(set(mixers)) < len(mixers):
        raise UsageError(f"mixers {','.join(mixers) or '(none given)'}: name each once, at least 1")
    plan = []
    for k in range(seeds):
        for mixer in mixers:
            mine = {n: o for n, o in config.model.mixer_options.items() if n == mixer}
            model = replace(config.model, mixers=(mixer,), mixer_options=mine)
            one = replace(_seeded(config, config.training.seed + k), model=model)
            check(one)
            plan.append(one)
    return plan


def _seeded(config: Config, seed: int) -> Config:
    return replace(config, training=replace(config.training, seed=seed))


def _part(watch: Watch, index: int, total: int) -> Watch:
    def note(line: dict[str, Any], spent: float) -> None:
        watch(line | {"index": index, "of": total}, _TRAINING * (index + min(spent, 1)) / total)

    return note


def _floors(
    config: Config, data: dict[int, tuple[Task, Examples, Examples]], test: str | None
) -> tuple[tuple[Floor, ...], ...]:
    """The floors of every seed; rows that were seen before are not fitted again."""
    known: dict[str, tuple[Floor, ...]] = {}
    found = []
    for seed, (task, training, held_out) in data.items():
        rows = training.fingerprint()
        if rows not in known:
            known[rows] = tuple(floors(task, _seeded(config, seed), training, held_out, test))
        found.append(known[rows])
    return tuple(found)


def _figure(runs: Sequence[Result], held_out: Examples, test: str | None) -> Figure:
    """Accuracy where there is one, else the task's bits."""
    metrics = runs[0].held_out if test is None else runs[0].test
    assert metrics is not None
    bits = [name for name in metrics if name.startswith("bits_per_")]
    key = "accuracy" if "accuracy" in metrics else (bits or ["loss"])[0]
    rows = int(metrics.get("examples", len(held_out)))
    return Figure(key, key == "accuracy", rows, "held-out" if test is None else "test")


def _measure(
    config: Config, mixers: Sequence[str], lengths: Sequence[int], watch: Watch
) -> Measured | None:
    if not lengths:
        return None
    causal = task_class(config.task).causal

    def note(line: dict[str, Any], spent: float) -> None:
        watch(line, 0.9 + 0.1 * spent)

    # One block is measured at many lengths, on rows without padding: how it pads is no matter.
    options = {
        name: {key: value for key, value in chosen.items() if key not in ("padding", "length")}
        for name, chosen in config.model.mixer_options.items()
        if name in mixers
    }
    model = replace(config.model, mixer_options=options)
    return measure(
        mixers,
        model,
        causal=causal,
        lengths=lengths,
        precision=config.training.precision,
        watch=note,
    )


__all__ = ["REPORT", "RESULTS", "Comparison", "Watch", "candidates", "compare", "run_name", "write"]
