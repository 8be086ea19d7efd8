"""A whole run as data: frozen dataclasses, JSON on disk. Each default stands here once; a task
overrides some of them in its own file."""

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

#: Version of ``config.json``. The first had no number (subquad 0.1).
VERSION = 2
#: The parts of a configuration, each a dataclass.
PARTS = ("data", "model", "training", "options")


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """What is learned from, and how it becomes tokens."""

    path: str = ""
    text: str | None = None
    """Column of the text; if omitted, it is found by its name or its content."""
    label: str | None = None
    """Column of the label; if omitted, it is found by its name or its content. Several columns of 0
    and 1, as in a,b,c, are a label each (classify)."""
    pair: str | None = None
    """Column of a second text: pairs are classified (--pooling pooler)."""
    format: str | None = None
    """csv, tsv, jsonl, parquet, text (a text per file) or lines; if omitted, as the file's name
    says."""
    encoding: str = "utf-8"
    """Encoding of the characters."""
    on_bad_row: Literal["stop", "skip"] = "stop"
    """Stop at the first row that cannot be used, or skip such rows, counting and listing them."""
    header: bool = True
    """The first line of a CSV or TSV names the columns."""
    quotes: bool | None = None
    """Whether " encloses cells of a CSV or TSV; if omitted, it does in a CSV, and the first rows of
    a TSV decide."""
    tokenizer: str = "words"
    """words, bpe, unigram, chars, bytes, or the path of a tokenizer.json or of SentencePiece's
    .model."""
    vocabulary: int = 30_000
    """Most tokens that a tokenizer may learn."""
    length: int = 256
    """Longest row in tokens; longer texts are cut (and counted)."""
    validation: float = 0.1
    """Part held out from training to choose the best weights."""
    columns: dict[str, str] | None = None
    """The columns that training read, by ``text`` and ``label``; None = a file without columns, or
    a run of version 0.1."""

    def check(self) -> None:
        """Refuse what cannot be (``ValueError``, one line)."""
        check_choices(self)
        at_least(self, 1, "length", "vocabulary")
        share(self, "validation")

    def reading(self) -> ReadOptions:
        """How files are read, training's and all later ones."""
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
        """The same with the columns that were read from ``source``. They are those of later files
        too, where those have them; what a person asks for later must be there."""
        if not source.has_columns:
            return self
        found = {"text": source.text} | ({} if source.label is None else {"label": source.label})
        label = self.label if source.label is None else None
        return replace(self, text=None, label=label, columns=found)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How weights are found. Exactly one of ``steps``, ``epochs`` and ``minutes`` is the budget."""

    start: str | None = None
    """Run, or folder of transformers' FNet, whose body (all but the head) this one starts from."""
    steps: int | None = None
    """Budget: updates of the weights."""
    epochs: float | None = None
    """Budget: passes over the training rows."""
    minutes: float | None = None
    """Budget: wall-clock time, evaluations included."""
    batch: int = 32
    """Rows in a batch."""
    accumulate: int = 1
    """Batches that a step's rows are cut into; the loss is weighted by tokens or rows, so that 4×8
    meets the rows of 1×32 and equals it."""
    optimizer: Literal["adamw", "radam", "muon"] = "adamw"
    """AdamW, RAdam (which the Linear Transformer's authors used), or Muon for the matrices of the
    blocks and AdamW for the rest."""
    lr: float = 1e-3
    """Highest learning rate."""
    schedule: Literal["linear", "constant", "drop"] = "linear"
    """After the warm-up the learning rate falls linearly to zero, stays, or drops to a tenth in the
    middle of the budget."""
    warmup: float = 0.05
    """Part of the budget over which the learning rate rises."""
    weight_decay: float = 0.01
    """On matrices (not on embeddings, biases and norms)."""
    clip: float = 1.0
    """Largest norm of the gradient."""
    seed: int = 0
    """Decides the split, the first weights, the order of the rows and the dropout."""
    precision: Precision = "auto"
    """bf16 = autocast; auto = bf16 where it is measured to be faster, else fp32."""
    evaluations: int = 10
    """How often the held-out rows are scored during a run."""
    patience: int | None = None
    """Stop after so many evaluations without improvement; if omitted, the whole budget is used."""
    save_every: int | None = None
    """Steps between checkpoints; if omitted, one is written at every evaluation."""
    keep: int = 2
    """Checkpoints kept."""
    workers: int = 0
    """Processes that prepare batches; the batches are the same."""

    def check(self) -> None:
        """Refuse what cannot be (``ValueError``, one line)."""
        given = [n for n in ("steps", "epochs", "minutes") if getattr(self, n) is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of --steps, --epochs and --minutes")
        _more_than_zero(self, given[0], "lr", "clip")
        at_least(self, 1, "batch", "accumulate", "evaluations", "keep", "patience", "save_every")
        at_least(self, 0, "weight_decay", "workers", "seed")
        share(self, "warmup")
        check_choices(self)
        if self.seed >= 2**63:
            raise ValueError(f"seed={self.seed} must be below 2^63")


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """What only one task understands. A task with options of its own derives a dataclass from
    this, with a sentence under each field, and names it ``Options``; this one has none.

    An option whose field has the metadata ``{"body": True}`` shapes the model below its head: a run
    that starts from another one takes it over. ``{"omitted": "…"}`` says in words what None does.
    """

    def check(self) -> None:
        """Refuse what cannot be (``ValueError``, one line)."""
        check_choices(self)


def at_least(config: Any, least: int, *names: str) -> None:
    """Refuse a field below ``least`` (``ValueError``); None is left alone."""
    for name in names:
        value = getattr(config, name)
        if value is not None and not least <= value < math.inf:
            raise ValueError(f"{name}={value} must be a number of at least {least}")


def _more_than_zero(config: Any, *names: str) -> None:
    for name in names:
        if not 0 < getattr(config, name) < math.inf:
            raise ValueError(f"{name}={getattr(config, name)} must be a number above zero")


def share(config: Any, name: str) -> None:
    """Refuse a field that is no share, 0 <= share < 1 (``ValueError``)."""
    if not 0 <= getattr(config, name) < 1:
        raise ValueError(f"{name}={getattr(config, name)} must be at least 0 and below 1")


@dataclass(frozen=True, kw_only=True)
class Config:
    """One run."""

    task: str
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainConfig = field(default_factory=TrainConfig)
    options: Any
    """The task's own: an instance of its ``Options``."""

    def part_of(self, name: str) -> str | None:
        """The part that has the field ``name``; None if none has."""
        return next((p for p in PARTS if name in vars(getattr(self, p))), None)

    def having(self, **changes: Any) -> "Config":
        """The same with other values of these fields, in whichever part they stand."""
        parts: dict[str, dict[str, Any]] = {}
        for name, value in changes.items():
            part = self.part_of(name)
            assert part is not None, f"no part of a configuration has {name}"
            parts.setdefault(part, {})[name] = value
        made = {part: dataclasses.replace(getattr(self, part), **v) for part, v in parts.items()}
        return dataclasses.replace(self, **made)

    def to_json(self) -> str:
        """What ``load_config`` reads."""
        found = {"version": VERSION} | dataclasses.asdict(self)
        return json.dumps(found, indent=2, ensure_ascii=False) + "\n"

    def refuse(self, new: "Config", run: Path, *, but: tuple[str, ...] = ()) -> None:
        """Refuse to go on with ``run``, made as this says, as ``new`` says; fields named in ``but``
        may differ. Files may have moved: whether the data are the same, their content tells.

        Raises:
            UsageError: every difference is named, then and now.
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


#: Fields that can be paths, which look otherwise from another folder.
_PATHS = ("tokenizer", "start")


def _same(name: str, before: Any, after: Any) -> bool:
    if name in _PATHS and before is not None and after is not None:
        return Path(before).name == Path(after).name
    return bool(before == after)
