"""A model without a head, for one vector per sequence."""

from torch import nn

from subquad.models.config import ModelConfig
from subquad.models.model import Classifier, Pooling


class Embedder(Classifier):
    """A ``Classifier`` without its last layer: returns the pooled vectors ``[b, d]``.

    Args:
        config: the architecture.
        vocabulary, length, pooling: as for ``Classifier``.
    """

    def __init__(
        self, config: ModelConfig, *, vocabulary: int, length: int, pooling: Pooling = "mean"
    ) -> None:
        super().__init__(config, classes=1, vocabulary=vocabulary, length=length, pooling=pooling)
        self.head = nn.Identity()  # type: ignore[assignment]
