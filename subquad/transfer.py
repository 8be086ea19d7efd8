"""Start a run from what another has learned: its body is kept, its head is new.

The body is everything but the heads: embeddings, blocks and, where both have one, the pooler. Its
shape and its tokenizer are taken over as they are. RUN may also be a folder of ``transformers``
that holds an FNet and its tokenizer (``tokenizer.json`` or ``spiece.model``).
"""

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from subquad.checkpoint import CONFIG, MODEL, read_tensors
from subquad.errors import SubquadError, UsageError
from subquad.models import ModelConfig
from subquad.tasks import Config, task_class
from subquad.tasks.texts import TOKENIZER

#: What makes a body: the rest of a model's configuration is the new task's.
SHAPE = (
    *("mixers", "mixer_options", "hybrid", "layers", "d", "heads", "ff", "norm", "norm_eps"),
    *("positions", "types", "projection", "initialisation"),
)
#: A tokenizer of SentencePiece's, as transformers calls it.
PIECES = "spiece.model"
_READS = "it starts from a run of subquad, or from a folder of transformers that holds an FNet"
#: Parameters that belong to a task.
HEADS = ("head.", "masked.", "order.")


@dataclass(frozen=True)
class Start:
    """What a run can begin with."""

    path: Path
    task: str
    model: ModelConfig
    length: int
    tokenizer: str | None
    tensors: dict[str, Tensor]


def opened(path: str) -> Start:
    """Read a run directory, or a folder of ``transformers``.

    Raises:
        SubquadError: it is neither, or a piece is missing.
    """
    run = Path(path)
    if not run.is_dir():
        raise SubquadError(
            f"--from {path}: no such folder; {_READS}; a model of a hub has to be downloaded into "
            "one first"
        )
    try:
        about = json.loads((run / CONFIG).read_text(encoding="utf-8"))
    except OSError:
        raise SubquadError(f"--from {path}: it has no {CONFIG}; {_READS}") from None
    except ValueError:
        about = None  # Config.load says what is wrong
    if isinstance(about, dict) and (kind := about.get("model_type")) is not None:
        if kind != "fnet":
            raise SubquadError(f"--from {path}: a model of type {kind!r} is there; {_READS}")
        return _foreign(run)
    config = Config.load(run / CONFIG)
    there = str(run / TOKENIZER) if (run / TOKENIZER).exists() else None
    tensors = read_tensors(run / MODEL)
    return Start(run, config.task, config.model, config.data.length, there, tensors)


def _foreign(folder: Path) -> Start:
    from subquad.models import huggingface

    there = next((folder / n for n in (TOKENIZER, PIECES) if (folder / n).exists()), None)
    if there is None:
        raise SubquadError(
            f"{folder} has no {TOKENIZER} or {PIECES}: a body cannot read without its tokenizer"
        )
    found = huggingface.load(folder)
    tensors = dict(found.model.state_dict())
    return Start(folder, "masked", found.config, found.length, str(there), tensors)


def inherit(config: Config, given: Collection[str]) -> Config:
    """``config`` with the shape, length and tokenizer of the run that it starts from; ``given``
    are the fields that a person has set.

    Raises:
        UsageError: one of them is another than that run's.
    """
    assert config.training.start is not None
    start = _same_direction(config)
    shape = {name: getattr(start.model, name) for name in SHAPE}
    if "pooling" not in given:
        shape["pooling"] = start.model.pooling
    data: dict[str, Any] = {"length": start.length}
    if start.tokenizer is not None:
        data["tokenizer"] = start.tokenizer
    for part, taken in ((config.model, shape), (config.data, data)):
        for name, value in taken.items():
            if name in given and getattr(part, name) != value:
                raise UsageError(_mismatch(start, name, getattr(part, name), value))
    return replace(config, model=replace(config.model, **shape), data=replace(config.data, **data))


def _mismatch(start: Start, name: str, found: object, right: object) -> str:
    return f"{start.path} has {name}={right!r}, which cannot become {found!r}: leave it away"


def _same_direction(config: Config) -> Start:
    assert config.training.start is not None
    start = opened(config.training.start)
    if task_class(start.task).causal != task_class(config.task).causal:
        way = "one way" if task_class(start.task).causal else "both ways"
        raise UsageError(
            f"{start.path} was trained for {start.task}, which reads {way}, and {config.task} does "
            "not: a body cannot change its direction"
        )
    return start


def check(config: Config) -> None:
    """Refuse a configuration that does not fit the run that it starts from.

    Raises:
        UsageError: naming what differs.
    """
    start = _same_direction(config)
    for name in SHAPE:
        found, right = getattr(config.model, name), getattr(start.model, name)
        if found != right:
            raise UsageError(_mismatch(start, name, found, right))
    if config.data.length != start.length:
        raise UsageError(_mismatch(start, "length", config.data.length, start.length))


def take_over(model: nn.Module, config: Config) -> str:
    """Copy the body into ``model``; say what was kept and what is new.

    Raises:
        SubquadError: a part of the body is missing or of another shape, as from another tokenizer.
    """
    assert config.training.start is not None
    start = opened(config.training.start)
    # The same task on other data goes on with its head, unless that names classes or numbers.
    own = config.task in ("classify", "regress")
    heads = () if start.task == config.task and not own else HEADS
    wanted = model.state_dict()
    kept = [name for name in wanted if not name.startswith(heads) and name in start.tensors]
    absent = [n for n in wanted if n not in kept and not n.startswith((*heads, "pooler."))]
    wrong = [name for name in kept if wanted[name].shape != start.tensors[name].shape]
    if absent or wrong:
        why = [f"it has no {', '.join(absent)}"] if absent else []
        why += [
            f"{n} is {list(start.tensors[n].shape)} there and {list(wanted[n].shape)} here"
            for n in wrong
        ]
        raise SubquadError(f"{start.path} cannot start this run: {'; '.join(why)}")
    with torch.no_grad():
        for name in kept:
            wanted[name].copy_(start.tensors[name])
    new = sorted({name.split(".")[0] for name in wanted} - {name.split(".")[0] for name in kept})
    count = sum(wanted[name].numel() for name in kept)
    return (
        f"from {start.path}: {count:,} numbers of its body kept; new: {', '.join(new) or 'nothing'}"
    )
