"""Everything that is not mixing: embeddings, blocks, heads, the state of a whole model."""

from subquad.models.config import ModelConfig
from subquad.models.model import CausalModel, Classifier, Encoder
from subquad.models.pretraining import Pretraining, TokenClassifier, choices
from subquad.models.state import ModelState

__all__ = [
    "CausalModel",
    "Classifier",
    "Encoder",
    "ModelConfig",
    "ModelState",
    "Pretraining",
    "TokenClassifier",
    "choices",
]
