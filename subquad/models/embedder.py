"""A model without a head, for one vector per sequence."""

from typing import Any

from torch import nn

from subquad.models.config import ModelConfig
from subquad.models.model import Classifier


class Embedder(Classifier):
    """A ``Classifier`` without its last layer: returns the pooled vectors ``[b, d]``.

    Args:
        config: the architecture.
        given: as for ``Classifier``, without ``classes``.
    """

    def __init__(self, config: ModelConfig, **given: Any) -> None:
        super().__init__(config, classes=1, **given)
        self.head = nn.Identity()  # type: ignore[assignment]
