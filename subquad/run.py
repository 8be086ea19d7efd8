"""A trained run: its directory, its task and its model, ready to be asked."""

import copy
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from subquad.checkpoint import CONFIG, MODEL, load_weights, read_metrics
from subquad.data.batches import Batch, Examples, collate, sorted_batches
from subquad.data.rows import BadRow
from subquad.data.tokenizers import PAIR
from subquad.errors import SubquadError, UsageError
from subquad.models import foreign
from subquad.models.precision import autocast, device, resolve
from subquad.models.size import refuse_too_large
from subquad.storage import write_text
from subquad.tasks import Config, Task, check, load_config, task_class
from subquad.tasks.base import Input, Inputs
from subquad.tasks.bodies import task_of, tensors_of
from subquad.tasks.registry import meaningless

Item = TypeVar("Item")

#: Rows per batch where no gradient is needed.
EVALUATION_BATCH = 64
#: Tokens at most in a batch of an evaluation: more takes longer, as memory comes fresh each time.
EVALUATION_TOKENS = 1 << 14


@dataclass(frozen=True)
class Run:
    """What ``load`` returns. The model is in evaluation mode."""

    path: Path
    config: Config
    task: Task
    model: nn.Module
    kept: object = field(default=None, repr=False, compare=False)
    """What lives as long as the run: a temporary directory, if ``path`` is one."""

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def best(self) -> dict[str, Any]:
        """The line of metrics.jsonl that belongs to the weights (``{}`` before the first)."""
        lines = [m for m in read_metrics(self.path) if m["kind"] == "validation"]
        best: dict[str, Any] = {}
        for line in lines:
            value = line.get(self.task.score.name)
            old = best.get(self.task.score.name)
            if value is None or self.task.score.better(value, old):
                best = line
        return {k: v for k, v in best.items() if k != "kind"}

    def reading(self, **changes: Any) -> "Run":
        """The same run, which reads files otherwise: fields of ``DataConfig``, None = as before.

        Raises:
            UsageError: a field that means nothing to the run's task.
        """
        given = {name: value for name, value in changes.items() if value is not None}
        for name in given:
            if name in self.task.unused:
                raise UsageError(meaningless(self.config.task, name))
        config = replace(self.config, data=replace(self.config.data, **given))
        task = copy.copy(self.task)
        task.config = config
        return replace(self, config=config, task=task)

    def evaluate(self, path: str) -> dict[str, Any]:
        """The task's metrics on another file, with how many rows were skipped and texts cut;
        ``task.notes`` then say more."""
        with tempfile.TemporaryDirectory(prefix="subquad-") as scratch:
            examples = self.task.examples(path, Path(scratch) / "store")
            return score(self.task, self.model, examples, self.config) | dict(self.task.counts)

    def predict(self, inputs: Iterable[Any]) -> list[dict[str, Any]]:
        """One answer per input, in order: ``label`` and ``probabilities``, or what the task says. A
        string is one text; of a run of pairs, an input is two texts.

        Raises:
            UsageError: the run's task generates instead.
            SubquadError: an input that cannot be used, as in a file; its place is named, from 1.
        """
        return list(self.stream(inputs))

    def stream(
        self, inputs: Iterable[Any], batch: int = EVALUATION_BATCH
    ) -> Iterator[dict[str, Any]]:
        """``predict``, in constant memory however many inputs there are."""
        for group in _groups(self.task.checked(inputs), batch):
            precision = resolve(self.config.training.precision, self.device)
            with torch.inference_mode(), autocast(precision, self.device):
                answers = self.task.predict(self.model, group)
            yield from answers

    def embed(self, inputs: Iterable[Any], *, normalise: bool = True) -> npt.NDArray[np.float32]:
        """One vector per input, float32 ``[n, d]``, in order: what the model's head reads, of
        length 1 unless ``normalise`` is False. Inputs are as for ``predict``.

        Raises:
            UsageError: the run's task does not summarise an input in one vector.
            SubquadError: an input that cannot be used; its place is named, from 1.
        """
        given = list(self.task.checked(inputs))
        order = sorted(range(len(given)), key=lambda i: len(given[i]))  # least padding
        found = np.zeros((len(given), self.config.model.d), dtype=np.float32)
        precision = resolve(self.config.training.precision, self.device)
        for rows in _groups(order, EVALUATION_BATCH):
            with torch.inference_mode(), autocast(precision, self.device):
                vectors = self.task.vectors(self.model, [given[i] for i in rows]).float()
            if normalise:
                vectors = nn.functional.normalize(vectors, dim=-1)
            found[list(rows)] = vectors.cpu().numpy()
        return found

    def texts(self, path: str) -> tuple[list[str], list[int], str]:
        """The texts of a file for ``embed``, their rows in the file, and how it is read.

        Raises:
            UsageError: the run's task does not summarise an input in one vector.
            SubquadError: a row cannot be used, and rows are not to be skipped.
        """
        inputs = self.task.embedded(path)
        good: list[Input] = []
        for outcome in inputs.outcomes:
            if not isinstance(outcome, BadRow):
                good.append(outcome)
            elif self.config.data.on_bad_row == "stop":
                raise SubquadError(
                    f"{path}, row {outcome.row}: {outcome.reason}; --on-bad-row skip leaves such "
                    "rows out"
                )
        if not good:
            raise SubquadError(f"{path} has no rows that can be used")
        return [one.value for one in good], [one.row for one in good], inputs.detected

    def answers(self, inputs: Inputs, batch: int = EVALUATION_BATCH) -> Iterator[dict[str, Any]]:
        """One answer per row of ``inputs``, in order, with its ``row``; a row that cannot be used
        gets an ``error`` instead, and the others go on. A row of a live pipe is answered before
        the next one is waited for."""
        for group in _groups(inputs.outcomes, batch, inputs.waits):
            good = [outcome.value for outcome in group if not isinstance(outcome, BadRow)]
            answers = self.stream(good, batch)
            for outcome in group:
                if isinstance(outcome, BadRow):
                    yield {"row": outcome.row, "error": outcome.reason}
                else:
                    yield {"row": outcome.row} | next(answers)

    def mistakes(self, path: str) -> Iterator[dict[str, Any]]:
        """The rows of a labelled file that are classified wrongly: ``row``, ``text``, ``truth``,
        ``guess`` and the ``probability`` that the model gave to its guess.

        Raises:
            UsageError: the run's task has no answers that are right or wrong.
        """
        for group in _groups(self.task.truths(path), EVALUATION_BATCH):
            answers = self.predict([record.text for record in group])
            for record, answer in zip(group, answers, strict=True):
                wrong = self.task.mistake(record, answer)
                if wrong is not None:
                    text = record.text.replace(PAIR, "\t")
                    yield {"row": record.row, "text": text} | wrong


