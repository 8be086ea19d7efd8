"""Special tokens around texts: before, after, and between the two texts of a pair."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import tokenizers

Ids = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Frame:
    """The ids of the tokens around texts: ``before`` A ``after``, or ``before`` A ``between`` B
    ``after`` (BERT: [CLS] A [SEP] B [SEP]; RoBERTa: <s> A </s></s> B </s>)."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]

    @classmethod
    def of(cls, inner: tokenizers.Tokenizer) -> "Frame":
        """The frame of a tokenizer's own post-processor, found by encoding a pair of texts."""
        pair = inner.encode("a", "a", add_special_tokens=True)
        ids, special = pair.ids, pair.special_tokens_mask
        own = [i for i, s in enumerate(special) if not s]
        if not own:  # no token for "a": nothing shows where a text would be
            return cls((), (), ())
        between = [i for i in range(own[0], own[-1]) if special[i]]
        return cls(tuple(ids[: own[0]]), tuple(ids[i] for i in between), tuple(ids[own[-1] + 1 :]))

    def around(self, parts: Sequence[Ids], length: int | None) -> Ids:
        """One text, or two, with their special tokens; truncated to ``length`` tokens in all, the
        longest text first."""
        between = self.between if len(parts) > 1 else ()
        if length is not None:
            around = len(self.before) + len(between) + len(self.after)
            parts = trimmed(list(parts), max(length - around, 0))
        row = [np.array(self.before, dtype=np.int32), parts[0]]
        for part in parts[1:]:
            row += [np.array(between, dtype=np.int32), part]
        return np.concatenate([*row, np.array(self.after, dtype=np.int32)])


def trimmed(parts: list[Ids], room: int) -> list[Ids]:
    """The parts of a row, truncated to ``room`` tokens in all, the longest first."""
    sizes = [len(part) for part in parts]
    while sum(sizes) > room:
        over, longest = sum(sizes) - room, max(range(len(sizes)), key=lambda i: (sizes[i], i))
        rest = max((s for i, s in enumerate(sizes) if i != longest), default=0)
        sizes[longest] -= min(over, max(1, sizes[longest] - rest))
    return [part[:size] for part, size in zip(parts, sizes, strict=True)]
