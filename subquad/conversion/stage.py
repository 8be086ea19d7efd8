"""One stage of a conversion: a loss, the parameters that learn from it, and a budget of minutes."""

import math
import signal
import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from subquad import checkpoint
from subquad.data.batches import Batch, Examples, endless
from subquad.errors import Interrupted, SubquadError
from subquad.optimiser import learning_rate
from subquad.tasks import TrainConfig

#: How often a stage is evaluated and saved.
EVALUATIONS = 5
#: A stage ends early if no layer's error has fallen by this share since the last evaluation.
LEAST_GAIN = 0.005
#: Fractions of the peak rate over a stage: a short warm-up, then linear decay.
_SHAPE = TrainConfig(lr=1.0, warmup=0.06, steps=1)
CLIP = 1.0


@dataclass(frozen=True)
class Rates:
    """Peak learning rates of what was copied and of what is new."""

    copied: float
    new: float


@dataclass(kw_only=True)
class Stage:
    """A stage in hand.

    Args:
        name: what the stage is called in reports, and its directory in ``out``.
        model: the model whose parameters learn; others of them stay frozen.
        learning: parameter name → whether it is new (True) or was copied (False).
        loss: the loss of a batch, one number per layer; their sum is minimised.
        measure: errors by name on held-out rows.
        minutes: its budget.
    """

    name: str
    model: nn.Module
    learning: dict[str, bool]
    rates: Rates
    loss: Callable[[Batch], Tensor]
    measure: Callable[[], dict[str, Any]]
    rows: Examples
    batch: int
    minutes: float
    seed: int
    out: Path
    watch: Callable[[dict[str, Any], float], None]
    progress: checkpoint.Progress = field(
        init=False,
        default_factory=lambda: checkpoint.Progress(step=0, seconds=0.0, best=None, stale=0),
    )

    def run(self, received: list[int]) -> None:
        """Learn until the budget is spent or nothing improves; continue from a checkpoint.

        Raises:
            Interrupted: a signal came; the stage was saved.
            SubquadError: the loss is not finite.
        """
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(name in self.learning)
        optimizer = self._optimizer()
        place = self.out / self.name
        if saved := checkpoint.checkpoints(place):
            self.progress = checkpoint.load_checkpoint(saved[-1], self.model, optimizer)
        began = time.monotonic() - self.progress.seconds
        before = self.measure() if self.progress.step == 0 else {}
        if before:
            self._report(before, 0.0)
        stream = self._stream()
        with closing(stream):
            while (spent := self._spent(began)) < 1 and not self.progress.stale:
                self._step(optimizer, next(stream), spent)
                self.progress = replace(self.progress, seconds=time.monotonic() - began)
                after = self._spent(began)
                due = math.floor(spent * EVALUATIONS) < math.floor(min(after, 1) * EVALUATIONS)
                if due:
                    self._evaluate(after)
                if due or received:
                    checkpoint.save_checkpoint(place, self.model, optimizer, self.progress, keep=1)
                if received and after < 1:
                    name = signal.Signals(received[0]).name
                    raise Interrupted(
                        received[0],
                        f"{name}: saved in {self.out.parent}; the same command continues",
                    )
        self.model.requires_grad_(False)

    def _spent(self, began: float) -> float:
        return (time.monotonic() - began) / 60 / self.minutes

    def _optimizer(self) -> torch.optim.Optimizer:
        named = dict(self.model.named_parameters())
        groups = [
            {"params": [named[n] for n, new in self.learning.items() if new == which], "peak": rate}
            for which, rate in ((False, self.rates.copied), (True, self.rates.new))
        ]
        groups = [group for group in groups if group["params"]]
        return torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.98), weight_decay=0.0)

    def _stream(self) -> Generator[list[Batch]]:
        return endless(
            self.rows, self.batch, accumulate=1, seed=self.seed, workers=0, done=self.progress.step
        )

    def _step(self, optimizer: torch.optim.Optimizer, batches: list[Batch], spent: float) -> None:
        on = next(self.model.parameters()).device
        errors = torch.stack([self.loss(batch.to(on)) for batch in batches]).mean(0)
        loss = errors.sum()
        if not math.isfinite(float(loss.detach())):
            raise SubquadError(
                f"the {self.name} loss is not finite at step {self.progress.step + 1}; the last "
                f"checkpoint in {self.out} is kept"
            )
        loss.backward()
        learning = [p for group in optimizer.param_groups for p in group["params"]]
        nn.utils.clip_grad_norm_(learning, CLIP)
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * learning_rate(_SHAPE, min(spent, 1.0))
        optimizer.step()
        optimizer.zero_grad()
        self.progress = replace(self.progress, step=self.progress.step + 1)

    def _evaluate(self, spent: float) -> None:
        found = self.measure()
        error = sum(found["errors"]) / len(found["errors"])
        best = self.progress.best
        stale = best is not None and error > best * (1 - LEAST_GAIN)
        best = error if best is None else min(best, error)
        # The rate still has to come down: only from the middle on may a stage end early.
        self.progress = replace(self.progress, best=best, stale=int(stale and spent > 0.5))
        self._report(found, spent)

    def _report(self, found: dict[str, Any], spent: float) -> None:
        line = {"kind": self.name, "step": self.progress.step, "seconds": self.progress.seconds}
        checkpoint.append_metrics(self.out.parent, line | found)
        self.watch(line | found, spent)
