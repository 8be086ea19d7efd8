"""The steps of a run: batches, gradients, evaluations, checkpoints."""

import json
import math
import signal
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from subquad import checkpoint
from subquad.data.batches import Batch, Examples, endless
from subquad.errors import Interrupted, SubquadError
from subquad.models.precision import autocast
from subquad.optimiser import freeze, learning_rate, optimiser
from subquad.run import score
from subquad.storage import remove_leftovers, write_text
from subquad.tasks import Config, Task, load_config

#: Where a run that starts from another one keeps which parameters are new.
START = "start.json"
#: Called with each line of metrics.jsonl as it is written, and the fraction of the budget spent.
Watch = Callable[[dict[str, Any], float], None]


@dataclass
class Loop:
    """The run in hand."""

    config: Config
    out: Path
    task: Task
    training: Examples
    held_out: Examples
    model: nn.Module
    watch: Watch
    new: tuple[str, ...] = ()
    """Parameters that were not taken over from what the run starts from."""

    def __post_init__(self) -> None:
        t = self.config.training
        freeze(self.model, t, self.new)
        self.optimizer = optimiser(self.model, t, self.new)
        self.total = t.steps
        if t.epochs is not None:
            per_epoch = math.ceil(len(self.training) / (t.batch * t.accumulate))
            self.total = max(1, round(t.epochs * per_epoch), t.least_steps)
        self.progress = checkpoint.Progress(step=0, seconds=0.0, best=None, stale=0)
        self.began = time.monotonic()
        self.stream = self._stream()

    def begin(self, resume: bool) -> None:
        """Write what the run is, or pick up its newest checkpoint."""
        remove_leftovers(self.out, self.out / checkpoint.CHECKPOINTS)
        saved = checkpoint.checkpoints(self.out)
        if resume and saved:
            self._same_run()
            self.progress = checkpoint.load_checkpoint(saved[-1], self.model, self.optimizer)
            checkpoint.cut_metrics(self.out, self.progress.step)
        else:
            # First of all what tells that this is a run, so that a kill leaves one to be resumed.
            write_text(self.out / checkpoint.CONFIG, self.config.to_json())
            self.task.save(self.out)
            write_text(self.out / checkpoint.METRICS, "")
            write_text(self.out / "data.json", self._data())
            if self.config.training.start is not None:
                write_text(self.out / START, json.dumps({"new": self.new}, indent=1) + "\n")
        self.stream = self._stream()
        self.began = time.monotonic() - self.progress.seconds

    def _data(self) -> str:
        return f'{{"examples": {len(self.training)}, "sha256": "{self.training.fingerprint()}"}}\n'

    def _same_run(self) -> None:
        before = load_config(self.out / checkpoint.CONFIG)
        before.refuse(self.config, self.out)
        if _read(self.out / "data.json") != self._data():
            path, old = self.config.data.path, before.data.path
            what = "has changed" if path == old else f"holds other data than {old} did"
            raise SubquadError(
                f"{path} {what} since {self.out} was begun; a run is only resumed on the same data"
            )

    def run(self, received: list[int]) -> None:
        """Step until the budget is spent; evaluate, save and answer signals in between."""
        self.model.train()
        while (spent := self._spent()) < 1 or self.progress.step == 0:
            self._step(spent)
            after = self._spent()
            due = self._evaluation_due(spent, after)
            if due:
                self._evaluate(after)
            ends = after >= 1 or self._stale()
            if due or received or self._save_due():
                keep = self.config.training.keep
                state = (self.model, self.optimizer, self.progress)
                checkpoint.save_checkpoint(self.out, *state, keep=keep)
            if received and not ends:
                name = signal.Signals(received[0]).name
                saved = f"{name}: saved at step {self.progress.step} in {self.out}"
                more = "the same command goes on (train: with --resume)"
                raise Interrupted(received[0], f"{saved}; {more}")
            if ends:
                return

    def _spent(self) -> float:
        if self.total is not None:
            return self.progress.step / self.total
        minutes = self.config.training.minutes
        assert minutes is not None
        return (time.monotonic() - self.began) / 60 / minutes

    def _evaluation_due(self, before: float, after: float) -> bool:
        n = self.config.training.evaluations
        return after >= 1 or math.floor(before * n) < math.floor(after * n)

    def _save_due(self) -> bool:
        every = self.config.training.save_every
        return every is not None and self.progress.step % every == 0

    def _stale(self) -> bool:
        patience = self.config.training.patience
        return patience is not None and self.progress.stale >= patience

    def close(self) -> None:
        """End the workers: they leave signals to us."""
        self.stream.close()

    def _stream(self) -> Generator[list[Batch]]:
        t = self.config.training
        given = {"accumulate": t.accumulate, "seed": t.seed, "workers": t.workers}
        return endless(self.training, t.batch, done=self.progress.step, **given)

    def _step(self, spent: float) -> None:
        t = self.config.training
        step = self.progress.step + 1
        on = next(self.model.parameters()).device
        together = [batch.to(on) for batch in next(self.stream)]
        total, count = self._gradients(together, step)
        for parameter in self.model.parameters():
            if parameter.grad is not None:
                parameter.grad.div_(count)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), t.clip)
        if not math.isfinite(float(norm)):
            raise SubquadError(_not_finite("gradient", step, together, self.out))
        # The middle of the step: neither the first nor the last one is wasted on a rate of zero.
        rate = learning_rate(t, spent + (0.5 / self.total if self.total else 0))
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.progress = replace(self.progress, step=step, seconds=time.monotonic() - self.began)
        self._report({"kind": "train", "step": step, "loss": total / count, "lr": rate})

    def _gradients(self, together: list[Batch], step: int) -> tuple[float, int]:
        total, count = 0.0, 0
        on = next(self.model.parameters()).device
        for batch in together:
            with autocast(self.config.training.precision, on):
                loss = self.task.loss(self.model, batch)
            value = float(loss.total.detach())
            if not math.isfinite(value):
                raise SubquadError(_not_finite("loss", step, [batch], self.out))
            loss.total.backward()
            total, count = total + value, count + loss.count
        return total, count

    def _evaluate(self, spent: float) -> None:
        name, held_out = self.task.score.name, self.held_out
        metrics = score(self.task, self.model, held_out, self.config) if len(held_out) else {}
        if not all(math.isfinite(v) for v in metrics.values() if isinstance(v, float)):
            raise SubquadError(
                f"the held-out loss is not finite at step {self.progress.step}; the last "
                f"checkpoint in {self.out} is kept. A smaller --lr is the usual cure"
            )
        new = metrics.get(name)
        best = self.progress.best
        if new is None or self.task.score.better(new, best):
            checkpoint.save_weights(self.model, self.out / checkpoint.MODEL)
            self.progress = replace(self.progress, best=new, stale=0)
        else:
            self.progress = replace(self.progress, stale=self.progress.stale + 1)
        brief = {k: v for k, v in metrics.items() if isinstance(v, int | float)}
        line = {"kind": "validation", "step": self.progress.step, "seconds": self.progress.seconds}
        self._report(line | brief, spent)

    def _report(self, line: dict[str, Any], spent: float | None = None) -> None:
        checkpoint.append_metrics(self.out, line)
        self.watch(line, self._spent() if spent is None else spent)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SubquadError(f"{path} cannot be read: {error}") from None


def _not_finite(what: str, step: int, batches: list[Batch], out: Path) -> str:
    rows = [row for batch in batches for row in batch.rows]
    return (
        f"the {what} is not finite at step {step} (training rows {rows[:8]}"
        f"{'…' if len(rows) > 8 else ''}); the last checkpoint in {out} is kept. "
        "A smaller --lr or --precision fp32 is the usual cure"
    )
