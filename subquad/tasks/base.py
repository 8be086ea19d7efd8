"""What training, evaluation and the laboratory may ask of a task."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self

from torch import Tensor, nn

from subquad.data.batches import Batch, Examples
from subquad.errors import UsageError
from subquad.tasks.config import Config


@dataclass(frozen=True)
class Loss:
    """The sum over what is counted (rows or tokens) and the count: weighting is exact however a
    step is cut into batches."""

    total: Tensor
    count: int


@dataclass(frozen=True)
class Score:
    """The number that chooses the best weights."""

    name: str
    higher_is_better: bool

    def better(self, new: float, old: float | None) -> bool:
        """Whether ``new`` beats ``old``; a tie keeps the earlier."""
        if old is None:
            return True
        return new > old if self.higher_is_better else new < old


class Task(ABC):
    """A task knows its data, its model, its loss and its metrics; it never trains.

    An instance holds what was learned from the training data besides the weights: tokenizer,
    labels, sizes.
    """

    name: ClassVar[str]
    causal: ClassVar[bool]
    score: ClassVar[Score]
    settled: ClassVar[tuple[str, ...]] = ("length",)
    """Fields of the configuration that the data may settle otherwise than was asked."""
    config: Config
    """The run's configuration, with what the data decided filled in."""
    notes: Sequence[str] = ()
    """What a person should know about the data read last: what was detected, skipped, cut or
    repeated."""
    counts: Mapping[str, int] = MappingProxyType({})
    """The same of a file that ``examples`` has read, as numbers: rows skipped, texts cut."""

    @classmethod
    @abstractmethod
    def defaults(cls) -> Config:
        """The complete configuration of a run for which no flag was given."""

    @classmethod
    @abstractmethod
    def fit(cls, config: Config, store: Path) -> tuple[Self, Examples, Examples]:
        """Read ``config.data``; return the task, the training and the held-out examples.

        Texts are tokenised once into the directory ``store`` and read from there.
        """

    @abstractmethod
    def save(self, run: Path) -> None:
        """Write tokenizer and labels into a run directory."""

    @classmethod
    @abstractmethod
    def load(cls, run: Path, config: Config) -> Self:
        """What ``save`` wrote."""

    @abstractmethod
    def examples(self, path: str, store: Path) -> Examples:
        """Encode another file, as training's was, for evaluation, in the directory ``store``; say
        in ``notes`` and ``counts`` how it was read."""

    @abstractmethod
    def model(self) -> nn.Module:
        """A freshly initialised model."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """The training loss of a batch."""

    @abstractmethod
    def evaluate(
        self, model: nn.Module, examples: Examples, batches: Iterator[Batch]
    ) -> dict[str, Any]:
        """Metrics over ``batches``, which are all of ``examples``; holds ``score.name``."""

    def predict(
        self,
        model: nn.Module,  # noqa: ARG002
        inputs: Sequence[str],  # noqa: ARG002
    ) -> list[dict[str, Any]]:
        """One result per input, in order.

        Raises:
            UsageError: the task does something else.
        """
        does = "generates" if self.causal else "is there to be tuned (train --from)"
        raise UsageError(f"a {self.name} run {does}; only classify and regress runs predict")
