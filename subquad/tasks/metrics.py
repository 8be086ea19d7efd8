"""Metrics of classification, the majority floor always among them."""

from typing import Any

import numpy as np
import numpy.typing as npt

from subquad.data.labels import Labels

Classes = npt.NDArray[np.int64]


def confusion(truth: Classes, guess: Classes, classes: int) -> npt.NDArray[np.int64]:
    """Counts ``[truth, guess]``."""
    return np.bincount(truth * classes + guess, minlength=classes**2).reshape(classes, classes)


def classification(table: npt.NDArray[np.int64], labels: Labels) -> dict[str, Any]:
    """Accuracy, macro-F1, the majority floor, per-class scores and the confusion matrix, from the
    counts ``table`` ``[truth, guess]``.

    A class that never occurs and is never guessed has F1 0, as in scikit-learn's
    ``zero_division=0``; macro-F1 is the mean over the classes that occur in either.
    """
    n = int(table.sum())
    right, true, guessed = np.diag(table), table.sum(1), table.sum(0)
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
        "confusion": table.tolist(),
    }
