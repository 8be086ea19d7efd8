"""Classification with exactly one class per row."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from subquad.data.labels import Labels
from subquad.data.targets import Classes, Target
from subquad.tasks.base import Score
from subquad.tasks.calibration import Calibrated, Stated, figures_of
from subquad.tasks.metrics import classification, confusion


class OneLabel(Calibrated):
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
        """The metrics over pairs of truth and logits: ``loss`` of the logits as they are, and
        ``ece`` of the calibrated probabilities, which a model that is ``learning`` has not yet."""
        del model
        truth, guess, stated, total = [], [], [], 0.0
        for answers, logits in pairs:
            if not learning:
                stated.append(self.stated(logits / self.temperature, answers))
            total += float(self.loss(logits, answers, None, 0.0))
            truth.append(answers.cpu().numpy())
            guess.append(logits.argmax(-1).cpu().numpy())
        told = np.concatenate(truth)
        found = self.measured(told, np.concatenate(guess)) | {"loss": total / len(told)}
        return found | figures_of(stated)

    def stated(self, logits: Tensor, truth: Tensor) -> Stated:
        """The probability of each row's likeliest class, and whether it is the right one."""
        top, guess = logits.softmax(-1).max(-1)
        return top.cpu().numpy(), (guess == truth).cpu().numpy()

    def measured(self, truth: npt.NDArray[Any], guess: npt.NDArray[Any]) -> dict[str, Any]:
        """Accuracy and the other classification metrics."""
        return classification(confusion(truth, guess, len(self.labels)), self.labels)

    def answers(self, model: nn.Module, logits: Tensor) -> list[dict[str, Any]]:
        """``label`` and calibrated ``probabilities`` of each row."""
        del model
        names, chances = self.labels.names, (logits / self.temperature).softmax(-1).tolist()
        return [
            {"label": names[best], "probabilities": dict(zip(names, row, strict=True))}
            for best, row in zip(logits.argmax(-1).tolist(), chances, strict=True)
        ]

    def mistake(self, truth: str, answer: dict[str, Any]) -> dict[str, Any] | None:
        """``truth``, ``guess`` and the guess's ``probability``, if ``answer`` is wrong."""
        guess = answer["label"]
        if guess == truth:
            return None
        return {"truth": truth, "guess": guess, "probability": answer["probabilities"][guess]}

    def sentence(self, model: nn.Module, logits: Tensor) -> str:
        """The prediction for one row as text."""
        (found,) = self.answers(model, logits.unsqueeze(0))
        return f"says {found['label']} ({found['probabilities'][found['label']]:.0%})"

    def prepare(self, model: nn.Module) -> None:
        """Does nothing: there is nothing to store with the model."""

    def about(self, model: nn.Module) -> dict[str, Any]:
        """What the outputs of the model mean."""
        del model
        outputs = "logits of classes; probabilities are softmax(logits / temperature)"
        return {"outputs": outputs, "temperature": self.temperature}
