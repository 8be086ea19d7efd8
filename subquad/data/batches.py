"""Examples → batches. Which rows meet in which batch is a function of (seed, epoch) alone, so that
a resumed run sees what the unbroken one would have seen."""

import hashlib
import math
import signal
import warnings
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from subquad.data.ragged import Ragged
from subquad.data.targets import Target

#: Batches whose rows are sorted by length together: enough to make padding small, few enough that
#: batches stay random.
POOL = 50


@dataclass(frozen=True)
class Examples:
    """What a task learns from: ``inputs``, rows of tokens or of frames, and their ``target``."""

    inputs: Ragged
    target: Target | None = None
    bytes: int | None = None
    """Size of the text behind the rows, where the measure is bits per byte."""

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def tokens(self) -> Ragged:
        """The rows, which are of tokens."""
        assert not self.inputs.width, "these rows are of frames"
        return self.inputs

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens or frames of each row."""
        return self.inputs.lengths

    def answers(self, kind: type[Target]) -> Any:
        """The values of the target, which is of this kind."""
        assert isinstance(self.target, kind), f"the target is {self.target}, not {kind.__name__}"
        return self.target.values

    def select(self, rows: npt.NDArray[np.integer]) -> "Examples":
        target = None if self.target is None else self.target.select(rows)
        return Examples(self.inputs.select(rows), target)

    def fingerprint(self) -> str:
        """Changes with any input or answer: a resumed run cannot quietly learn something else."""
        digest = hashlib.sha256()
        for row in range(len(self)):
            values = self.inputs[row]
            digest.update(np.int64(len(values)).tobytes() + np.ascontiguousarray(values).tobytes())
        if self.target is not None:
            for part in self.target.bytes():
                digest.update(part)
        return digest.hexdigest()

    def view(self, rows: npt.NDArray[np.integer]) -> "Examples":
        """The same rows without a copy of the inputs: for what is larger than memory."""
        target = None if self.target is None else self.target.select(rows)
        return Examples(self.inputs.view(rows), target)


@dataclass(frozen=True)
class TokenInput:
    """``ids`` int64 ``[b, t]``, ``mask`` bool ``[b, t]`` (True = a real token)."""

    ids: Tensor
    mask: Tensor


@dataclass(frozen=True)
class FrameInput:
    """``values`` float32 ``[b, t, f]``, ``mask`` bool ``[b, t]`` (True = a real frame)."""

    values: Tensor
    mask: Tensor


@dataclass(frozen=True)
class Batch:
    """Rows that are read together: ``inputs``; ``target`` or None; ``rows``: where each came from;
    ``draw``: (seed, epoch) for what a task draws anew each time, None outside training."""

    inputs: TokenInput | FrameInput
    target: Target | None
    rows: tuple[int, ...]
    draw: tuple[int, int] | None = None

    @property
    def tokens(self) -> Tensor:
        """The ids of the tokens, ``[b, t]``."""
        assert isinstance(self.inputs, TokenInput), "these rows are of frames"
        return self.inputs.ids

    @property
    def frames(self) -> Tensor:
        """The frames, ``[b, t, f]``."""
        assert isinstance(self.inputs, FrameInput), "these rows are of tokens"
        return self.inputs.values

    @property
    def mask(self) -> Tensor:
        """True where a token or frame is real, ``[b, t]``."""
        return self.inputs.mask

    def answers(self, kind: type[Target]) -> Tensor:
        """The values of the target, which is of this kind."""
        assert isinstance(self.target, kind), f"the target is {self.target}, not {kind.__name__}"
        values: Tensor = self.target.values
        return values

    def to(self, device: torch.device | str) -> "Batch":
        parts = {name: part.to(device) for name, part in vars(self.inputs).items()}
        target = None if self.target is None else self.target.to(device)
        return replace(self, inputs=type(self.inputs)(**parts), target=target)


def collate(examples: Examples, rows: npt.NDArray[np.integer]) -> Batch:
    """Pad these rows on the right to the longest of them."""
    picked = [examples.inputs[int(row)] for row in rows]
    t, width = max(1, max((len(row) for row in picked), default=1)), examples.inputs.width
    size = (len(picked), t, width) if width else (len(picked), t)
    values = np.zeros(size, dtype=np.float32 if width else np.int64)
    mask = np.zeros((len(picked), t), dtype=np.bool_)
    for i, row in enumerate(picked):
        values[i, : len(row)] = row
        mask[i, : len(row)] = True
    kind = FrameInput if width else TokenInput
    inputs = kind(torch.from_numpy(values), torch.from_numpy(mask))
    target = None if examples.target is None else examples.target.batch(rows)
    return Batch(inputs, target, tuple(map(int, rows)))


def epoch_batches(
    lengths: npt.NDArray[np.int64], size: int, *, seed: int, epoch: int
) -> list[npt.NDArray[np.int64]]:
    """Row numbers of every batch of an epoch: shuffled, then sorted by length inside pools, then
    the batches shuffled. Each row appears once."""
    random = np.random.default_rng([seed, epoch])
    order = random.permutation(len(lengths))
    batches = []
    for start in range(0, len(order), size * POOL):
        pool = order[start : start + size * POOL]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        batches += [pool[i : i + size] for i in range(0, len(pool), size)]
    return [batches[i] for i in random.permutation(len(batches))]


def sorted_batches(
    lengths: npt.NDArray[np.int64], rows: int, tokens: int
) -> list[npt.NDArray[np.int64]]:
    """Row numbers of batches for evaluation: by length, so that padding is least; at most ``rows``
    in each, and at most ``tokens`` with their padding, but always one row."""
    order = np.argsort(lengths, kind="stable")
    made, begin = [], 0
    while begin < len(order):
        longest = lengths[order[begin : begin + rows]]
        fits = int(((np.arange(len(longest)) + 1) * longest <= tokens).sum())
        made.append(order[begin : begin + max(fits, 1)])
        begin += len(made[-1])
    return made


def batches(
    examples: Examples,
    plan: Sequence[npt.NDArray[np.integer]],
    workers: int = 0,
    *,
    start_method: str | None = None,
) -> Iterator[Batch]:
    """The planned batches in order; the same ones whatever the number of worker processes, and
    torch's random state is left alone. ``start_method`` is multiprocessing's, None its default.
    """
    if workers == 0:
        return (collate(examples, rows) for rows in plan)
    with warnings.catch_warnings():
        # More workers than processors is the caller's choice.
        warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)
        loader = DataLoader(
            _Planned(examples, plan),
            batch_size=None,
            num_workers=workers,
            collate_fn=_as_is,
            worker_init_fn=_undisturbed,
            multiprocessing_context=start_method,
            generator=torch.Generator().manual_seed(0),  # else one is drawn from torch's own
        )
        return iter(loader)


def endless(
    examples: Examples, size: int, *, accumulate: int = 1, seed: int, done: int, workers: int
) -> Generator[list[Batch]]:
    """The batches of every training step after the first ``done``, epoch after epoch, for ever.

    The rows of a step are planned as one batch of ``size`` · ``accumulate`` and then cut into
    batches of ``size``: which rows meet in a step does not depend on how it is cut.
    """
    lengths, rows = examples.lengths, size * accumulate
    epoch, place = divmod(done, math.ceil(len(examples) / rows))
    while True:
        plan = epoch_batches(lengths, rows, seed=seed, epoch=epoch)[place:]
        cut = [[step[i : i + size] for i in range(0, len(step), size)] for step in plan]
        made = batches(examples, [part for step in cut for part in step], workers)
        for step in cut:
            yield [replace(next(made), draw=(seed, epoch)) for _ in step]
        epoch, place = epoch + 1, 0


class _Planned(Dataset[Batch]):
    """Batch i of a plan; can be sent to another process."""

    def __init__(self, examples: Examples, plan: Sequence[npt.NDArray[np.integer]]) -> None:
        self.examples = examples
        self.plan = plan

    def __len__(self) -> int:
        return len(self.plan)

    def __getitem__(self, i: int) -> Batch:
        return collate(self.examples, self.plan[i])


def _undisturbed(_: int) -> None:
    """A signal to the whole group is the main process's to answer: it saves, then ends us."""
    for which in (signal.SIGINT, signal.SIGTERM):
        signal.signal(which, signal.SIG_IGN)


def _as_is(batch: Any) -> Any:
    return batch
