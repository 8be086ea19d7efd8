"""Training and held-out rows: deterministic, and stratified where there are classes."""

from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from subquad.errors import UsageError

Rows = npt.NDArray[np.int64]


def split(
    n: int, held_out: float, *, seed: int, labels: npt.NDArray[np.int64] | None = None
) -> tuple[Rows, Rows]:
    """Row numbers (training, held out), each sorted. A class of one row stays in training.

    Raises:
        UsageError: ``held_out`` is not a share, 0 <= share < 1.
    """
    if not 0 <= held_out < 1:
        raise UsageError(f"the held-out share is {held_out}; it must be at least 0 and below 1")
    random = np.random.default_rng(seed)
    groups = (
        [np.arange(n)]
        if labels is None
        else [np.flatnonzero(labels == c) for c in np.unique(labels)]
    )
    held = []
    for group in groups:
        count = min(round(len(group) * held_out), len(group) - 1)
        held.append(random.permutation(group)[:count])
    out = np.sort(np.concatenate(held)) if held else np.zeros(0, dtype=np.int64)
    return np.setdiff1d(np.arange(n), out), out


def text_hash(text: str) -> int:
    """Equal for equal texts, white space around them aside: eight bytes, whatever the length."""
    return int.from_bytes(blake2b(text.strip().encode(), digest_size=8).digest())


def repeated(train: npt.NDArray[np.uint64], other: npt.NDArray[np.uint64]) -> int:
    """How many of the ``other`` hashes are in ``train`` too."""
    return int(np.isin(other, train).sum())
