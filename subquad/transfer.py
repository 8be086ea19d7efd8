"""Start a run from what another has learned: its body is kept, its head is new.

The body is everything but the heads: embeddings, blocks and, where both have one, the pooler. Its
shape and its tokenizer are taken over as they are, but for two things that may be changed by name:
the mixers (those of other names start anew, apart from tensors of the same name and shape) and the
maximum length. RUN may also be a folder of ``transformers`` with its tokenizer.
"""

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from torch import Tensor

from subquad.checkpoint import CONFIG, MODEL
from subquad.errors import SubquadError, UsageError
from subquad.mixers import ATTENTION
from subquad.models import ModelConfig, foreign
from subquad.models.foreign.hub import folder_of
from subquad.models.foreign.sentences import body_of
from subquad.storage import read_tensors
from subquad.tasks import Config, load_config, task_class
from subquad.tasks.bodies import task_of, tensors_of
from subquad.tasks.embed import Embed
from subquad.tasks.texts import TOKENIZER

#: The shape of a body: all of a model's configuration but what only training sees.
SHAPE = tuple(field.name for field in fields(ModelConfig) if field.name != "dropout")
#: A tokenizer of SentencePiece's, as transformers calls it.
PIECES = "spiece.model"
#: Parts of a shape that may be changed by name.
MIXING = ("mixers", "mixer_options", "hybrid")
#: The usual settings where a run starts from a pretrained body.
TUNING: dict[str, Any] = {
    "optimizer": "adamw",
    "lr": 5e-5,
    "new_lr": 10.0,
    "warmup": 0.06,
    "batch": 32,
    "epochs": 3.0,
    "least_steps": 100,
    "token_dropout": 0.0,
    "label_smoothing": 0.0,
}
_READS = "it starts from a run of subquad, or from a folder of transformers"


@dataclass(frozen=True, kw_only=True)
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
    foreign: bool = False

    @property
    def pretrained(self) -> bool:
        """Whether it is a body that was pretrained elsewhere, or was converted from one."""
        return self.foreign or self.task == Embed.name


def opened(path: str) -> Start:
    """Read a run directory, or a folder of ``transformers``.

    Raises:
        SubquadError: it is neither, or a piece is missing.
    """
    run = folder_of(path)
    if not run.is_dir():
        raise SubquadError(f"--from {path}: no such folder; {_READS}")
    try:
        about = json.loads((body_of(run) / CONFIG).read_text(encoding="utf-8"))
    except OSError:
        raise SubquadError(f"--from {path}: it has no {CONFIG}; {_READS}") from None
    except ValueError:
        about = None  # load_config says what is wrong
    if isinstance(about, dict) and (kind := about.get("model_type")) is not None:
        return _fnet(run) if kind == "fnet" else _foreign(run)
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
    body = foreign.load(folder)
    task = task_of(body)
    assert task.tokenizer is not None
    vocabulary = len(task.tokenizer)
    return Start(
        path=folder,
        task=task.name,
        model=body.config,
        length=body.length,
        tokenizer=str(body.tokenizer),
        options=_body_options(task.config),
        heads=task.heads or ("head",),
        tensors=tensors_of(body, vocabulary=vocabulary, length=body.shape.length),
        foreign=True,
    )


def _fnet(folder: Path) -> Start:
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
    """``config`` with the shape, length, tokenizer and usual settings of what it starts from;
    ``given`` are the fields that a person has set.

    Raises:
        UsageError: one of them cannot be another than it is there.
    """
    assert config.training.start is not None
    start = same_direction(config)
    taken = {name: getattr(start.model, name) for name in SHAPE}
    if start.tokenizer is not None:
        taken["tokenizer"] = start.tokenizer
    if "mixers" in given or "hybrid" in given:
        taken = {n: v for n, v in taken.items() if n not in MIXING}
        config = config.having(mixer_options=_mixer_options(config, start.model))
    now = {name: getattr(config, part) for name in taken if (part := config.part_of(name))}
    for name, value in taken.items():
        if name in given and (found := getattr(now[name], name)) != value:
            raise UsageError(_mismatch(start, name, found, value))
    options = start.options
    if "pooling" not in options and "pooler.dense.weight" in start.tensors:
        options = {"pooling": "pooler"} | options  # a pretrained body has BERT's pooler
    own = vars(config.options)
    taken |= {n: value for n, value in options.items() if n in own and n not in given}
    usual = {"length": start.length} | (_tuning(config, start, given) if start.pretrained else {})
    taken |= {n: value for n, value in usual.items() if n not in given}
    return config.having(**taken)


def _mixer_options(config: Config, before: ModelConfig) -> dict[str, dict[str, Any]]:
    """The options of mixers that a person has named: as they were there, or those of the attention
    in whose place they come; a person's own go first."""
    causal = task_class(config.task).causal
    named = [*config.model.mixers, *([] if config.model.hybrid is None else [ATTENTION])]
    made = {}
    for name in dict.fromkeys(named):
        there = before.mixer_options.get(name) or before.attention_options(name, causal=causal)
        made[name] = there | config.model.mixer_options.get(name, {})
    return {name: chosen for name, chosen in made.items() if chosen}


def _tuning(config: Config, start: Start, given: Collection[str]) -> dict[str, Any]:
    """The usual settings for tuning pretrained weights, as far as the task has them."""
    budget = {"steps", "epochs", "minutes"} & set(given)
    usual = {"dropout": start.model.dropout} | TUNING
    left_out = {"epochs", "least_steps"} if budget else set()
    if task_class(config.task).causal:
        left_out = {"epochs", "least_steps", "batch"}  # of windows, not of short rows
    return {
        n: value
        for n, value in usual.items()
        if config.part_of(n) is not None and n not in left_out
    }


def _mismatch(start: Start, name: str, found: object, right: object) -> str:
    flag = name.replace("_", "-")
    return (
        f"{start.path} has {name}={right!r}, which cannot become {found!r}: "
        f"omit --{flag}, and it is taken over"
    )


def same_direction(config: Config) -> Start:
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
    start = same_direction(config)
    for name in SHAPE:
        found, right = getattr(config.model, name), getattr(start.model, name)
        if found != right and name not in MIXING:
            raise UsageError(_mismatch(start, name, found, right))
