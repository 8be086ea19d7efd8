"""What a person may not have meant: labels that look like numbers to be told or like several in
one, and a tokenizer that knows next to none of the words."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from subquad.data.batches import Examples
from subquad.data.tokenizers import Tokenizer
from subquad.errors import UsageError

Classes = npt.NDArray[np.int64]

#: So many different numbers, in so large a part of the rows, are hardly classes.
NUMBERS, PART = 20, 0.1
#: What can stand between several labels in one cell.
SEPARATORS = ";|"
#: Tokens may be unknown up to this part.
UNKNOWN = 0.5


def about_labels(names: Sequence[str], rows: int, where: str) -> list[str]:
    """Notes on the classes ``names`` of so many rows.

    Raises:
        UsageError: they are numbers, another one in every row.
    """
    return list(filter(None, [_numbers(names, rows, where), _several(names)]))


def _numbers(names: Sequence[str], rows: int, where: str) -> str:
    values = [_value(name) for name in names]
    if len(names) <= NUMBERS or any(math.isnan(value) for value in values):
        return ""
    some = f"{', '.join(names[:3])}, …"
    if len(names) == rows:
        raise UsageError(
            f"{where}: the label of each of the {rows} rows is another number ({some}): did you "
            "mean --task regress, or another column (--label)?"
        )
    whole = all(value == int(value) for value in values)
    if whole and len(names) < PART * rows:
        return ""
    return (
        f"the labels are {len(names)} different numbers ({some}), each a class of its own here: "
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
        f"{len(found)} {'label looks' if one else 'labels look'} like several in one "
        f"({found[0]!r}): {'it' if one else 'each'} is a class of its own here; "
        f"--labels-separator '{_separator(found[0])}' takes {'it' if one else 'them'} apart"
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
    """That most of the tokens of these texts are unknown, in a sentence; "" if they are not."""
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
    what = f"{unknown / total:.0%} of the words of the {count} texts looked at are unknown"
    if total < 2 * count:
        what = f"nearly every text is one unknown word ({unknown} of {count} texts looked at)"
    return f"{what}: try --tokenizer chars, or bytes"
