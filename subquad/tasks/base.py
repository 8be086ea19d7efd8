"""The interface of a task, as used by training, evaluation, the laboratory and exports.

To add a task, write a subclass of ``Task`` that implements the abstract methods and overrides the
others where they apply, and register it with ``subquad.tasks.register`` or as an entry point of the
group ``subquad.tasks``. Flags, help and all commands follow from the class.
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
    """A loss as a sum and the number of rows or tokens in it, so that it is weighted correctly
    however a step is split into batches."""

    total: Tensor
    count: int


@dataclass(frozen=True)
class Score:
    """The metric that selects the best weights."""

    name: str
    higher_is_better: bool

    def better(self, new: float, old: float | None) -> bool:
        """Whether ``new`` is better than ``old``; ties keep the earlier weights."""
        if old is None:
            return True
        return new > old if self.higher_is_better else new < old


@dataclass(frozen=True)
class Input:
    """One input for ``predict``: its row in the file, counted from 1, and its value."""

    row: int
    value: Any


@dataclass(frozen=True)
class Inputs:
    """The inputs of a file, in order. An outcome is an input, or the reason why the row cannot be
    read. ``detected`` is one line that says how the file is read."""

    detected: str
    outcomes: Iterator[Input | BadRow]
    waits: Callable[[], bool] | None = None
    """Whether the next input has not arrived yet, as with a live pipe; None if that cannot be."""


@dataclass(frozen=True)
class Labelled:
    """Texts and their targets."""

    texts: Sequence[str]
    target: Target


class Task(ABC):
    """A task defines data, model, loss and metrics; training itself is elsewhere.

    An instance holds what is derived from the training data, apart from the weights: tokenizer,
    labels, sizes.
    """

    name: ClassVar[str]
    causal: ClassVar[bool]
    score: Score
    """Its name is one of the metrics that ``evaluate`` returns."""
    usage: ClassVar[str]
    """What to do with a trained run: a command without ``subquad``."""
    Options: ClassVar[type[TaskOptions]] = TaskOptions
    """The dataclass of the task's own options."""
    unused: ClassVar[frozenset[str]] = frozenset()
    """Fields of the data, model or training configuration that do not apply to this task, and
    therefore are not among its flags."""
    settled: ClassVar[tuple[str, ...]] = ("length",)
    """Fields of the configuration whose value may be changed to fit the data."""
    heads: ClassVar[tuple[str, ...]] = ("head",)
    """Names of the modules on top of the model's body, which other tasks do not reuse."""
    keeps_heads: ClassVar[bool] = True
    """Whether the same task on other data can reuse the heads, which may depend on the classes."""

    learns: ClassVar[bool] = True
    """Whether its runs are trained from data."""
    takes: ClassVar[tuple[str, ...]] = ()
    """What can be given in memory to learn from: ``texts``, ``labels``, ``pairs``, ``images``."""
    floor_figures: tuple[str, ...] = ()
    """The metrics reported for baselines; ``score.name`` is one of them."""

    config: Config
    """The run's configuration, completed with what depends on the data."""
    class_names: tuple[str, ...] = ()
    """The names of the classes, if there are any."""
    notes: Sequence[str] = ()
    """What a user should know about the data read last: what was detected, skipped, truncated."""
    counts: Mapping[str, int] = MappingProxyType({})
    """The same as numbers, for a file that ``examples`` has read: rows skipped, texts truncated."""
    tokenizer: Tokenizer | None = None
    """None if the task does not read texts."""

    @classmethod
    @abstractmethod
    def defaults(cls) -> Config:
        """The complete configuration of a run without any flags."""

    @classmethod
    def check(cls, config: Config) -> None:
        """Raise ``ValueError`` if settings do not go together; each part is checked on its own
        before."""
        assert config.task == cls.name

    @classmethod
    @abstractmethod
    def fit(cls, config: Config, store: Path) -> tuple[Self, Examples, Examples]:
        """Read ``config.data`` and return the task, the training set and the held-out set.

        Texts are tokenised once, into files in the directory ``store``, and then read from there. A
        task that can also learn from data in memory lists them in ``takes`` and accepts a third
        argument ``given``: a ``Source`` of texts, or ``Images``; None reads the file.
        """

    @abstractmethod
    def save(self, run: Path) -> None:
        """Write tokenizer and labels into a run directory."""

    @classmethod
    @abstractmethod
    def load(cls, run: Path, config: Config) -> Self:
        """Read what ``save`` wrote."""

    @abstractmethod
    def examples(self, path: str, store: Path) -> Examples:
        """Encode another file for evaluation, in the same way as the training data, into the
        directory ``store``. ``notes`` and ``counts`` then describe how it was read."""

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
        """Metrics over ``batches``, which together are ``examples``; includes ``score.name``."""

    def finish(self, run: Path, model: nn.Module, batches: Iterator[Batch]) -> None:  # noqa: B027
        """Learn from all held-out rows what is kept in ``run`` beside the best weights, which
        ``model`` has: called once, at the end of training."""

    def remarks(self) -> tuple[str, ...]:
        """What ``finish`` found, a sentence each: the model card has them."""
        return ()

    def inputs(self, path: str) -> Inputs:  # noqa: ARG002
        """The inputs in a file, for ``predict``.

        Raises:
            UsageError: the task does not predict.
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
            UsageError: the task does not predict.
        """
        raise self.cannot("predict")

    def unlabelled(self, path: str, store: Path) -> Examples:  # noqa: ARG002
        """The rows of a file without their labels, as the model reads them, for conversions; sets
        ``notes``.

        Raises:
            UsageError: the task does not read texts.
        """
        raise UsageError(
            f"a run of the task {self.name} does not read texts; only models of texts are converted"
        )

    def embedded(self, path: str) -> Inputs:  # noqa: ARG002
        """The inputs in a file, for ``vectors``; raises as it does."""
        raise self.cannot("embed")

    def vectors(self, model: nn.Module, inputs: Sequence[Any]) -> Tensor:  # noqa: ARG002
        """One vector per input, ``[b, d]``, in order: what the model's head reads.

        Raises:
            UsageError: the task does not summarise an input in one vector.
        """
        raise self.cannot("embed")

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
        """What ``subquad generate`` produces with a run.

        Raises:
            UsageError: the task does not generate.
        """
        raise self.cannot("generate")

    def page(self) -> Shown:
        """What an HTML page exported from a run shows.

        Raises:
            UsageError: a page cannot show this; the message says why.
        """
        raise UsageError(f"the task is {self.name}; a page shows texts, pictures or classes")

    def floors(self) -> tuple[str, ...]:
        """The simple baselines ("floors") that a model should beat, by their names in
        ``subquad.lab.compare.floors``. Baselines that predict need ``measured`` and
        ``floor_figures``; those that read texts need ``texts`` and ``labelled``."""
        return ()

    def measured(self, truth: Target, guess: Any) -> dict[str, Any]:
        """The metrics of predictions by a baseline."""
        raise NotImplementedError(f"the task {self.name} has a baseline; implement measured()")

    @classmethod
    def texts(cls, config: Config) -> tuple[Labelled, Labelled]:
        """The training and held-out texts, in memory: the same rows that ``fit`` encodes."""
        raise NotImplementedError(f"the task {cls.name} has a baseline of texts; implement texts()")

    def labelled(self, path: str) -> Labelled:
        """The texts of another file, in memory."""
        raise NotImplementedError(
            f"the task {self.name} has a baseline of texts; implement labelled()"
        )

    def outputs(self, model: nn.Module, batch: Batch) -> Any:
        """The model's outputs for a batch."""
        return model(batch.tokens, batch.mask)

    def types(self, tokens: Tensor, mask: Tensor) -> Tensor | None:  # noqa: ARG002
        """The token types, int64 ``[b, t]``, derived from ``tokens``; None if all are the same."""
        return None

    def about(self, model: nn.Module) -> dict[str, Any]:  # noqa: ARG002
        """What a program that runs the exported model needs to know about its outputs."""
        return {}

    def rows(self, texts: Sequence[str], length: int | None) -> Ragged:  # noqa: ARG002
        """Tokenise texts, each truncated to ``length`` tokens unless that is None.

        Raises:
            UsageError: the task does not read texts.
        """
        raise UsageError(f"a {self.name} run reads no texts")

    def answer(self, model: nn.Module, logits: Tensor) -> str:  # noqa: ARG002
        """The prediction in ``logits`` (the model's output for one row) in a few words, or ""."""
        return ""

    def cannot(self, verb: str) -> UsageError:
        """The error for a command that does not apply to this task; it names one that does."""
        return UsageError(f"a run of the task {self.name} cannot {verb}; use: subquad {self.usage}")
