"""Makes a task that needs the order of words: were two neighbouring words of a text exchanged?"""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np

from subquad.data.source import ReadOptions, open_source
from subquad.errors import SubquadError
from subquad.storage import write_text

#: Texts with fewer words are left out: in a short phrase an exchange is often grammatical too.
LEAST = 8
LABELS = ("as written", "exchanged")


def write(given: str, made: Path, seed: int) -> None:
    """Write one row per usable text of ``given``, half of them with two neighbouring words
    exchanged that differ. Labels of ``given`` are not read.

    Raises:
        SubquadError: no text is long enough.
    """
    random = np.random.default_rng(seed)
    lines = []
    for record in open_source(given, ReadOptions(), labelled=False).records():
        words = record.text.split()
        places = [i for i, pair in enumerate(pairwise(words)) if _differ(*pair)]
        if len(words) < LEAST or not places:
            continue
        label = int(random.integers(2))
        if label:
            i = places[int(random.integers(len(places)))]
            words[i], words[i + 1] = words[i + 1], words[i]
        lines.append(json.dumps({"text": " ".join(words), "label": LABELS[label]}))
    if not lines:
        raise SubquadError(f"{given} has no text of {LEAST} words or more")
    write_text(made, "".join(f"{line}\n" for line in lines))


def _differ(a: str, b: str) -> bool:
    return a.lower() != b.lower()