def _groups(
    inputs: Iterable[Item], size: int, waits: Callable[[], bool] | None = None
) -> Iterator[Sequence[Item]]:
    """``size`` items at a time, or those that are there when ``waits`` says so of the next."""
    group: list[Item] = []
    for item in inputs:
        group.append(item)
        if len(group) == size or (waits is not None and waits()):
            yield group
            group = []
    if group:
        yield group


def score(task: Task, model: nn.Module, examples: Examples, config: Config) -> dict[str, Any]:
    """Evaluate ``model``, which comes back in the mode it was in."""
    if not len(examples):
        raise SubquadError("there is nothing to evaluate: no examples")
    training = model.training
    model.eval()
    try:
        with _asked(model, examples, config) as batches:
            return task.evaluate(model, examples, batches)
    finally:
        model.train(training)


@contextmanager
def _asked(model: nn.Module, examples: Examples, config: Config) -> Iterator[Iterator[Batch]]:
    """All batches of ``examples``, to be met without gradients and in the run's precision."""
    on = next(model.parameters()).device
    with torch.inference_mode(), autocast(resolve(config.training.precision, on), on):
        yield _batches(examples, on)


def _batches(examples: Examples, on: torch.device) -> Iterator[Batch]:
    for rows in sorted_batches(examples.lengths, EVALUATION_BATCH, EVALUATION_TOKENS):
        yield collate(examples, rows).to(on)


def load(path: str | Path) -> Run:
    """Open a run directory, or a folder of ``transformers``, which becomes a run of ``embed`` or
    ``language``.

    Raises:
        SubquadError: it is missing, incomplete or damaged; the piece is named.
    """
    path = Path(path)
    if not path.is_dir():
        raise SubquadError(f"{path}: no such run directory")
    if foreign.is_foreign(path):
        return _foreign(path)
    config = load_config(path / CONFIG)
    try:
        check(config)
        task = task_class(config.task).load(path, config)
        refuse_too_large(task.model, device())
        model = task.model()
    except (UsageError, TypeError, ValueError, RuntimeError) as error:
        raise SubquadError(f"{path / CONFIG} cannot be used: {error}") from None
    load_weights(model, path / MODEL)
    return Run(path, config, task, model.to(device()).eval())


def _foreign(path: Path) -> Run:
    """A body as it is: a run of the task ``embed`` or ``language``."""
    body = foreign.load(path)
    task = task_of(body)
    refuse_too_large(task.model, device())
    model = task.model()
    assert task.tokenizer is not None
    tensors = tensors_of(body, vocabulary=len(task.tokenizer), length=task.config.data.length)
    with torch.no_grad():
        for name, tensor in model.state_dict(keep_vars=True).items():
            tensor.copy_(tensors[name])
    return Run(path, task.config, task, model.to(device()).eval())


def finish(path: Path, held_out: Examples) -> Run:
    """Open a run whose training has ended, let its task learn what is kept beside the best weights
    (``Task.finish``), and write the model card."""
    run = load(path)
    with _asked(run.model, held_out, run.config) as batches:
        run.task.finish(path, run.model, batches)
    write_text(path / "README.md", card(run))
    return run


def card(run: Run) -> str:
    """The model card of a run, as Markdown: what it is, how good it was, how to use it."""
    model, training = run.config.model, run.config.training
    best = "\n".join(
        f"| {name} | {value:.4f} |" if isinstance(value, float) else f"| {name} | {value} |"
        for name, value in run.best().items()
    )
    parameters = sum(p.numel() for p in run.model.parameters())
    remarks = "".join(f"{text[0].upper()}{text[1:]}.\n\n" for text in run.task.remarks())
    name = run.path.name
    use = run.task.usage.replace("RUN", name)
    budget = next(
        f"{getattr(training, unit)} {unit}"
        for unit in ("steps", "epochs", "minutes")
        if getattr(training, unit) is not None
    )
    return f"""# {run.config.task}: {", ".join(model.layer_mixers())}

Made by subquad from `{run.config.data.path}`: {parameters:,} parameters, width {model.d},
{budget}, seed {training.seed}, {training.precision}. Every setting is in `config.json`.

On the rows held out from training, which also chose these weights:

| metric | value |
|---|---|
{best}

{remarks}    subquad {use}
"""
