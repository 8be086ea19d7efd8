"""One training run of a comparison: train, resume or reuse it, and collect its results."""

import hashlib
import json
import statistics
import time
from collections.abc import Callable
from copy import copy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from subquad import checkpoint
from subquad.data.batches import Examples
from subquad.data.walking import walk
from subquad.lab.compare.teaching import taught
from subquad.lab.progress import Progress, Watch
from subquad.models.precision import device, resolve
from subquad.optimiser.size import check_size
from subquad.run import load, score
from subquad.tasks import Config, Task
from subquad.training import train

#: Warm-up steps that do not count towards the seconds per step.
WARM = 5


@dataclass(frozen=True, kw_only=True)
class Result:
    """The results of one run."""

    mixer: str
    seed: int
    held_out: dict[str, Any]
    """Metrics of the final weights, so that the held-out set has not chosen the checkpoint."""
    test: dict[str, Any] | None
    """Metrics of the best checkpoint on the test file, if there is one."""
    curve: list[dict[str, Any]]
    """The validation lines of ``metrics.jsonl``."""
    parameters: int
    steps: int
    seconds: float
    """Wall-clock time of training, evaluations included."""
    seconds_per_step: float
    """Median over steps, evaluations excluded."""
    rows_per_second: float
    tokens_per_second: float
    taught: float = 0.0
    """Seconds of teaching before the training (``teaching``)."""

    @property
    def path(self) -> str:
        """Of the run, relative to the comparison's directory."""
        return f"runs/{run_name(self.mixer, self.seed)}"


def plain_result(result: Result) -> dict[str, Any]:
    """As JSON-serialisable data, with the path of the run."""
    return asdict(result) | {"path": result.path}


def run_name(mixer: str, seed: int) -> str:
    return f"{mixer}-seed{seed}"


def refuse_too_large(task: Task, one: Config) -> None:
    """Raise ``UsageError``, before any training, if the model of one run does not fit in memory."""
    task = copy(task)
    mixers, options = one.model.mixers, one.model.mixer_options
    model = replace(task.config.model, mixers=mixers, mixer_options=options)
    task.config = replace(task.config, model=model)
    check_size(task, device())


def obtain(
    config: Config,
    out: Path,
    test: str | None,
    rows: tuple[Examples, Examples],
    watch: Watch,
    teach: float = 0.0,
) -> Result:
    """The result of training ``config`` in ``out/runs``.

    A finished run with the same configuration and the same data is reused, an unfinished one is
    resumed, and otherwise a new one is trained.

    Args:
        config: the run's settings.
        out: the comparison's directory.
        test: a test file to evaluate on, or None.
        rows: the training and held-out examples.
        watch: called with the progress.
        teach: minutes of teaching, where the run starts from a body with other mixers.

    Raises:
        UsageError: the directory contains a run with other settings; the message names them.
        SubquadError, Interrupted: as for ``train``.
    """
    mixer, seed = ",".join(config.model.mixers), config.training.seed
    run = out / "runs" / run_name(mixer, seed)
    note = run.with_name(f"{run.name}.json")
    wanted: dict[str, Any] = {
        "config": _plain(_resolved(config)),
        "data": content(config.data.path),
    }
    found = _read(note)
    if found is not None and found["made"] == wanted:
        result = _result(found)
        if test is None or found["test_data"] == content(test):
            return result
    if teach and config.training.start is not None:
        wanted["teach"] = teach
    steps: list[float] = []
    begun = taught(config, run.with_name(f"{run.name}-taught"), teach, watch)
    if found is None or found["made"] != wanted:
        train(begun.config, run, resume=True, watch=_timed(steps, run.name, watch))
    pace = steps or ([found["result"]["seconds_per_step"]] if found else [])
    result = replace(_examine(config, run, test, rows, pace), taught=begun.seconds)
    text = {"made": wanted, "test_data": test and content(test), "result": plain_result(result)}
    checkpoint.write_text(note, json.dumps(text, indent=1) + "\n")
    return result


def _timed(steps: list[float], name: str, watch: Watch) -> Callable[[dict[str, Any], float], None]:
    """A callback that records the time of every step not preceded by an evaluation."""
    last: list[float] = []

    def note(line: dict[str, Any], spent: float) -> None:
        now = time.perf_counter()
        if line["kind"] == "train":
            if last:
                steps.append(now - last[0])
            last[:] = [now]
        else:
            last.clear()
        watch(Progress(spent, f"training {name}"))

    return note


def _examine(
    config: Config,
    run: Path,
    test: str | None,
    rows: tuple[Examples, Examples],
    steps: list[float],
) -> Result:
    opened = load(run)
    tested = None if test is None else opened.evaluate(test)
    checkpoint.load_weights(opened.model, checkpoint.checkpoints(run)[-1] / checkpoint.MODEL)
    training, held_out = rows
    held = score(opened.task, opened.model, held_out, config) if len(held_out) else {}
    curve = [line for line in checkpoint.read_metrics(run) if line["kind"] == "validation"]
    seconds = curve[-1]["seconds"]
    pace = statistics.median(steps[WARM:] or steps or [seconds / curve[-1]["step"]])
    per_step = config.training.batch * config.training.accumulate
    return Result(
        mixer=",".join(config.model.mixers),
        seed=config.training.seed,
        held_out=held,
        test=tested,
        curve=curve,
        parameters=sum(p.numel() for p in opened.model.parameters()),
        steps=curve[-1]["step"],
        seconds=seconds,
        seconds_per_step=pace,
        rows_per_second=per_step / pace,
        tokens_per_second=per_step * float(training.lengths.mean()) / pace,
    )


def content(path: str) -> str | None:
    """SHA-256 of a file's bytes, or of the names, sizes and modification times in a folder; None
    for built-in data, which is not a file."""
    file = Path(path)
    if file.is_dir():
        found = [p for p in walk(file).files if p.is_file()]
        about = [(str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in found]
        return hashlib.sha256(repr(about).encode()).hexdigest()
    if not file.is_file():
        return None
    with file.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def _resolved(config: Config) -> Config:
    precision = resolve(config.training.precision, device())
    return replace(config, training=replace(config.training, precision=precision))


def _plain(config: Config) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(config.to_json())
    return found


def _result(found: dict[str, Any]) -> Result:
    return Result(**{name: value for name, value in found["result"].items() if name != "path"})


def _read(note: Path) -> dict[str, Any] | None:
    """The result that an earlier comparison stored; None if there is no usable one."""
    try:
        found: dict[str, Any] = json.loads(note.read_text(encoding="utf-8"))
        _result(found)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if {"made", "test_data"} <= found.keys() else None
