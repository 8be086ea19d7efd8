"""What training, evaluation, the laboratory and exports may ask of a task.

A task from outside is one class: it derives from ``Task``, answers the abstract methods, and
overrides the others where it can do more than refuse. ``subquad.tasks.register`` or an entry point
of the group ``subquad.tasks`` makes it known; flags, help and every verb follow from the class.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self

from torch import Tensor, nn

from subquad.data.batches import Batch, Examples
from subquad.data.ragged import Ragged
from subquad.data.rows import BadRow, Record
from subquad.data.targets import Target
from subquad.data.tokenizers import Tokenizer
from subquad.errors import UsageError
from subquad.tasks.config import Config, TaskOptions
from subquad.tasks.outputs import Generated, Shown


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


@dataclass(frozen=True)
class Input:
    """One input to be answered: the ``row`` it stands in, from 1, and what ``predict`` takes."""

    row: int
    value: Any


@dataclass(frozen=True)
class Inputs:
    """The inputs of a file, in order: each, or why it cannot be read; ``detected`` is one line for
    people about how the file is read."""

    detected: str
    outcomes: Iterator[Input | BadRow]
    waits: Callable[[], bool] | None = None
    """Whether the next input has not come yet, as from a live pipe; None = never."""


@dataclass(frozen=True)
class Labelled:
    """Texts and what is to be told of each."""

    texts: Sequence[str]
    target: Target


class Task(ABC):
    """A task knows its data, its model, its loss and its metrics; it never trains.

    An instance holds what was learned from the training data besides the weights: tokenizer,
    labels, sizes.
    """

    name: ClassVar[str]
    causal: ClassVar[bool]
    score: Score
    """Its name is among the metrics that ``evaluate`` returns."""
    usage: ClassVar[str]
    """The command that a trained run is for, after ``subquad``; RUN stands for the run."""
    Options: ClassVar[type[TaskOptions]] = TaskOptions
    """The dataclass of the options that only this task has."""
    unused: ClassVar[frozenset[str]] = frozenset()
    """Fields of the data's, model's or training's configuration that mean nothing to this task:
    they are no flags of it."""
    settled: ClassVar[tuple[str, ...]] = ("length",)
    """Fields of the configuration that the data may settle otherwise than was asked."""
    heads: ClassVar[tuple[str, ...]] = ("head",)
    """The modules of the model that are no part of its body; another task starts without them."""
    keeps_heads: ClassVar[bool] = True
    """Whether the same task on other data can go on with the heads: not where they stand for
    classes or numbers of the data."""

    takes: ClassVar[tuple[str, ...]] = ()
    """What can be given in memory to learn from: ``texts``, ``labels``, ``pairs``, ``images``."""

    floor_figures: tuple[str, ...] = ()
    """The metrics that floors are shown with; ``score.name`` is among them."""

    config: Config
    """The run's configuration, with what the data decided filled in."""
    class_names: tuple[str, ...] = ()
    """The classes, where there are any."""
    notes: Sequence[str] = ()
    """What a person should know about the data read last: what was detected, skipped, cut or
    repeated."""
    counts: Mapping[str, int] = MappingProxyType({})
    """The same of a file that ``examples`` has read, as numbers: rows skipped, texts cut."""
    tokenizer: Tokenizer | None = None
    """None where no texts are read."""

    @classmethod
    @abstractmethod
    def defaults(cls) -> Config:
        """The complete configuration of a run for which no flag was given."""

    @classmethod
    def check(cls, config: Config) -> None:
        """Refuse what this task cannot be (``ValueError``); each part has been checked alone."""
        assert config.task == cls.name

    @classmethod
    @abstractmethod
    def fit(cls, config: Config, store: Path) -> tuple[Self, Examples, Examples]:
        """Read ``config.data``; return the task, the training and the held-out examples.

        Texts are tokenised once into the directory ``store`` and read from there. A task that also
        learns from data in memory says so in ``takes`` and has a third argument ``given``: a
        ``Source`` of texts, or ``Images``; None = read the file.
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

    def finish(self, run: Path, model: nn.Module, batches: Iterator[Batch]) -> None:  # noqa: B027
        """Learn from all held-out rows what is kept in ``run`` beside the best weights, which
        ``model`` has: called once, at the end of training."""

    def remarks(self) -> tuple[str, ...]:
        """What ``finish`` found, a sentence each: the model card has them."""
        return ()

    def inputs(self, path: str) -> Inputs:  # noqa: ARG002
        """The inputs in a file, for ``predict``.

        Raises:
            UsageError: the task does something else.
        """
        raise self.cannot("predict")

    def checked(self, inputs: Iterable[Any]) -> Iterator[Any]:
        """Inputs that a program gives, each as ``predict`` takes it.

        Raises:
            SubquadError: one that cannot be used; its place is named, from 1.
        """
        return iter(inputs)

    def predict(self, model: nn.Module, inputs: Sequence[Any]) -> list[dict[str, Any]]:  # noqa: ARG002
        """One result per input, in order.

        Raises:
            UsageError: the task does something else.
        """
        raise self.cannot("predict")

    def truths(self, path: str) -> Iterator[Record]:  # noqa: ARG002
        """The texts of a labelled file, each with its label, for ``mistake``.

        Raises:
            UsageError: the task has no answers that are right or wrong.
        """
        raise UsageError(f"a run of the task {self.name} gives no answers that are right or wrong")

    def mistake(self, truth: Record, answer: dict[str, Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """What is wrong with an ``answer`` of ``predict``: ``truth``, ``guess`` and the model's
        ``probability`` of being right; None if it is right."""
        return None

    def generates(self) -> Generated:
        """What ``subquad generate`` makes with a run.

        Raises:
            UsageError: the task does something else.
        """
        raise self.cannot("generate")

    def page(self) -> Shown:
        """What a page made of a run shows.

        Raises:
            UsageError: there is no such page; the reason is given.
        """
        raise UsageError(f"the task is {self.name}; a page shows texts, pictures or classes")

    def floors(self) -> tuple[str, ...]:
        """The simple methods that a model of this task must beat, by their names in the laboratory
        (``subquad.lab.compare.floors``). Those that answer need ``measured`` and
        ``floor_figures``; those of texts need ``texts`` and ``labelled``."""
        return ()

    def measured(self, truth: Target, guess: Any) -> dict[str, Any]:
        """The metrics of answers that no model gave."""
        raise NotImplementedError(f"the task {self.name} has a floor, so it must measure it")

    @classmethod
    def texts(cls, config: Config) -> tuple[Labelled, Labelled]:
        """The training texts and the held-out ones, in memory: the rows that ``fit`` encodes."""
        raise NotImplementedError(f"the task {cls.name} has a floor of texts, so it must read them")

    def labelled(self, path: str) -> Labelled:
        """The texts of another file, in memory."""
        raise NotImplementedError(
            f"the task {self.name} has a floor of texts, so it must read them"
        )

    def outputs(self, model: nn.Module, batch: Batch) -> Any:
        """What the model says about a batch, read as the task reads it."""
        return model(batch.tokens, batch.mask)

    def types(self, tokens: Tensor, mask: Tensor) -> Tensor | None:  # noqa: ARG002
        """The type of each token, int64 ``[b, t]``, where they follow from the ``tokens``; None
        where all are of one type."""
        return None

    def about(self, model: nn.Module) -> dict[str, Any]:  # noqa: ARG002
        """What a program that runs the exported model must know about its outputs."""
        return {}

    def rows(self, texts: Sequence[str], length: int | None) -> Ragged:  # noqa: ARG002
        """Texts as the model reads them, each cut to ``length`` tokens (None: whole).

        Raises:
            UsageError: the task reads no texts.
        """
        raise UsageError(f"a {self.name} run reads no texts")

    def answer(self, model: nn.Module, logits: Tensor) -> str:  # noqa: ARG002
        """What ``logits``, the model's output for one row, say, in a few words; "" for nothing."""
        return ""

    def cannot(self, verb: str) -> UsageError:
        """The refusal of a verb, which names what a run is for instead."""
        return UsageError(
            f"a run of the task {self.name} does not {verb}; it is for: subquad {self.usage}"
        )
