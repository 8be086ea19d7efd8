"""A whole run as data: frozen dataclasses, JSON on disk. Each default stands here once; a task
overrides some of them in its own file."""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from subquad.data.source import ReadOptions
from subquad.errors import SubquadError
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
    format: str | None = None
    """csv, tsv, jsonl, parquet, text (a text per file) or lines; None = by the file's name."""
    encoding: str = "utf-8"
    """Encoding of the characters."""
    on_bad_row: Literal["stop", "skip"] = "stop"
    """Stop at the first row that cannot be used, or skip such rows, counting and listing them."""
    header: bool = True
    """The first line of a CSV or TSV names the columns."""
    tokenizer: str = "words"
    """words, bpe, unigram, chars, bytes, or the path of a tokenizer.json."""
    vocabulary: int = 30_000
    """Most tokens that a tokenizer may learn."""
    length: int = 256
    """Longest row in tokens; longer texts are cut (and counted)."""
    validation: float = 0.1
    """Part held out from training to choose the best weights."""

    def reading(self) -> ReadOptions:
        """How files are read, training's and all later ones."""
        return ReadOptions(
            text=self.text,
            label=self.label,
            format=self.format,
            encoding=self.encoding,
            on_bad_row=self.on_bad_row,
            header=self.header,
        )


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How weights are found. Exactly one of ``steps``, ``epochs`` and ``minutes`` is the budget."""

    steps: int | None = None
    epochs: float | None = None
    minutes: float | None = None
    batch: int = 32
    accumulate: int = 1
    """Batches per step; the loss is weighted by tokens or rows, so 4×8 equals 1×32."""
    lr: float = 1e-3
    warmup: float = 0.05
    """Part of the budget over which the learning rate rises."""
    weight_decay: float = 0.01
    clip: float = 1.0
    """Largest norm of the gradient."""
    seed: int = 0
    precision: Precision = "auto"
    """bf16 = autocast; auto = bf16 where the processor has it."""
    evaluations: int = 10
    """How often the held-out rows are scored during a run."""
    class_weights: bool = False
    """Classification: every class counts the same in the loss, however rare."""
    patience: int | None = None
    """Stop after so many evaluations without improvement; None = use the whole budget."""
    save_every: int | None = None
    """Steps between checkpoints; None = at every evaluation."""
    keep: int = 2
    """Checkpoints kept."""
    workers: int = 0


@dataclass(frozen=True, kw_only=True)
class Config:
    """One run."""

    task: str
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainConfig = field(default_factory=TrainConfig)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False) + "\n"

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
        except ValueError as error:
            raise SubquadError(f"{path} is not valid JSON: {error}") from None
        try:
            return cls(
                task=found["task"],
                data=_part(DataConfig, found["data"]),
                model=_part(ModelConfig, found["model"]),
                training=_part(TrainConfig, found["training"]),
            )
        except (KeyError, TypeError) as error:
            raise SubquadError(f"{path} is not a subquad configuration: {error}") from None


def _part(cls: type[Part], found: dict[str, Any]) -> Part:
    """JSON has lists where the dataclasses have tuples."""
    return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in found.items()})
