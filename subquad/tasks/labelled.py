"""Reads labels, and hashes of the texts, in one pass over a file."""

from array import array
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from subquad.data.label_sets import LabelSets
from subquad.data.labels import Labels
from subquad.data.source import Source
from subquad.data.splits import Rows, repeated, split, text_hash
from subquad.data.targets import Target
from subquad.tasks.config import Config
from subquad.tasks.texts import refuse_none_left


@dataclass(frozen=True)
class Read:
    """The labels of a file, and hashes of its texts."""

    labels: Labels | LabelSets
    target: Target
    hashes: npt.NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def one(self) -> bool:
        """Whether each row has one class."""
        return isinstance(self.labels, Labels)

    def split(self, config: Config) -> tuple[Rows, Rows]:
        """Indices of training and held-out rows, stratified if each row has one class."""
        classes = self.target.values if self.one else None
        return split(len(self), config.data.validation, seed=config.training.seed, labels=classes)

    def repeated(self, train: Rows, held: Rows) -> str:
        """A warning if texts occur in both parts, otherwise ""."""
        count = repeated(self.hashes[train], self.hashes[held])
        return f"{count} of {len(held)} held-out texts also occur in training" if count else ""


def read_labels(source: Source, known: Labels | LabelSets | None = None) -> Read:
    """Read the labels of a source in one pass. ``known`` are the classes; if None, they are those
    that occur.

    Raises:
        SubquadError: a label is not one of ``known``, or all rows were skipped.
    """
    codes: dict[str, int] = {}
    coded, hashes = array("q"), array("Q")
    for record in source.records():
        assert record.label is not None
        if known is not None and record.label not in codes:
            known.index(record.label, source.place(record.row))
        coded.append(codes.setdefault(record.label, len(codes)))
        hashes.append(text_hash(record.text))
    if not codes:
        refuse_none_left(source)
    where, distinct = str(source.path), list(codes)
    labels = known
    if labels is None:
        labels = (Labels if source.chosen.cells is None else LabelSets).of(distinct, where)
    target = labels.target(distinct, np.frombuffer(coded, dtype=np.int64), where)
    return Read(labels, target, np.frombuffer(hashes, dtype=np.uint64))
