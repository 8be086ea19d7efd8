"""Converts a trained model into one with other mixers, by teaching the new from the old.

1. Everything that both models have is copied: embeddings, norms, feed-forward networks, and the
   projections of attention where the new mixer has the same.
2. *Transfer*: every new mixer learns the old one's output on the old one's input, all layers at
   once, without labels (Zhang et al. 2024, arXiv 2402.04347; Zhang et al. 2025, LoLCATs, arXiv
   2410.10254, section 3.1). The error is relative, so that no layer rules.
3. *Together*: the whole student learns the teacher's hidden states, each on its own activations
   (Bick et al. 2024, MOHAWK, arXiv 2408.10189, stage 2), so that errors do not add up.

The texts should be of the lengths that the model will be used at: what is learned at 64 tokens does
not carry to 256. Tuning to a task is ``subquad train --from``.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from subquad import checkpoint
from subquad.conversion import distance
from subquad.conversion.plan import FILE, Plan, State, resumed, seconds_of
from subquad.conversion.recording import blocks_of
from subquad.conversion.stage import Rates, Stage
from subquad.conversion.student import Student, build, lengthened, put_back
from subquad.conversion.writing import write
from subquad.data.batches import Batch, Examples, collate, sorted_batches
from subquad.errors import SubquadError, UsageError
from subquad.locking import alone_in
from subquad.models.precision import autocast, resolve
from subquad.run import Run
from subquad.signals import caught
from subquad.storage import nothing_left

__all__ = ["FILE", "Conversion", "Plan", "Watch", "convert", "seconds_of"]

Watch = Callable[[dict[str, Any], float], None]

#: Where a conversion keeps what only resuming needs.
WORK = "conversion"
#: Tokens per step, about.
TOKENS = 2048
#: Rows held out to measure errors: this share, but not more rows or tokens than these.
HELD_OUT, MOST_ROWS, MOST_TOKENS = 0.1, 128, 8_192
LEAST = 20
#: Fewer tokens than this per text, on average, and a map learned from them is of little use on
#: longer texts.
SHORT = 48
TRANSFER, TOGETHER = "transfer", "together"
#: Share of the budget that goes to the transfer.
_SHARES = {TRANSFER: 0.6, TOGETHER: 0.4}
_RATES = {TRANSFER: Rates(copied=1e-3, new=1e-2), TOGETHER: Rates(copied=1e-4, new=1e-3)}


@dataclass(frozen=True)
class Conversion:
    """A finished conversion: the teacher, the student, and the errors on held-out rows."""

    out: Path
    plan: Plan
    teacher: Run
    student: Student
    stages: dict[str, dict[str, Any]]
    """For each stage, ``before`` and ``after``: ``errors`` per layer, ``cosine`` of row vectors;
    ``seconds`` and ``steps``."""
    lengths: list[int]
    """Tokens per text: shortest, median, 90th percentile, longest."""
    kept: tuple[int, ...]
    """The student's layers (from 0) that have the teacher's mixer."""


@dataclass
class _Work:
    """What all stages need."""

    plan: Plan
    state: State
    out: Path
    teacher: Run
    training: Examples
    held_out: list[Batch]
    batch: int
    watch: Watch


def convert(teacher: Run, plan: Plan, out: str | Path, watch: Watch) -> Conversion:
    """Convert ``teacher`` as ``plan`` says and write the result to ``out``, a run directory. If
    ``out`` holds an unfinished conversion with the same settings, it is continued.

    Raises:
        UsageError: settings that do not fit the model, or ``out`` is taken.
        SubquadError: the texts cannot be used, or a loss is not finite.
        Interrupted: a signal came; the same call continues.
    """
    plan.check()
    out = Path(out)
    if (out / checkpoint.CONFIG).exists():
        raise UsageError(f"{out} already holds a run: choose another directory")
    torch.manual_seed(plan.seed)  # before anything is drawn: new mixers too
    teacher = lengthened(teacher, plan.length)
    student = build(teacher, plan.mixer, plan.options, keep=plan.keep, layers=plan.layers)
    if plan.keep_worst and not _learning(student, teacher):
        raise UsageError(
            f"--keep-softmax auto:{plan.keep_worst}: {plan.mixer} has no weights, so that nothing "
            "shows which layers learn worst; name the layers"
        )
    if plan.keep_worst >= (n := len(student.changed)):
        raise UsageError(
            f"--keep-softmax auto:{plan.keep_worst} would keep all {n} layers that are converted: "
            f"at most auto:{n - 1}"
        )
    watch({"kind": "note", "text": student.sentence()}, 0.0)
    with alone_in(out):
        with nothing_left(out / WORK):
            examples = _read(teacher, plan, out, watch)
        state = resumed(out, plan, examples.fingerprint())
        state.save(out)
        work = _work(plan, state, out, teacher, examples, watch)
        with caught() as received:
            student = _stages(work, student, received)
        write(out, state, teacher, student)
        shutil.rmtree(out / WORK, ignore_errors=True)
    lengths = np.quantile(examples.lengths, [0, 0.5, 0.9, 1]).astype(int).tolist()
    kept = tuple(i for i in range(len(student.layers)) if i not in student.changed)
    return Conversion(out, plan, teacher, student, state.stages, lengths, kept)


def _read(teacher: Run, plan: Plan, out: Path, watch: Watch) -> Examples:
    task = teacher.task
    length = teacher.config.data.length
    examples = task.unlabelled(plan.texts, out / WORK / "store")
    for note in task.notes:
        watch({"kind": "note", "text": note}, 0.0)
    if len(examples) < LEAST:
        raise SubquadError(
            f"{plan.texts} makes {len(examples)} rows; a conversion needs {LEAST} or more"
        )
    mean = float(examples.lengths.mean())
    if mean < SHORT < length:
        text = (
            f"the texts have {mean:.0f} tokens on average: what is learned from them will not "
            f"carry to rows near the maximum length of {length}; use texts as long as those of use"
        )
        watch({"kind": "note", "text": text}, 0.0)
    return examples


def _work(
    plan: Plan, state: State, out: Path, teacher: Run, examples: Examples, watch: Watch
) -> _Work:
    order = np.random.default_rng(plan.seed).permutation(len(examples))
    most = max(1, min(MOST_ROWS, int(len(order) * HELD_OUT)))
    held = order[:most]
    fits = np.cumsum(examples.lengths[held]) <= MOST_TOKENS
    held = held[: max(1, int(fits.sum()))]
    training = examples.view(np.sort(order[most:]))
    small = examples.select(np.sort(held))
    on = teacher.device
    batches = [
        collate(small, rows).to(on) for rows in sorted_batches(small.lengths, 32, TOKENS * 2)
    ]
    batch = max(1, min(64, round(TOKENS / float(examples.lengths.mean()))))
    batch = min(batch, len(training))
    return _Work(plan, state, out, teacher, training, batches, batch, watch)


def _stages(work: _Work, student: Student, received: list[int]) -> Student:
    """Run both stages; those that are finished are loaded."""
    began = 0.0
    for name in (TRANSFER, TOGETHER):
        learning, share = _learning(student, work.teacher), _SHARES[name]
        if name == TRANSFER and not learning:
            text = f"{work.plan.mixer} has no weights: only the other parts of the layers can learn"
            work.watch({"kind": "note", "text": text}, began)
            began += share
            continue
        stage = _stage(work, student, name, learning, began, share)
        saved = work.out / WORK / f"{name}.safetensors"
        if name in work.state.stages:
            checkpoint.load_weights(student.model, saved)
        else:
            stage.run(received)
            checkpoint.save_weights(student.model, saved)
            after = stage.measure()
            work.state.stages[name] = {
                "before": _first(work.out, name) or after,
                "after": after,
                "seconds": stage.progress.seconds,
                "steps": stage.progress.step,
            }
            work.state.save(work.out)
            shutil.rmtree(work.out / WORK / name, ignore_errors=True)
        if name == TRANSFER and work.plan.keep_worst:
            student = _without_worst(work, student)
        began += share
    return student


def _first(out: Path, name: str) -> dict[str, Any] | None:
    lines = [line for line in checkpoint.read_metrics(out) if line["kind"] == name]
    found = next((line for line in lines if line["step"] == 0), None)
    return None if found is None else {key: found[key] for key in ("errors", "cosine")}


def _without_worst(work: _Work, student: Student) -> Student:
    """Give the layers that were learned worst their old mixer back."""
    errors = work.state.stages[TRANSFER]["after"]["errors"]
    order = sorted(range(len(errors)), key=lambda i: -errors[i])[: work.plan.keep_worst]
    keep = tuple(sorted(student.changed[i] for i in order))
    layers = ", ".join(str(i + 1) for i in keep)
    work.watch({"kind": "note", "text": f"layers {layers}, learned worst, keep their mixer"}, 0.6)
    return put_back(student, work.teacher, keep)


def _learning(student: Student, teacher: Run) -> dict[str, bool]:
    """The parameters of the new mixers: name → whether it is new."""
    old = [{n: p.shape for n, p in block.named_parameters()} for block in blocks_of(teacher.model)]
    names = {id(p): n for n, p in student.model.named_parameters()}
    blocks = blocks_of(student.model)
    return {
        names[id(p)]: old[student.layers[i]].get(name) != p.shape
        for i in student.changed
        for name, p in blocks[i].named_parameters()
        if name.startswith("mixer.")
    }


def _stage(
    work: _Work, student: Student, name: str, learning: dict[str, bool], began: float, share: float
) -> Stage:
    loss = distance.of_transfer if name == TRANSFER else distance.of_whole
    on = work.teacher.device
    precision = resolve("auto", on)

    def step(batch: Batch) -> torch.Tensor:
        with autocast(precision, on):
            return loss(student, work.teacher, batch)

    def measure() -> dict[str, Any]:
        with autocast(precision, on):
            return distance.measured(student, work.teacher, work.held_out)

    if name == TOGETHER:
        mine = dict(student.model.named_parameters())
        inside = {id(p) for block in blocks_of(student.model) for p in block.parameters()}
        learning = {n: learning.get(n, False) for n, p in mine.items() if id(p) in inside}

    def watch(line: dict[str, Any], spent: float) -> None:
        work.watch(line, began + share * min(spent, 1.0))

    return Stage(
        name=name,
        model=student.model,
        learning=learning,
        rates=_RATES[name],
        loss=step,
        measure=measure,
        rows=work.training,
        batch=work.batch,
        minutes=work.plan.minutes * share,
        seed=work.plan.seed + (name == TOGETHER),
        out=work.out / WORK,
        watch=watch,
    )
