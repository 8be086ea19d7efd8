"""Which mixer is best for this data? Train each one several times with the same budget.

::

    OUT/
      report.html      the report to read
      results.json     every number, the configuration and the machine
      runs/MIXER-seedK and runs/MIXER-seedK.json

Every mixer is trained with the first seed before any is trained with the second, so that an
interrupted comparison, or a machine that slows down, treats all mixers alike. Calling ``compare``
again with the same arguments continues where it stopped.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from subquad.data.batches import Examples
from subquad.errors import UsageError
from subquad.lab.compare import TEACHING, teaching
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

#: Share of the progress bar for training; baselines and cost measurements get the rest.
_TRAINING = 0.85


def compare(
    config: Config,
    mixers: Sequence[str],
    seeds: int,
    out: str | Path,
    *,
    test: str | None = None,
    teach: float = TEACHING,
    lengths: Sequence[int] = LENGTHS,
    command: str | None = None,
    watch: Watch = ignore,
) -> Comparison:
    """Train every mixer with every seed, fit the baselines, measure costs, and write the report.

    Args:
        config: settings shared by all runs; its ``model.mixers`` is ignored.
        mixers: names of the mixers to compare.
        seeds: number of runs per mixer, with seeds ``config.training.seed``, that plus 1, ….
        out: directory for the report and the runs.
        test: a test file to evaluate on; without it, the held-out set is used.
        teach: minutes for teaching each mixer from the body that ``config`` starts from, if that
            has another mixer; 0 for none.
        lengths: sequence lengths at which one layer's cost is measured; ``()`` skips this.
        command: the command that the report shows; by default it is derived from the arguments.
        watch: called with the progress.

    Returns:
        The comparison, which has also been written to ``out``.

    Raises:
        UsageError: an invalid mixer, number of seeds or configuration; raised before any training.
        SubquadError: the data is unusable, or a run cannot be trained.
        Interrupted: a signal arrived; the same call continues the comparison.
    """
    with alone_in(Path(out)):
        comparison = study(
            config,
            mixers,
            seeds,
            out,
            test=test,
            teach=teach,
            lengths=lengths,
            command=command,
            watch=watch,
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
    teach: float = TEACHING,
    lengths: Sequence[int] = LENGTHS,
    command: str | None = None,
    baselines: bool = True,
    watch: Watch = ignore,
) -> Comparison:
    """The same as ``compare``, but without the report: only ``out/runs`` is written; and without
    fitting the baselines again where another comparison of the same data has them."""
    out = Path(out)
    teaching.check(config, teach)
    plan = _plan(config, mixers, seeds)
    numbers = tuple(dict.fromkeys(c.training.seed for c in plan))
    stores = {seed: out / "runs" / f"store-seed{seed}" for seed in numbers}
    with nothing_left(out, out / "runs", *stores.values()):
        fit = task_class(config.task).fit
        # The data depends on the seed, not on the mixer: read it once per seed.
        first_of = {c.training.seed: c for c in reversed(plan)}
        data = {seed: fit(first_of[seed], store) for seed, store in stores.items()}
        if not len(data[numbers[0]][2]):
            raise UsageError(
                "the held-out set is empty, but it is needed to compare mixers: use --validation "
                "above 0"
            )
        first, training, held_out = data[numbers[0]]
        said = [text for task, *_ in data.values() for text in task.notes]
        for one in plan:
            refuse_too_large(data[one.training.seed][0], one)
        if test is not None:
            encoded(first, test)  # report problems with the test file before any training
            said += first.notes
        for note in dict.fromkeys(said):
            watch(Progress(0.0, "reading", note))
    runs: list[Result] = []
    for i, one in enumerate(plan):
        piece = part(watch, _TRAINING * i / len(plan), _TRAINING / len(plan))
        runs.append(obtain(one, out, test, data[one.training.seed][1:], piece, teach))
        figure = deciding_figure(first, runs[0], held_out, test)
        piece(Progress(1.0, "training", f"{i + 1} of {len(plan)}: {in_a_line(runs[-1], figure)}"))
    watch(Progress(_TRAINING, "fitting baselines"))
    found = _floors(config, data, test) if baselines else ()
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
        command=command or compare_command(config, mixers, seeds, str(out), test, teach),
        labels=first.class_names,
    )


def write(comparison: Comparison) -> None:
    """Write ``results.json`` and ``report.html``, each atomically."""
    text = json.dumps(comparison.to_dict(), indent=1, ensure_ascii=False) + "\n"
    write_text(comparison.results, text)
    write_text(comparison.report, render(comparison))


def _plan(config: Config, mixers: Sequence[str], seeds: int) -> list[Config]:
    """All runs in training order; rejects invalid settings before any work is done."""
    if seeds < 1:
        raise UsageError(f"--seeds is {seeds}; it must be at least 1")
    if not mixers or len(set(mixers)) < len(mixers):
        given = ",".join(mixers) or "empty"
        raise UsageError(f"--mixers is {given}; name at least 1 mixer, and each one only once")
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
    """The baselines for every seed; seeds with the same training set share one fit."""
    known: dict[str, tuple[Floor, ...]] = {}
    found = []
    for seed, (task, training, held_out) in data.items():
        rows = training.fingerprint()
        if rows not in known:
            known[rows] = tuple(floors(task, _seeded(config, seed), training, held_out, test))
        found.append(known[rows])
    return tuple(found)


def deciding_figure(task: Task, run: Result, held_out: Examples, test: str | None) -> Figure:
    """The metric that decides: the task's score or, where that is a loss in nats, its value in
    bits."""
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

    # One block is measured at many lengths, on sequences without padding: drop padding options.
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
