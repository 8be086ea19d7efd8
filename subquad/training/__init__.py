"""The training loop: one readable function per concern, exact in what it promises.

* Which rows meet in which step is a function of (seed, step): a resumed run goes on mid-epoch.
* A step's gradient is the sum over its batches divided by the count over its batches.
* Every step's loss is finite, or the run stops before the weights are touched.
* A signal is answered after the step in hand, with a checkpoint.
"""

import json
import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from subquad import checkpoint, transfer
from subquad.errors import SubquadError, UsageError
from subquad.locking import LOCK, alone_in
from subquad.models.precision import Precision, device, resolve
from subquad.optimiser.size import made
from subquad.run import Run, finish
from subquad.signals import caught
from subquad.storage import TEMPORARY, nothing_left
from subquad.takeover import take_over
from subquad.tasks import Config, check, load_config, task_class
from subquad.training.loop import START, Loop, Watch
from subquad.training.probing import fit_head

__all__ = ["STORE", "Loop", "Watch", "train"]

#: Where a run keeps its tokenised texts.
STORE = "store"
#: What stands in a directory before a run is begun there, also if its process was killed.
_OURS = re.compile(rf"{re.escape(LOCK)}|{re.escape(TEMPORARY)}.*|{STORE}(\.(building|old)-\d+)?")


def _ignore(line: dict[str, Any], spent: float) -> None:
    """Nobody watches."""


def train(
    config: Config,
    out: str | Path,
    *,
    given: Any = None,
    resume: bool = False,
    watch: Watch = _ignore,
) -> Run:
    """Train one model into the run directory ``out`` and return it with its best weights.

    ``given`` is data in memory, as the task's ``fit`` takes it; None = read ``config.data.path``.
    ``resume`` continues from the newest complete checkpoint, or starts if there is none.

    Raises:
        UsageError: a configuration that cannot be, or ``out`` is taken.
        SubquadError: unusable data, a loss that is not finite, a checkpoint that does not fit.
        Interrupted: a signal came; the run was saved and can be resumed.
    """
    check(config)
    out = Path(out)
    precision = _precision(config, out, resume)
    config = replace(config, training=replace(config.training, precision=precision))
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file; a run needs a directory")
    with alone_in(out):
        _check(config, out, resume)
        loop = _prepared(config, out, given, resume, watch)
        loop.begin(resume)
        with caught() as received, closing(loop):
            loop.run(received)
        run = finish(out, loop.held_out)
        for text in run.task.remarks():
            watch({"kind": "note", "text": text}, 1.0)
    return run


def _precision(config: Config, out: Path, resume: bool) -> Precision:
    """What ``auto`` means; a run that goes on keeps what it was begun with, however the measurement
    turns out today."""
    asked = config.training.precision
    if asked == "auto" and resume and (out / checkpoint.CONFIG).exists():
        asked = load_config(out / checkpoint.CONFIG).training.precision
    return resolve(asked, device())


def _prepared(config: Config, out: Path, given: Any, resume: bool, watch: Watch) -> Loop:
    """Data and first weights. Nothing is left behind by what is refused here."""
    if config.training.start and not resume:
        transfer.check(config)
    torch.manual_seed(config.training.seed)
    with nothing_left(out / STORE):
        fit: Any = task_class(config.task).fit
        task, training, held_out = fit(config, out / STORE, *([] if given is None else [given]))
        alone = "nothing is held out: the last weights are kept, unscored"
        for text in [*task.notes, *([] if len(held_out) else [alone])]:
            watch({"kind": "note", "text": text}, 0.0)
        model = made(task, device())
        new: tuple[str, ...] = ()
        if config.training.start and resume and checkpoint.checkpoints(out):
            new = _new(out)
        elif config.training.start:
            taken = take_over(model, task.config)
            watch({"kind": "note", "text": taken.sentence}, 0.0)
            new = taken.new
            if taken.pretrained and {"head.weight", "head.bias"} <= {*new}:
                fit_head(task, model, training, task.config)
        return Loop(task.config, out, task, training, held_out, model.to(device()), watch, new)


def _new(out: Path) -> tuple[str, ...]:
    """The parameters that did not come from what the run started from; runs of version 0.1 do not
    say, and treat all alike.

    Raises:
        SubquadError: the file is damaged.
    """
    try:
        return tuple(json.loads((out / START).read_text(encoding="utf-8"))["new"])
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SubquadError(f"{out / START} cannot be read: {error}") from None


def _check(config: Config, out: Path, resume: bool) -> None:
    if (out / checkpoint.CONFIG).exists() and not resume:
        raise UsageError(f"{out} already holds a run: resume it, or choose another directory")
    if checkpoint.checkpoints(out):  # the data can settle some fields: those are compared later
        load_config(out / checkpoint.CONFIG).refuse(
            config, out, but=task_class(config.task).settled
        )
    if not (out / checkpoint.CONFIG).exists():
        theirs = sorted(path.name for path in out.iterdir() if not _OURS.match(path.name))
        if theirs:
            raise UsageError(
                f"{out} holds other things ({theirs[0]}) and is no run: choose another directory"
            )
