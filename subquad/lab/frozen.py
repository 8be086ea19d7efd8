"""Linear models on the vectors of a frozen body: what pretraining is worth without any tuning."""

from typing import Any

import numpy as np
import numpy.typing as npt

from subquad.data.targets import Classes, ClassSets, Numbers, Target

Vectors = npt.NDArray[np.float32]


def estimator(target: Target) -> Any:
    """What is fitted to vectors of length 1: logistic regression, one for each label of sets, or
    ridge regression for numbers."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.multiclass import OneVsRestClassifier

    logistic = LogisticRegression(max_iter=1000)
    if isinstance(target, Numbers):
        return Ridge()
    return OneVsRestClassifier(logistic) if isinstance(target, ClassSets) else logistic


def in_words(target: Target) -> str:
    """What ``estimator`` is."""
    if isinstance(target, Numbers):
        return "ridge regression"
    each = " for each label" if isinstance(target, ClassSets) else ""
    return f"logistic regression{each}"


def cross_validated(vectors: Vectors, target: Classes, folds: int) -> float:
    """Mean accuracy over stratified folds."""
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    split = StratifiedKFold(folds, shuffle=True, random_state=0)
    return float(cross_val_score(estimator(target), vectors, target.values, cv=split).mean())
