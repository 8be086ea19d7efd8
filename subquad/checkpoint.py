"""A run directory, written so that a kill cannot hurt it.

::

    RUN/
      config.json  tokenizer.json  labels.json     what the run is
      model.safetensors                            the best weights so far
      metrics.jsonl                                one line per report
      calibration.json                             classify: the temperature of its probabilities
      README.md                                    the model card
      checkpoints/step-00000120/                   all that resuming needs:
        model.safetensors optimizer.safetensors progress.json

Every file, and a checkpoint as a whole, gets its name when all of it is on disk (``storage``), so
whatever bears its final name is complete.
"""

import contextlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from subquad.errors import SubquadError
from subquad.storage import (
    TEMPORARY,
    read_tensors,
    remove,
    write_atomically,
    write_tensors,
    write_text,
)

CHECKPOINTS = "checkpoints"
MODEL, OPTIMIZER, PROGRESS = "model.safetensors", "optimizer.safetensors", "progress.json"
METRICS, CONFIG = "metrics.jsonl", "config.json"
_STEP = re.compile(r"step-(\d+)$")


def plain_name(name: str) -> str:
    """A parameter's name without the prefixes of torch.compile and DDP."""
    return ".".join(part for part in name.split(".") if part not in ("_orig_mod", "module"))


def save_weights(model: nn.Module, path: Path) -> None:
    """Write the model's tensors, each once (a tied one under its first name)."""
    seen: set[int] = set()
    tensors = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            tensors[plain_name(name)] = tensor.detach().cpu().contiguous()
    write_tensors(path, tensors)


def load_weights(model: nn.Module, path: Path) -> None:
    """Read weights into ``model``.

    Raises:
        SubquadError: names or shapes differ; they are listed.
    """
    found = read_tensors(path)
    wanted: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            wanted[plain_name(name)] = tensor
    missing, extra = sorted(wanted.keys() - found.keys()), sorted(found.keys() - wanted.keys())
    wrong = [n for n in wanted.keys() & found.keys() if wanted[n].shape != found[n].shape]
    if missing or extra or wrong:
        raise SubquadError(
            f"{path} does not fit the model: missing {missing or 'none'}, unexpected "
            f"{extra or 'none'}, of another shape {sorted(wrong) or 'none'}"
        )
    with torch.no_grad():
        for name, tensor in wanted.items():
            tensor.copy_(found[name])


