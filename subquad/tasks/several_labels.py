"""Multi-label classification: any number of classes per row.

A class is predicted if its probability reaches a threshold, which is the same for all classes and
tuned for the best micro F1 on the held-out set. It is stored with the weights, which are selected
on the same set. A temperature rescales probabilities and threshold alike: the same labels are
predicted.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from subquad.data.label_sets import JOIN, LabelSets
from subquad.data.targets import ClassSets, Target
from subquad.tasks.base import Score
from subquad.tasks.calibration import Calibrated, Stated, figures_of, threshold_at
from subquad.tasks.metrics import several

Sets = npt.NDArray[np.bool_]
#: The name of the threshold among the model's tensors.
THRESHOLD = "threshold"


class SeveralLabels(Calibrated):
    """An independent sigmoid for each of the classes ``labels``."""

    score = Score("micro_f1", higher_is_better=True)
    figures = ("micro_f1", "macro_f1", "exact")
    floors = ("most frequent labels",)
    kind: type[Target] = ClassSets

    def __init__(self, labels: LabelSets) -> None:
        self.labels = labels

    def loss(
        self, logits: Tensor, truth: Tensor, weights: Tensor | None, smoothing: float
    ) -> Tensor:
        """Binary cross-entropy of each class, summed over classes and rows; ``smoothing`` is spread
        over yes and no."""
        target = truth.to(logits.dtype) * (1 - smoothing) + smoothing / 2
        return nn.functional.binary_cross_entropy_with_logits(
            logits, target, weight=weights, reduction="sum"
        )

    def evaluate(
        self, model: nn.Module, pairs: Iterable[tuple[Tensor, Tensor]], *, learning: bool
    ) -> dict[str, Any]:
        """The metrics over pairs of truth and logits: ``loss`` of the raw logits, and ``ece`` of
        the calibrated probabilities. With ``learning``, there is no ``ece`` yet, and the model's
        threshold is first set to the best one for these rows."""
        truth, chances, stated, total = [], [], [], 0.0
        for answers, logits in pairs:
            if not learning:
                stated.append(self.stated(logits / self.temperature, answers))
            total += float(self.loss(logits, answers, None, 0.0))
            truth.append(answers.cpu().numpy())
            chances.append(logits.sigmoid().cpu().numpy())
        told, found = np.concatenate(truth), np.concatenate(chances)
        if learning:
            _threshold(model).fill_(best_threshold(told, found))
        least = float(_threshold(model))
        measured = self.measured(told, found >= least) | figures_of(stated)
        return measured | {"threshold": self._told_from(model), "loss": total / len(told)}

    def stated(self, logits: Tensor, truth: Tensor) -> Stated:
        """The probability of every class of every row, and whether the row has it."""
        return logits.sigmoid().flatten().cpu().numpy(), truth.bool().flatten().cpu().numpy()

    def _told_from(self, model: nn.Module) -> float:
        """The calibrated probability from which on a class is told."""
        return threshold_at(float(_threshold(model)), self.temperature)

    def measured(self, truth: Sets, guess: npt.NDArray[Any]) -> dict[str, Any]:
        """Micro and macro F1, exact matches, and the other multi-label metrics."""
        return several(truth, guess.astype(np.bool_), self.labels.names)

    def answers(self, model: nn.Module, logits: Tensor) -> list[dict[str, Any]]:
        """``labels`` and calibrated ``probabilities`` of each row."""
        names, told = self.labels.names, logits.sigmoid() >= float(_threshold(model))
        chances = (logits / self.temperature).sigmoid()
        return [
            {
                "labels": [name for name, yes in zip(names, which, strict=True) if yes],
                "probabilities": dict(zip(names, row, strict=True)),
            }
            for which, row in zip(told.tolist(), chances.tolist(), strict=True)
        ]

    def mistake(self, truth: str, answer: dict[str, Any]) -> dict[str, Any] | None:
        """``truth`` and ``guess``, and how sure the model is of the labels that differ
        (``probability``, the mean), if ``answer`` is wrong."""
        true, guess = {part for part in truth.split(JOIN) if part}, set(answer["labels"])
        if true == guess:
            return None
        chances = answer["probabilities"]
        sure = [chances[name] if name in guess else 1 - chances[name] for name in true ^ guess]
        named = {"truth": ";".join(sorted(true)), "guess": ";".join(sorted(guess))}
        return named | {"probability": sum(sure) / len(sure)}

    def sentence(self, model: nn.Module, logits: Tensor) -> str:
        """The prediction for one row as text."""
        (found,) = self.answers(model, logits.unsqueeze(0))
        said = [f"{name} ({found['probabilities'][name]:.0%})" for name in found["labels"]]
        return f"says {', '.join(said) or 'none of the labels'}"

    def prepare(self, model: nn.Module) -> None:
        """Store a threshold with the model."""
        model.register_buffer(THRESHOLD, torch.tensor(0.5))

    def about(self, model: nn.Module) -> dict[str, Any]:
        """What the outputs of the model mean."""
        outputs = (
            "logits of labels; probabilities are sigmoid(logits / temperature), each by itself"
        )
        about: dict[str, Any] = {"outputs": outputs, "temperature": self.temperature}
        return about | {"threshold": self._told_from(model)}


def _threshold(model: nn.Module) -> Tensor:
    kept = model.get_buffer(THRESHOLD)
    assert kept.dim() == 0
    return kept


def best_threshold(truth: Sets, chances: npt.NDArray[np.floating]) -> float:
    """The threshold that gives the best micro F1 on these rows, halfway to the next lower
    probability; 0.5 if no row has any class.

    Args:
        truth: bool ``[n, c]``.
        chances: the predicted probabilities ``[n, c]``.
    """
    flat = chances.ravel().astype(np.float64)
    order = np.argsort(-flat, kind="stable")
    right = np.cumsum(truth.ravel()[order])
    if not len(right) or not right[-1]:
        return 0.5
    told = np.arange(1, len(right) + 1)
    f1 = 2 * right / (told + right[-1])
    ranked = flat[order]
    last = np.append(ranked[1:] < ranked[:-1], True)  # equal ones are told together
    best = int(np.argmax(np.where(last, f1, -1.0)))
    lower = ranked[best + 1] if best + 1 < len(ranked) else 0.0
    return float((ranked[best] + lower) / 2)
