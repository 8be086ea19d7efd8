"""Start a run from what another has learned: its body is kept, its head is new.

The body is everything but the heads: embeddings, blocks and, where both have one, the pooler. Its
shape and its tokenizer are taken over as they are. RUN may also be a folder of ``transformers``
that holds an FNet and its tokenizer (``tokenizer.json`` or ``spiece.model``).
"""

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from subquad.checkpoint import CONFIG, MODEL
from subquad.errors import SubquadError, UsageError
from subquad.models import ModelConfig
from subquad.storage import read_tensors
from subquad.tasks import Config, load_config, task_class
from subquad.tasks.texts import TOKENIZER

#: The shape of a body: all of a model's configuration but what only training sees.
SHAPE = tuple(field.name for field in fields(ModelConfig) if field.name != "dropout")
#: A tokenizer of SentencePiece's, as transformers calls it.
PIECES = "spiece.model"
_READS = "it starts from a run of subquad, or from a folder of transformers that holds an FNet"


@dataclass(frozen=True)
class Start:
    """What a run can begin with."""

    path: Path
    task: str
    model: ModelConfig
    length: int
    tokenizer: str | None
    options: dict[str, Any]
    """What shapes its body beside the model's configuration."""
    heads: tuple[str, ...]
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
        about = None  # load_config says what is wrong
    if isinstance(about, dict) and (kind := about.get("model_type")) is not None:
        if kind != "fnet":
            raise SubquadError(f"--from {path}: a model of type {kind!r} is there; {_READS}")
        return _foreign(run)
    config = load_config(run / CONFIG)
    there = str(run / TOKENIZER) if (run / TOKENIZER).exists() else None
    return Start(
        path=run,
        task=config.task,
        model=config.model,
        length=config.data.length,
        tokenizer=there,
        options=_body_options(config),
        heads=task_class(config.task).heads,
        tensors=read_tensors(run / MODEL),
    )


def _body_options(config: Config) -> dict[str, Any]:
    """The options of a task that shape the body."""
    found, known = asdict(config.options), fields(config.options)
    return {field.name: found[field.name] for field in known if field.metadata.get("body")}


def _foreign(folder: Path) -> Start:
    from subquad.models import huggingface

    there = next((folder / n for n in (TOKENIZER, PIECES) if (folder / n).exists()), None)
    if there is None:
        raise SubquadError(
            f"{folder} has no {TOKENIZER} or {PIECES}: a body cannot read without its tokenizer"
        )
    found = huggingface.load(folder)
    return Start(
        path=folder,
        task="masked",
        model=found.config,
        length=found.length,
        tokenizer=str(there),
        options={},
        heads=("head", *task_class("masked").heads),
        tensors=dict(found.model.state_dict()),
    )


def inherit(config: Config, given: Collection[str]) -> Config:
    """``config`` with the shape, length and tokenizer of the run that it starts from; ``given``
    are the fields that a person has set.

    Raises:
        UsageError: one of them is another than that run's.
    """
    assert config.training.start is not None
    start = _same_direction(config)
    taken = {name: getattr(start.model, name) for name in SHAPE} | {"length": start.length}
    if start.tokenizer is not None:
        taken["tokenizer"] = start.tokenizer
    now = {name: getattr(config, part) for name in taken if (part := config.part_of(name))}
    for name, value in taken.items():
        if name in given and (found := getattr(now[name], name)) != value:
            raise UsageError(_mismatch(start, name, found, value))
    options = start.options
    if "pooler.dense.weight" in start.tensors:  # a pretrained body has BERT's pooler
        options = {"pooling": "pooler"} | options
    own = vars(config.options)
    taken |= {n: value for n, value in options.items() if n in own and n not in given}
    return config.having(**taken)


def _mismatch(start: Start, name: str, found: object, right: object) -> str:
    flag = name.replace("_", "-")
    return (
        f"{start.path} has {name}={right!r}, which cannot become {found!r}: "
        f"omit --{flag}, and it is taken over"
    )


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
        SubquadError: a part of the body is missing, of another shape, as from another tokenizer, or
            would be left behind.
    """
    assert config.training.start is not None
    start = opened(config.training.start)
    task = task_class(config.task)
    goes_on = start.task == config.task and task.keeps_heads
    heads = set() if goes_on else {*start.heads, *task.heads}
    wanted = _tensors(model)
    kept = [name for name in wanted if _module(name) not in heads and name in start.tensors]
    # The pooler belongs to the body only where both have one.
    free = heads | {"pooler"}
    absent = [name for name in wanted if name not in kept and _module(name) not in free]
    unread = [name for name in start.tensors if name not in wanted and _module(name) not in free]
    wrong = [name for name in kept if wanted[name].shape != start.tensors[name].shape]
    if absent or wrong or unread:
        why = [f"it has no {', '.join(absent)}"] if absent else []
        why += [f"nothing here reads its {', '.join(unread)}"] if unread else []
        why += [
            f"{n} is {list(start.tensors[n].shape)} there and {list(wanted[n].shape)} here"
            for n in wrong
        ]
        raise SubquadError(f"{start.path} cannot start this run: {'; '.join(why)}")
    with torch.no_grad():
        for name in kept:
            wanted[name].copy_(start.tensors[name])
    new = sorted(set(map(_module, wanted)) - set(map(_module, kept)))
    count = sum(wanted[name].numel() for name in kept)
    return (
        f"from {start.path}: {count:,} numbers of its body kept; new: {', '.join(new) or 'nothing'}"
    )


def _module(name: str) -> str:
    """The part of the model that a tensor belongs to: ``head.weight`` → ``head``."""
    return name.partition(".")[0]


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """The model's tensors, each once, as a file of weights has them."""
    found, seen = {}, set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            found[name] = tensor
    return found