@dataclass(frozen=True)
class Progress:
    """Where a run stands, besides its tensors."""

    step: int
    seconds: float
    best: float | None
    stale: int
    """Evaluations since the best one."""

    def check(self) -> None:
        """Refuse what ``save_checkpoint`` never wrote (``TypeError``)."""
        for name in ("step", "stale"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 0:
                raise TypeError(f"{name} is {value!r}")
        for name in ("seconds", "best"):
            if not isinstance(getattr(self, name), int | float | None):
                raise TypeError(f"{name} is {getattr(self, name)!r}")


def _moments(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's tensors under the parameters' names."""
    names = {id(p): plain_name(n) for n, p in model.named_parameters()}
    return {
        f"{key}.{names[id(p)]}": value.detach().cpu().contiguous()
        for p, state in optimizer.state.items()
        for key, value in state.items()
    }


def save_checkpoint(
    run: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    progress: Progress,
    *,
    keep: int,
) -> None:
    """Write one checkpoint; only then remove older ones beyond ``keep``."""

    def write(directory: Path) -> None:
        directory.mkdir()
        save_weights(model, directory / MODEL)
        tensors = _moments(model, optimizer) | {"random_state": torch.get_rng_state()}
        write_tensors(directory / OPTIMIZER, tensors)
        (directory / PROGRESS).write_text(json.dumps(vars(progress)), encoding="utf-8")

    path = run / CHECKPOINTS / f"step-{progress.step:08d}"
    if path.exists():  # the same step of the same run, saved again
        return
    write_atomically(path, write)
    for old in checkpoints(run)[:-keep]:
        # Renamed first: a kill while deleting must not leave half a checkpoint under its own name.
        remove(old.rename(old.with_name(f"{TEMPORARY}{os.getpid()}-old-{old.name}")))


def checkpoints(run: Path) -> list[Path]:
    """Complete checkpoints, oldest first, in numerical order."""
    found = (run / CHECKPOINTS).glob("step-*") if (run / CHECKPOINTS).is_dir() else iter(())
    numbered = [(int(m[1]), path) for path in found if (m := _STEP.search(path.name))]
    return [path for _, path in sorted(numbered)]


def load_checkpoint(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> Progress:
    """Restore weights, optimiser and random state; return the progress.

    Raises:
        SubquadError: a piece is missing or does not fit; it is named. Nothing is started afresh.
    """
    load_weights(model, path / MODEL)
    tensors = read_tensors(path / OPTIMIZER)
    try:
        progress = Progress(**json.loads((path / PROGRESS).read_text(encoding="utf-8")))
        progress.check()
    except (OSError, ValueError, TypeError) as error:
        raise SubquadError(f"{path / PROGRESS} cannot be read: {error}") from None
    random_state = tensors.pop("random_state", None)
    if random_state is None:
        raise SubquadError(f"{path / OPTIMIZER} lacks random_state")
    _restore_moments(path / OPTIMIZER, model, optimizer, tensors)
    try:
        torch.set_rng_state(random_state)
    except (RuntimeError, TypeError) as error:
        raise SubquadError(f"{path / OPTIMIZER}: random_state is damaged: {error}") from None
    return progress


def _restore_moments(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]
) -> None:
    matrices = {id(p) for g in optimizer.param_groups if g.get("orthogonal") for p in g["params"]}
    adam = ("step", "exp_avg", "exp_avg_sq")
    learning = {n: p for n, p in model.named_parameters() if p.requires_grad}
    keys = {n: ("exp_avg",) if id(p) in matrices else adam for n, p in learning.items()}
    wanted = {f"{k}.{plain_name(n)}" for n, kept in keys.items() for k in kept}
    if wanted != tensors.keys():
        raise SubquadError(
            f"{path} does not fit: missing {sorted(wanted - tensors.keys()) or 'none'}, "
            f"unexpected {sorted(tensors.keys() - wanted) or 'none'}"
        )
    for name, parameter in learning.items():
        plain = plain_name(name)
        state = {k: tensors[f"{k}.{plain}"] for k in keys[name]}
        for k, value in state.items():
            if k != "step" and value.shape != parameter.shape:
                raise SubquadError(
                    f"{path} does not fit: {k}.{plain} is {list(value.shape)}, the weight "
                    f"{list(parameter.shape)}"
                )
        optimizer.state[parameter] = {
            k: v.to(parameter.device) if k != "step" else v for k, v in state.items()
        }


def append_metrics(run: Path, line: dict[str, Any]) -> None:
    """Add one line; a torn one, from a kill or a full disk, is dropped when it is read.

    Raises:
        SubquadError: the disk is full or not writable.
    """
    try:
        with (run / METRICS).open("a", encoding="utf-8") as f:
            f.write(json.dumps(line, ensure_ascii=False) + "\n")
    except OSError as error:
        raise SubquadError(f"cannot write {run / METRICS}: {error.strerror}") from None


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl; a torn one is left out.

    Raises:
        SubquadError: the file cannot be read at all.
    """
    try:
        lines = (run / METRICS).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise SubquadError(f"{run / METRICS} cannot be read: {error}") from None
    found = []
    for line in lines:
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return [line for line in found if isinstance(line, dict) and {"kind", "step"} <= line.keys()]


def cut_metrics(run: Path, step: int) -> None:
    """Drop lines after ``step``: the resumed run writes them again."""
    kept = [line for line in read_metrics(run) if line["step"] <= step]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in kept)
    write_text(run / METRICS, text)
