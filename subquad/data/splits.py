"""Training and held-out rows: deterministic, and stratified where there are classes."""

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]


def split(
    n: int, held_out: float, *, seed: int, labels: npt.NDArray[np.int64] | None = None
) -> tuple[Rows, Rows]:
    """Row numbers (training, held out), each sorted. A class of one row stays in training."""
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
