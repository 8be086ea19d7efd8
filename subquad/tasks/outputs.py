"""The kinds of outputs of a run, as plain data, so that generation and exports need to know nothing
about tasks: they work with any task, including external ones, that returns one of these.
"""

import math
from dataclasses import dataclass

from subquad.data.tokenizers import Tokenizer


@dataclass(frozen=True)
class TextOutput:
    """Texts, generated token by token."""

    tokenizer: Tokenizer
    start: int
    """The token before every text."""
    end: int
    """The token that ends a text when it is predicted: usually ``start``."""


@dataclass(frozen=True)
class PictureOutput:
    """Images, generated pixel by pixel in raster order."""

    shape: tuple[int, ...]
    """Height, width, and channels if there are any."""
    levels: int
    """Values of a pixel run from 0 to ``levels - 1``."""
    start: int
    """The token before the first pixel."""
    mixture: int = 0
    """Components of the mixture of logistics that predicts pixel values; 0 for a softmax."""

    @property
    def length(self) -> int:
        """Number of values per image: pixels times channels."""
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
#: What an exported page can show.
Shown = TextOutput | PictureOutput | ClassOutput
