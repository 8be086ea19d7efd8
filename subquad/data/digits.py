"""scikit-learn's 1,797 handwritten digits, 8×8 pixels of 17 grey levels: built in, offline."""

from pathlib import Path

import numpy as np

from subquad.data.batches import Examples
from subquad.data.ragged import Ragged
from subquad.data.targets import Classes

NAME = "digits"
SHAPE = (8, 8)
LEVELS = 17


def load() -> Examples:
    """Every digit as a row of 64 pixel values 0..16, with its class 0..9."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    tokens = Ragged.of(pixels.astype(np.int32))
    return Examples(tokens, Classes(labels.astype(np.int64)))


def also_here() -> str:
    """That a file or folder of one's own has the name of the built-in set, in a sentence; "" if
    there is none."""
    if not Path(NAME).exists():
        return ""
    return f"{NAME} is the built-in set; the one in this folder is read as ./{NAME}"
