"""A whole run as data: frozen dataclasses, JSON on disk. Each default stands here once; a task
overrides some of them in its own file."""

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from subquad.data.source import ReadOptions
from subquad.errors import SubquadError, UsageError
from subquad.models import ModelConfig
from subquad.models.precision import Precision

Part = TypeVar("Part")


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """What is learned from, and how it becomes tokens."""

    path: str = ""
    text: str | None = None
    """Column of the text; None = detect."""
    label: str | None = None
    """Column of the label; None = detect."""
    pair: str | None = None
    """Column of a second text: pairs are classified (--pooling pooler)."""
    format: str | None = None
    """csv, tsv, jsonl, parquet, text (a text per file) or lines; None = by the file's name."""
    encoding: str = "utf-8"
    """Encoding of the characters."""
    on_bad_row: Literal["stop", "skip"] = "stop"
    """Stop at the first row that cannot be used, or skip such rows, counting and listing them."""
    header: bool = True
    """The first line of a CSV or TSV names the columns."""
    quotes: bool | None = None
    """Whether " has a meaning in a CSV or TSV; None = yes in CSV, seen from its rows in TSV."""
    tokenizer: str = "words"
    """words, bpe, unigram, chars, bytes, or the path of a tokenizer.json or of SentencePiece's
    .model."""
    vocabulary: int = 30_000
    """Most tokens that a tokenizer may learn."""
    length: int = 256
    """Longest row in tokens; longer texts are cut (and counted)."""
    validation: float = 0.1
    """Part held out from training to choose the best weights."""

    def check(self) -> None:
        """Refuse what cannot be (``ValueError``, one line)."""
        _at_least(self, 1, "length", "vocabulary")
        _share(self, "validation")

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
        )


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
    class_weights: bool = False
    """Classification: every class counts the same in the loss, however rare."""
    label_smoothing: float = 0.0
    """Classification: part of the target spread over all classes."""
    mask_rate: float = 0.15
    """Masked: part of a row's tokens to be guessed."""
    pairs: Literal["order", "next", "none"] = "order"
    """Masked: guess whether two segments were swapped, whether the second is another document's, or
    have one segment."""
    patience: int | None = None
    """Stop after so many evaluations without improvement; None = use the whole budget."""
    save_every: int | None = None
    """Steps between checkpoints; None = at every evaluation."""
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
        _at_least(self, 1, "batch", "accumulate", "evaluations", "keep", "patience", "save_every")
        _at_least(self, 0, "weight_decay", "workers", "seed")
        _share(self, "warmup")
        _share(self, "label_smoothing")
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name}={getattr(self, name)!r} is not one of {', '.join(known)}")
        _share(self, "mask_rate")
        if self.seed >= 2**63:
            raise ValueError(f"seed={self.seed} must be below 2^63")


_CHOICES = {
    "precision": get_args(Precision),
    "optimizer": ("adamw", "radam", "muon"),
    "schedule": ("linear", "constant", "drop"),
    "pairs": ("order", "next", "none"),
}


def _at_least(config: Any, least: int, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if value is not None and not least <= value < math.inf:
            raise ValueError(f"{name}={value} must be a number of at least {least}")


def _more_than_zero(config: Any, *names: str) -> None:
    for name in names:
        if not 0 < getattr(config, name) < math.inf:
            raise ValueError(f"{name}={getattr(config, name)} must be a number above zero")


def _share(config: Any, name: str) -> None:
    if not 0 <= getattr(config, name) < 1:
        raise ValueError(f"{name}={getattr(config, name)} must be at least 0 and below 1")


@dataclass(frozen=True, kw_only=True)
class Config:
    """One run."""

    task: str
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainConfig = field(default_factory=TrainConfig)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False) + "\n"

    def refuse(self, new: "Config", run: Path, *, but: tuple[str, ...] = ()) -> None:
        """Refuse to go on with ``run``, made as this says, as ``new`` says; fields named in ``but``
        may differ.

        Raises:
            UsageError: every difference is named, then and now.
        """
        if self.task != new.task:
            raise UsageError(f"{run} was made with another task: {self.task} then, {new.task} now")
        for part in ("data", "model", "training"):
            before, after = (dataclasses.asdict(getattr(c, part)) for c in (self, new))
            changed = [n for n in before if n not in but and before[n] != after[n]]
            if changed:
                changes = "; ".join(f"{n} was {before[n]}, is {after[n]}" for n in changed)
                raise UsageError(f"{run} was made with another {part}: {changes}")

    @classmethod
    def load(cls, path: Path) -> "Config":
        """Read a ``config.json``.

        Raises:
            SubquadError: missing, not JSON, or with fields that no configuration has.
        """
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise SubquadError(f"{path.parent} is not a run: it has no {path.name}") from None
        except (OSError, ValueError) as error:
            raise SubquadError(f"{path} is not valid JSON: {error}") from None
        try:
            return cls(
                task=found["task"],
                data=_part(DataConfig, found["data"]),
                model=_part(ModelConfig, found["model"]),
                training=_part(TrainConfig, found["training"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise SubquadError(f"{path} is not a subquad configuration: {error}") from None


def _part(cls: type[Part], found: dict[str, Any]) -> Part:
    """JSON has lists where the dataclasses have tuples."""
    return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in found.items()})
