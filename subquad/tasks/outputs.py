"""What a run makes, as plain data: generation, pages and graphs go by these kinds and know no task.

A task from outside that answers with one of them is served as the tasks here are.
"""

import math
from dataclasses import dataclass

from subquad.data.tokenizers import Tokenizer


@dataclass(frozen=True)
class TextOutput:
    """Texts, written token by token."""

    tokenizer: Tokenizer
    start: int
    """The token that stands before every text, and ends it when it is predicted."""


@dataclass(frozen=True)
class PictureOutput:
    """Pictures, drawn pixel by pixel in raster order."""

    shape: tuple[int, ...]
    """Height, width, and channels if there are any."""
    levels: int
    """Values of a pixel run from 0 to ``levels - 1``."""
    start: int
    """The token that stands before the first pixel."""
    mixture: int = 0
    """Logistics whose mixture gives a pixel's value; 0 = a probability for each level."""

    @property
    def length(self) -> int:
        """Pixels (of a coloured picture: sub-pixels) of each picture."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class ClassOutput:
    """A class for each text."""

    tokenizer: Tokenizer
    classes: tuple[str, ...]
    temperature: float = 1.0
    """The probabilities are a softmax over the logits divided by it."""


#: What can be generated.
Generated = TextOutput | PictureOutput
#: What a page can show.
Shown = TextOutput | PictureOutput | ClassOutput
