"""Warnings about likely mistakes: labels that look like numbers to predict or like several labels
in one, and a tokenizer to which most words are unknown."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from subquad.data.batches import Examples
from subquad.data.tokenizers import Tokenizer
from subquad.errors import UsageError

Classes = npt.NDArray[np.int64]

#: More distinct numbers than this, in more than this fraction of rows, are unlikely to be classes.
NUMBERS, PART = 20, 0.1
#: Possible separators of several labels in one cell.
SEPARATORS = ";|"
#: The fraction of unknown tokens above which to warn.
UNKNOWN = 0.5


def about_labels(names: Sequence[str], rows: int, where: str) -> list[str]:
    """Notes on the classes ``names`` found in ``rows`` rows.

    Raises:
        UsageError: the labels are numbers, and all different.
    """
    return list(filter(None, [_numbers(names, rows, where), _several(names)]))


def _numbers(names: Sequence[str], rows: int, where: str) -> str:
    values = [_value(name) for name in names]
    if len(names) <= NUMBERS or any(math.isnan(value) for value in values):
        return ""
    some = f"{', '.join(names[:3])}, …"
    if len(names) == rows:
        raise UsageError(
            f"{where}: the labels of all {rows} rows are different numbers ({some}): did you mean "
            "--task regress, or another column (--label)?"
        )
    whole = all(value == int(value) for value in values)
    if whole and len(names) < PART * rows:
        return ""
    return (
        f"the labels are {len(names)} different numbers ({some}), and each is treated as a class: "
        "did you mean --task regress?"
    )


def _value(name: str) -> float:
    try:
        value = float(name)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def _several(names: Sequence[str]) -> str:
    split = {name: parts for name in names if (parts := _parts(name))}
    seen = Counter(part for parts in split.values() for part in parts)
    known = set(names)
    found = [n for n, parts in split.items() if any(p in known or seen[p] > 1 for p in parts)]
    if not found:
        return ""
    one = len(found) == 1
    return (
        f"{len(found)} {'label looks' if one else 'labels look'} like several labels in one "
        f"({found[0]!r}), but {'is' if one else 'each is'} treated as a single class; use "
        f"--labels-separator '{_separator(found[0])}' to split {'it' if one else 'them'}"
    )


def _separator(name: str) -> str:
    return next(s for s in SEPARATORS if s in name and _parts(name))


def _parts(name: str) -> set[str]:
    for separator in SEPARATORS:
        parts = {part.strip() for part in name.split(separator)}
        if len(parts) > 1 and "" not in parts:
            return parts
    return set()


def about_words(tokenizer: Tokenizer, examples: Examples) -> str:
    """A warning if most of the tokens of these texts are unknown, otherwise ""."""
    tokens, count = examples.tokens, len(examples)
    if tokenizer.unknown is None or not count:
        return ""
    others = sorted(tokenizer.specials() - {tokenizer.unknown})
    unknown = total = 0
    for row in range(count):
        unknown += int(np.count_nonzero(tokens[row] == tokenizer.unknown))
        total += int(np.isin(tokens[row], others, invert=True).sum())
    if unknown <= UNKNOWN * total:
        return ""
    what = f"{unknown / total:.0%} of the words in the {count} texts checked are unknown"
    if total < 2 * count:
        what = f"nearly every text is one unknown word ({unknown} of {count} texts checked)"
    return f"{what}: try --tokenizer chars, or bytes"
