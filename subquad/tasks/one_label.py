"""Classification with exactly one class per row."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from subquad.data.labels import Labels
from subquad.data.targets import Classes, Target
from subquad.tasks.base import Score
from subquad.tasks.metrics import classification, confusion


class OneLabel:
    """Softmax over the classes ``labels``."""

    score = Score("accuracy", higher_is_better=True)
    figures = ("accuracy", "macro_f1")
    floors = ("majority class",)
    kind: type[Target] = Classes

    def __init__(self, labels: Labels) -> None:
        self.labels = labels

    def loss(
        self, logits: Tensor, truth: Tensor, weights: Tensor | None, smoothing: float
    ) -> Tensor:
        """Cross-entropy, summed over the rows."""
        return nn.functional.cross_entropy(
            logits, truth, weight=weights, reduction="sum", label_smoothing=smoothing
        )

    def evaluate(
        self, model: nn.Module, pairs: Iterable[tuple[Tensor, Tensor]], *, learning: bool
    ) -> dict[str, Any]:
        """The metrics over pairs of truth and logits. No threshold is tuned here, so that
        ``learning`` has no effect."""
        del model, learning
        truth, guess, total = [], [], 0.0
        for answers, logits in pairs:
            total += float(self.loss(logits, answers, None, 0.0))
            truth.append(answers.cpu().numpy())
            guess.append(logits.argmax(-1).cpu().numpy())
        told = np.concatenate(truth)
        return self.measured(told, np.concatenate(guess)) | {"loss": total / len(told)}

    def measured(self, truth: npt.NDArray[Any], guess: npt.NDArray[Any]) -> dict[str, Any]:
        """Accuracy and the other classification metrics."""
        return classification(confusion(truth, guess, len(self.labels)), self.labels)

    def answers(self, model: nn.Module, logits: Tensor) -> list[dict[str, Any]]:
        """``label`` and ``probabilities`` of each row."""
        del model
        names = self.labels.names
        return [
            {
                "label": names[int(row.argmax())],
                "probabilities": dict(zip(names, row.tolist(), strict=True)),
            }
            for row in logits.softmax(-1)
        ]

    def sentence(self, model: nn.Module, logits: Tensor) -> str:
        """The prediction for one row as text."""
        del model
        chances = logits.softmax(-1)
        return f"says {self.labels.names[int(chances.argmax())]} ({float(chances.max()):.0%})"

    def prepare(self, model: nn.Module) -> None:
        """Does nothing: there is nothing to store with the model."""

    def about(self, model: nn.Module) -> dict[str, Any]:
        """What the outputs of the model mean."""
        del model
        return {"outputs": "logits of classes, for a softmax"}
