"""The configuration of a run: frozen dataclasses, stored as JSON. Every default is defined once, as
the default of a field; tasks override some of them in their own files."""

import dataclasses
import json
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from subquad.data.source import ReadOptions, Source
from subquad.errors import UsageError
from subquad.models import ModelConfig
from subquad.models.config import check_choices
from subquad.models.precision import Precision

#: Version of ``config.json``. The first one (subquad 0.1) had no version number.
VERSION = 2
#: The parts of a configuration, each a dataclass.
PARTS = ("data", "model", "training", "options")


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The data, and how they are tokenised."""

    path: str = ""
    text: str | None = None
    """Column with the text; if omitted, it is detected from column names and contents."""
    label: str | None = None
    """Column with the label; if omitted, it is detected from column names and contents. For
    multi-label classification, name several 0/1 columns, one per label: a,b,c."""
    pair: str | None = None
    """Column with a second text, to classify pairs of texts (requires --pooling pooler)."""
    format: str | None = None
    """csv, tsv, jsonl, parquet, text (one text per file) or lines (one per line); if omitted, it
    follows from the file name."""
    encoding: str = "utf-8"
    """Character encoding of the file."""
    on_bad_row: Literal["stop", "skip"] = "stop"
    """What to do with rows that cannot be used: stop at the first one, or skip and report them."""
    header: bool = True
    """Whether the first line of a CSV or TSV file contains the column names."""
    quotes: bool | None = None
    """Whether cells of a CSV or TSV file may be quoted with "; if omitted, yes for CSV, and
    detected from the first rows for TSV."""
    tokenizer: str = "words"
    """words, bpe, unigram, chars, bytes, or the path of a tokenizer.json or a SentencePiece .model
    file."""
    vocabulary: int = 30_000
    """Maximum vocabulary size of a tokenizer that is trained here."""
    length: int = 256
    """Maximum sequence length in tokens; longer texts are truncated, and their number reported."""
    validation: float = 0.1
    """Fraction of the data that is held out to select the best weights."""
    columns: dict[str, str] | None = None
    """The columns used in training, by ``text`` and ``label``; None for files without columns and
    runs of version 0.1."""

    def check(self) -> None:
        """Raise ``ValueError`` (one line) if a value is invalid."""
        check_choices(self)
        at_least(self, 1, "length", "vocabulary")
        share(self, "validation")

    def reading(self) -> ReadOptions:
        """How files are read, in training and later."""
        return ReadOptions(
            text=self.text,
            label=self.label,
            pair=self.pair,
            format=self.format,
            encoding=self.encoding,
            on_bad_row=self.on_bad_row,
            header=self.header,
            quotes=self.quotes,
            learned=self.columns,
        )

    def with_columns_of(self, source: Source) -> "DataConfig":
        """This configuration with the columns that were read from ``source``. Later files are read
        by the same columns if they have them; columns that a user names explicitly must exist."""
        if not source.has_columns:
            return self
        found = {"text": source.text} | ({} if source.label is None else {"label": source.label})
        label = self.label if source.label is None else None
        return replace(self, text=None, label=label, columns=found)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How the model is trained. The budget is exactly one of ``steps``, ``epochs``, ``minutes``."""

    start: str | None = None
    """Start from the weights of another run, or of a folder of transformers, except the head."""
    freeze: str = "none"
    """Weights that are not trained when starting from others: none, body (everything but what is
    new), or a number N: the embedding and the N lowest layers."""
    steps: int | None = None
    """Budget in optimiser steps."""
    least_steps: int = 0
    """With --epochs: train for this many steps at least, so that few rows are seen often enough."""
    epochs: float | None = None
    """Budget in passes over the training data."""
    minutes: float | None = None
    """Budget in minutes of wall-clock time, including evaluation."""
    batch: int = 32
    """Batch size in rows."""
    accumulate: int = 1
    """Gradient accumulation: batches per optimiser step. The loss is weighted by tokens or rows, so
    that four batches of 8 rows give the same step as one batch of the same 32 rows."""
    optimizer: Literal["adamw", "radam", "muon"] = "adamw"
    """AdamW, RAdam (used by the authors of the Linear Transformer), or Muon for the weight matrices
    of the blocks with AdamW for all other weights."""
    lr: float = 1e-3
    """Peak learning rate."""
    new_lr: float = 1.0
    """Factor on the learning rate of weights that were not taken over when starting from others:
    the head, and new mixers."""
    layer_decay: float = 1.0
    """Factor on the learning rate per layer, from top to bottom, when starting from others."""
    schedule: Literal["linear", "constant", "drop"] = "linear"
    """Learning rate after the warm-up: linear decay to zero, constant, or a drop to a tenth halfway
    through the budget."""
    warmup: float = 0.05
    """Fraction of the budget used for learning-rate warm-up."""
    weight_decay: float = 0.01
    """Weight decay, applied to weight matrices (not to embeddings, biases and norms)."""
    clip: float = 1.0
    """Maximum gradient norm."""
    seed: int = 0
    """Random seed of the data split, initial weights, data order and dropout."""
    precision: Precision = "auto"
    """Numerical precision: fp32, bf16 (autocast), or auto, which uses bf16 if it is measured to be
    faster on this machine, otherwise fp32."""
    evaluations: int = 10
    """Number of evaluations on the held-out set during training."""
    patience: int | None = None
    """Early stopping after this many evaluations without improvement; if omitted, the whole budget
    is used."""
    save_every: int | None = None
    """Steps between checkpoints; if omitted, a checkpoint is saved at every evaluation."""
    keep: int = 2
    """Number of recent checkpoints to keep."""
    workers: int = 0
    """Number of processes that prepare batches; results do not depend on it."""

    def check(self) -> None:
        """Raise ``ValueError`` (one line) if a value is invalid."""
        given = [n for n in ("steps", "epochs", "minutes") if getattr(self, n) is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of --steps, --epochs and --minutes")
        _more_than_zero(self, given[0], "lr", "clip", "new_lr", "layer_decay")
        if self.freeze not in ("none", "body") and not self.freeze.isdecimal():
            raise ValueError(f"freeze={self.freeze!r} is not none, body or a number of layers")
        if self.least_steps and self.epochs is None:
            raise ValueError("--least-steps means nothing without --epochs")
        for name, usual in (("freeze", "none"), ("new_lr", 1.0), ("layer_decay", 1.0)):
            if self.start is None and getattr(self, name) != usual:
                flag = name.replace("_", "-")
                raise ValueError(f"--{flag} means nothing without --from")
        at_least(self, 1, "batch", "accumulate", "evaluations", "keep", "patience", "save_every")
        at_least(self, 0, "weight_decay", "workers", "seed", "least_steps")
        share(self, "warmup")
        check_choices(self)
        if self.seed >= 2**63:
            raise ValueError(f"seed={self.seed} must be below 2^63")


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """Options of one task. A task with options of its own defines a subclass, with a sentence under
    each field, and sets its class attribute ``Options`` to it; this base class has none.

    A field with the metadata ``{"body": True}`` affects the model below its head, so that a run
    that starts from another run inherits it. ``{"omitted": "…"}`` describes what None means.
    """

    def check(self) -> None:
        """Raise ``ValueError`` (one line) if a value is invalid."""
        check_choices(self)


def at_least(config: Any, least: int, *names: str) -> None:
    """Raise ``ValueError`` if one of these fields is below ``least``; None is accepted."""
    for name in names:
        value = getattr(config, name)
        if value is not None and not least <= value < math.inf:
            raise ValueError(f"{name}={value} must be a number of at least {least}")


def _more_than_zero(config: Any, *names: str) -> None:
    for name in names:
        if not 0 < getattr(config, name) < math.inf:
            raise ValueError(f"{name}={getattr(config, name)} must be a number above zero")


def share(config: Any, name: str) -> None:
    """Raise ``ValueError`` unless 0 <= field < 1."""
    if not 0 <= getattr(config, name) < 1:
        raise ValueError(f"{name}={getattr(config, name)} must be at least 0 and below 1")


@dataclass(frozen=True, kw_only=True)
class Config:
    """The complete configuration of a run."""

    task: str
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainConfig = field(default_factory=TrainConfig)
    options: Any
    """The task's own options: an instance of its ``Options`` class."""

    def part_of(self, name: str) -> str | None:
        """The name of the part that has the field ``name``, or None."""
        return next((p for p in PARTS if name in vars(getattr(self, p))), None)

    def having(self, **changes: Any) -> "Config":
        """A copy with new values for these fields, whichever part they belong to."""
        parts: dict[str, dict[str, Any]] = {}
        for name, value in changes.items():
            part = self.part_of(name)
            assert part is not None, f"no part of a configuration has {name}"
            parts.setdefault(part, {})[name] = value
        made = {part: dataclasses.replace(getattr(self, part), **v) for part, v in parts.items()}
        return dataclasses.replace(self, **made)

    def to_json(self) -> str:
        """The content of ``config.json``, as read by ``load_config``."""
        found = {"version": VERSION} | dataclasses.asdict(self)
        return json.dumps(found, indent=2, ensure_ascii=False) + "\n"

    def refuse(self, new: "Config", run: Path, *, but: tuple[str, ...] = ()) -> None:
        """Check that ``run``, which was started with this configuration, may be continued with
        ``new``. Fields in ``but`` may differ, and so may paths, because files may have been moved
        (the content of the data is compared elsewhere).

        Raises:
            UsageError: they differ; the message lists all differences.
        """
        but = (*but, "path")
        if (self.data.columns is None) != (new.data.columns is None):  # asked for, or found out
            but = (*but, "text", "label", "columns")
        if self.task != new.task:
            raise UsageError(f"{run} was made with another task: {self.task} then, {new.task} now")
        for part in PARTS:
            before, after = (dataclasses.asdict(getattr(c, part)) for c in (self, new))
            changed = [n for n in before if n not in but and not _same(n, before[n], after[n])]
            if changed:
                changes = "; ".join(f"{n} was {before[n]}, is {after[n]}" for n in changed)
                raise UsageError(f"{run} was made with another {part}: {changes}")


#: Fields that may hold paths, which can differ if the command is run from another folder.
_PATHS = ("tokenizer", "start")


def _same(name: str, before: Any, after: Any) -> bool:
    if name in _PATHS and before is not None and after is not None:
        return Path(before).name == Path(after).name
    return bool(before == after)
