"""Rows of BERT's kind out of running text: segments, their order, and tokens to be guessed.

A document is cut into rows that cover it whole and are equally long but for one token; no row
crosses from one document into the next. Each time a row is seen it is split anew in two segments
and masked anew: what is drawn is a function of (seed, epoch, row), so it is the same in any batch,
with any number of workers, and after a resume; outside training it is always the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from subquad.data.batches import Batch, Examples
from subquad.data.ragged import Ragged
from subquad.data.targets import Documents
from subquad.data.tokenizers import CLS, MASK, SEP, Tokenizer
from subquad.errors import SubquadError

Pairs = Literal["order", "next", "none"]
Ids = npt.NDArray[np.int64]

#: Of the tokens to be guessed, those replaced by [MASK], and by any token; the rest stay.
MASKED, REPLACED = 0.8, 0.1
#: Outside training, in place of (seed, epoch).
STILL = (0x6D61736B, 0)


@dataclass(frozen=True)
class Specials:
    """The ids that frame a row, and ``ordinary``: all that text can encode to."""

    cls: int
    sep: int
    mask: int
    pad: int
    ordinary: Ids

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "Specials":
        """
        Raises:
            SubquadError: the tokenizer lacks one; it is named.
        """
        found = {name: tokenizer.special(name) for name in (CLS, SEP, MASK)}
        if missing := [name for name, i in found.items() if i is None]:
            raise SubquadError(f"the tokenizer has no {', '.join(missing)}")
        pad = tokenizer.special("<pad>", "[PAD]")
        special = tokenizer.specials() | {i for i in found.values() if i is not None}
        ordinary = np.setdiff1d(sorted(tokenizer.ids()), sorted(special))
        ids: Any = found
        return cls(ids[CLS], ids[SEP], ids[MASK], 0 if pad is None else pad, ordinary)


def rows_of(documents: Ragged, room: int) -> Examples:
    """Every document cut into the fewest rows of at most ``room`` tokens, all of a length but for
    one token; each row knows its document's number. Documents of one token are left out."""
    lengths = documents.lengths
    counts = np.where(lengths > 1, -(-lengths // room), 0)
    owner = np.repeat(np.arange(len(lengths)), counts)
    first = np.cumsum(counts) - counts
    nth = np.arange(len(owner)) - first[owner]
    base, longer = lengths[owner] // counts[owner], lengths[owner] % counts[owner]
    size = base + (nth < longer)
    start = np.asarray(documents.offsets)[owner] + nth * base + np.minimum(nth, longer)
    # Offsets tile the values, so a document left out is a row that is not looked at.
    bounds = np.union1d(np.union1d(start, start + size), [0, len(documents.values)])
    tiles = Ragged(documents.values, bounds.astype(np.int64))
    return Examples(tiles.view(np.searchsorted(bounds, start)), Documents(owner.astype(np.int64)))


@dataclass(frozen=True)
class Masked:
    """A batch to be read and guessed."""

    tokens: Tensor
    mask: Tensor
    types: Tensor
    places: Tensor
    """Where the tokens to be guessed are, in the flattened batch ``[m]``."""
    targets: Tensor
    """What they were ``[m]``."""
    weights: Tensor
    """1 / number of guesses in the row of each ``[m]``."""
    order: Tensor | None
    """1: the second segment does not follow the first ``[b]``; None without segments."""

    def to(self, device: torch.device | str) -> "Masked":
        parts = {name: None if t is None else t.to(device) for name, t in vars(self).items()}
        return Masked(**parts)  # type: ignore[arg-type]


def masked(batch: Batch, specials: Specials, *, rate: float, pairs: Pairs) -> Masked:
    """Segments, their order and masks for a batch of ``rows_of``."""
    tokens, real = batch.tokens.cpu().numpy(), batch.mask.cpu().numpy()
    rows = [tokens[i, real[i]] for i in range(len(tokens))]
    randoms = [np.random.default_rng([*(batch.draw or STILL), row]) for row in batch.rows]
    documents = None if batch.target is None else batch.answers(Documents).cpu().numpy()
    made, order = _segments(rows, documents, randoms, pairs)
    width = max(sum(map(len, segments)) + len(segments) + 1 for segments in made)
    read = np.full((len(made), width), specials.pad, dtype=np.int64)
    mask, types = np.zeros((len(made), width), dtype=np.bool_), np.zeros_like(read)
    places, targets, weights = [], [], []
    for i, (segments, random) in enumerate(zip(made, randoms, strict=True)):
        parts = [np.array([specials.cls])]
        for segment in segments:
            parts += [segment, np.array([specials.sep])]
        row = np.concatenate(parts)
        types[i, 2 + len(segments[0]) : len(row)] = 1
        mask[i, : len(row)] = True
        where, was = _hide(row, specials, rate, random)
        read[i, : len(row)] = row
        places.append(where + i * width)
        targets.append(was)
        weights.append(np.full(len(where), 1 / max(len(where), 1), dtype=np.float32))
    return Masked(
        tokens=torch.from_numpy(read),
        mask=torch.from_numpy(mask),
        types=torch.from_numpy(types),
        places=torch.from_numpy(np.concatenate(places)),
        targets=torch.from_numpy(np.concatenate(targets)),
        weights=torch.from_numpy(np.concatenate(weights)),
        order=None if pairs == "none" else torch.from_numpy(order),
    )


def _segments(
    rows: Sequence[Ids], documents: Ids | None, randoms: Sequence[Any], pairs: Pairs
) -> tuple[list[list[Ids]], Ids]:
    """The segments of each row, and whether the second does not follow the first. ``next`` takes
    the second segment of another document of the batch, where there is one."""
    if pairs == "none":
        return [[row] for row in rows], np.zeros(len(rows), dtype=np.int64)
    made, order = [], np.zeros(len(rows), dtype=np.int64)
    for row, random in zip(rows, randoms, strict=True):
        quarter = max(1, len(row) // 4)
        cut = int(random.integers(quarter, max(quarter, len(row) - quarter) + 1))
        cut = min(cut, len(row) - 1)
        made.append([row[:cut], row[cut:]])
    halves = [segments[1] for segments in made]
    for i, random in enumerate(randoms):
        if random.random() < 0.5:
            continue
        if pairs == "order":
            made[i].reverse()
            order[i] = 1
            continue
        assert documents is not None
        others = np.flatnonzero(documents != documents[i])
        if len(others):
            room = len(halves[i])
            made[i][1] = halves[random.choice(others)][:room]
            order[i] = 1
    return made, order


def _hide(row: Ids, specials: Specials, rate: float, random: Any) -> tuple[Ids, Ids]:
    """Change ``row`` where a token is to be guessed; (where, what it was)."""
    ordinary = np.flatnonzero(np.isin(row, specials.ordinary))
    count = min(len(ordinary), max(1, round(rate * len(ordinary))))
    where = np.sort(random.choice(ordinary, count, replace=False))
    was = row[where].copy()
    chance = random.random(count)
    row[where[chance < MASKED]] = specials.mask
    any_token = where[(chance >= MASKED) & (chance < MASKED + REPLACED)]
    row[any_token] = random.choice(specials.ordinary, len(any_token))
    return where, was
