"""What a conversion does to the quality on labelled rows."""

from dataclasses import dataclass

import numpy as np

from subquad.data.targets import Classes
from subquad.errors import UsageError
from subquad.lab.frozen import cross_validated
from subquad.run import Run
from subquad.tasks.embed import Embed

FOLDS = 5


@dataclass(frozen=True)
class Quality:
    """A model's figure on labelled rows."""

    what: str
    value: float
    rows: int


def quality(run: Run, test: str) -> Quality:
    """On the labelled rows of ``test``: the task's own figure, or, where the model has no head, the
    accuracy of a logistic regression on its vectors in cross-validation.

    Raises:
        UsageError: a class with too few rows for that.
        SubquadError: the file cannot be read.
    """
    if run.config.task != Embed.name:
        key, found = run.task.score.name, run.evaluate(test)
        return Quality(key.replace("_", " "), float(found[key]), int(found["examples"]))
    texts, target = labelled(run, test)
    if (least := int(np.bincount(target.values).min())) < FOLDS:
        raise UsageError(
            f"--test {test}: a class has {least} rows; {FOLDS} or more of each are needed"
        )
    what = f"accuracy of logistic regression on the vectors, {FOLDS}-fold cross-validation"
    return Quality(what, cross_validated(run.embed(texts), target, FOLDS), len(texts))


def labelled(run: Run, path: str) -> tuple[list[str], Classes]:
    """The texts and labels of a file, read as for classification."""
    from subquad.data.source import open_source

    found = open_source(path, run.config.data.reading(), labelled=True)
    records = list(found.records())
    names = sorted({str(record.label) for record in records})
    place = {name: i for i, name in enumerate(names)}
    values = np.array([place[str(record.label)] for record in records], dtype=np.int64)
    return [record.text for record in records], Classes(values)
