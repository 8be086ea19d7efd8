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
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from subquad.data.batches import Examples
from subquad.errors import UsageError
from subquad.lab.compare.budget import cautions
from subquad.lab.compare.comparison import Comparison, candidates, in_a_line
from subquad.lab.compare.floors import Floor, encoded, floors
from subquad.lab.compare.report import render
from subquad.lab.compare.reproduce import compare_command
from subquad.lab.compare.runs import Result, obtain, refuse_too_large
from subquad.lab.compare.verdict import Figure, judge
from subquad.lab.instruments import machine
from subquad.lab.instruments.layer import LENGTHS, Measured, measure
from subquad.lab.progress import Progress, Watch, ignore, part
from subquad.locking import alone_in
from subquad.models.precision import device, resolve
from subquad.storage import nothing_left, write_text
from subquad.tasks import Config, Task, check, task_class

#: Parts of the work that training takes; floors and measurement share the rest.
_TRAINING = 0.85


def compare(
    config: Config,
    mixers: Sequence[str],
    seeds: int,
    out: str | Path,
    *,
    test: str | None = None,
    lengths: Sequence[int] = LENGTHS,
    command: str | None = None,
    watch: Watch = ignore,
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
    watch(Progress(1.0, "done"))
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
    watch: Watch = ignore,
) -> Comparison:
    """``compare`` without its two files: only ``out/runs`` is written."""
    out = Path(out)
    plan = _plan(config, mixers, seeds)
    numbers = tuple(dict.fromkeys(c.training.seed for c in plan))
    stores = {seed: out / "runs" / f"store-seed{seed}" for seed in numbers}
    with nothing_left(out, out / "runs", *stores.values()):
        fit = task_class(config.task).fit
        # Which mixer reads them is no matter to the rows.
        first_of = {c.training.seed: c for c in reversed(plan)}
        data = {seed: fit(first_of[seed], store) for seed, store in stores.items()}
        if not len(data[numbers[0]][2]):
            raise UsageError(
                "no rows are held out, and they choose the weights: --validation must be above 0"
            )
        first, training, held_out = data[numbers[0]]
        said = [text for task, *_ in data.values() for text in task.notes]
        for one in plan:
            refuse_too_large(data[one.training.seed][0], one)
        if test is not None:
            encoded(first, test)  # what is wrong with it is said before any training
            said += first.notes
        for note in dict.fromkeys(said):
            watch(Progress(0.0, "reading", note))
    runs: list[Result] = []
    for i, one in enumerate(plan):
        piece = part(watch, _TRAINING * i / len(plan), _TRAINING / len(plan))
        runs.append(obtain(one, out, test, data[one.training.seed][1:], piece))
        figure = deciding_figure(first, runs[0], held_out, test)
        piece(Progress(1.0, "training", f"{i + 1} of {len(plan)}: {in_a_line(runs[-1], figure)}"))
    watch(Progress(_TRAINING, "fitting floors"))
    found = _floors(config, data, test)
    verdict = judge(candidates(runs, found, figure), figure)
    verdict = replace(verdict, cautions=cautions(config, runs, figure, len(training)))
    measured = _measure(config, mixers, lengths, watch)
    return Comparison(
        out=out,
        config=config,
        test=test,
        figure=figure,
        runs=tuple(runs),
        floors=found,
        measured=measured,
        verdict=verdict,
        machine=machine.facts(resolve(config.training.precision, device())),
        command=command or compare_command(config, mixers, seeds, str(out), test),
        labels=first.class_names,
    )


def write(comparison: Comparison) -> None:
    """``results.json`` and ``report.html``, each whole or not at all."""
    text = json.dumps(comparison.to_dict(), indent=1, ensure_ascii=False) + "\n"
    write_text(comparison.results, text)
    write_text(comparison.report, render(comparison))


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


def deciding_figure(task: Task, run: Result, held_out: Examples, test: str | None) -> Figure:
    """The task's own score; where that is a loss in nats, the bits that stand for it."""
    metrics = run.held_out if test is None else run.test
    assert metrics is not None
    score = task.score
    bits = [name for name in metrics if name.startswith("bits_per_")]
    key = bits[0] if score.name == "loss" and bits else score.name
    rows = int(metrics.get("examples", len(held_out)))
    return Figure(key, score.higher_is_better, rows, "held-out" if test is None else "test")


def _measure(
    config: Config, mixers: Sequence[str], lengths: Sequence[int], watch: Watch
) -> Measured | None:
    if not lengths:
        return None
    causal = task_class(config.task).causal

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
        watch=part(watch, 0.9, 0.1),
    )
