"""The options that only classification has."""

from dataclasses import dataclass, field

from subquad.tasks.config import share
from subquad.tasks.pooled import PooledOptions


@dataclass(frozen=True, kw_only=True)
class ClassifyOptions(PooledOptions):
    """Options of ``classify``."""

    token_dropout: float | None = field(
        default=None,
        metadata={"omitted": "0.5 if texts have 100 tokens or more on average, otherwise 0.2"},
    )
    """Fraction of a row's tokens that is hidden from the model in training, drawn anew each
    time."""
    class_weights: bool = False
    """Weight the loss so that all classes count the same, however rare."""
    label_smoothing: float = 0.1
    """Label smoothing: the fraction of the target that is spread evenly over all classes."""
    labels_separator: str | None = None
    """Separator of several labels in one cell, such as ; in sport;news. If omitted, each cell is
    one label, unless it is a list (JSONL, Parquet)."""

    def check(self) -> None:
        super().check()
        share(self, "label_smoothing")
        if self.labels_separator == "":
            raise ValueError("--labels-separator is empty; give a character, such as ';'")
