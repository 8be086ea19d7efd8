"""Classification metrics, always including the majority-class baseline."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from subquad.data.labels import Labels

Classes = npt.NDArray[np.int64]


#: With more classes than this, the most confused pairs are reported instead of the matrix.
MATRIX = 100


@dataclass(frozen=True)
class Confusion:
    """A sparse confusion matrix: ``count`` rows of class ``truth`` were predicted as ``guess``.
    Only pairs that occur are stored, so that memory is not quadratic in the number of classes."""

    truth: Classes
    guess: Classes
    count: Classes
    classes: int

    def sums(self) -> tuple[Classes, Classes, Classes]:
        """Per class: correctly predicted rows, rows that belong to it, rows predicted as it."""
        same = self.truth == self.guess
        return (
            self._by(self.truth[same], self.count[same]),
            self._by(self.truth, self.count),
            self._by(self.guess, self.count),
        )

    def _by(self, of: Classes, count: Classes) -> Classes:
        return np.bincount(of, weights=count, minlength=self.classes).astype(np.int64)

    def matrix(self) -> Classes:
        """Counts ``[truth, guess]``."""
        table = np.zeros((self.classes, self.classes), dtype=np.int64)
        table[self.truth, self.guess] = self.count
        return table

    def worst(self, names: Sequence[str], most: int = MATRIX) -> list[dict[str, Any]]:
        """The most confused pairs by name, most frequent first."""
        wrong = np.flatnonzero(self.truth != self.guess)
        order = wrong[np.argsort(-self.count[wrong], kind="stable")][:most]
        return [
            {
                "truth": names[self.truth[i]],
                "guess": names[self.guess[i]],
                "count": int(self.count[i]),
            }
            for i in order
        ]


def confusion(truth: Classes, guess: Classes, classes: int) -> Confusion:
    """Count the pairs of true and predicted classes."""
    codes, count = np.unique(truth.astype(np.int64) * classes + guess, return_counts=True)
    return Confusion(codes // classes, codes % classes, count.astype(np.int64), classes)


def classification(table: Confusion, labels: Labels) -> dict[str, Any]:
    """Accuracy, macro F1, the majority-class baseline, scores per class, and the confusion matrix
    or, for many classes, the most ``confused`` pairs.

    A class that neither occurs nor is predicted has F1 0, as with scikit-learn's
    ``zero_division=0``; macro F1 is the mean over the classes that occur or are predicted.
    """
    n = int(table.count.sum())
    right, true, guessed = table.sums()
    precision = right / np.maximum(guessed, 1)
    recall = right / np.maximum(true, 1)
    f1 = 2 * right / np.maximum(true + guessed, 1)
    present = (true + guessed) > 0
    per_class = {
        name: {
            "examples": int(true[c]),
            "precision": float(precision[c]),
            "recall": float(recall[c]),
            "f1": float(f1[c]),
        }
        for c, name in enumerate(labels.names)
    }
    return {
        "examples": n,
        "accuracy": float(right.sum() / n),
        "macro_f1": float(f1[present].mean()),
        "majority": float(true.max() / n),
        "classes": per_class,
        **(
            {"confusion": table.matrix().tolist()}
            if table.classes <= MATRIX
            else {"confused": table.worst(labels.names)}
        ),
    }


def several(
    truth: npt.NDArray[np.bool_], guess: npt.NDArray[np.bool_], names: Sequence[str]
) -> dict[str, Any]:
    """Micro and macro F1, the fraction of rows whose labels are all correct (``exact``), that of
    rows with the most frequent set of labels, and scores per class. ``truth`` and ``guess`` are
    ``[n, c]``.

    A class that neither occurs nor is predicted has F1 0; macro F1 is the mean over the classes
    that occur or are predicted.
    """
    right, true, guessed = (table.sum(0) for table in (truth & guess, truth, guess))
    f1 = 2 * right / np.maximum(true + guessed, 1)
    present = (true + guessed) > 0
    usual = np.unique(truth, axis=0, return_counts=True)[1].max()
    per_class = {
        name: {
            "examples": int(true[c]),
            "precision": float(right[c] / max(guessed[c], 1)),
            "recall": float(right[c] / max(true[c], 1)),
            "f1": float(f1[c]),
        }
        for c, name in enumerate(names)
    }
    return {
        "examples": len(truth),
        "micro_f1": float(2 * right.sum() / max(true.sum() + guessed.sum(), 1)),
        "macro_f1": float(f1[present].mean()) if present.any() else 0.0,
        "exact": float((truth == guess).all(1).mean()),
        "most_frequent": float(usual / len(truth)),
        "classes": per_class,
    }
