"""Models built from mixers: embeddings, blocks, heads, and the state of a whole model."""

from subquad.models.config import ModelConfig
from subquad.models.embeddings import Embedding, Frames, FrontEnd
from subquad.models.model import CausalModel, Classifier, Encoder
from subquad.models.pretraining import Pretraining, TokenClassifier, choices
from subquad.models.state import ModelState

__all__ = [
    "CausalModel",
    "Classifier",
    "Embedding",
    "Encoder",
    "Frames",
    "FrontEnd",
    "ModelConfig",
    "ModelState",
    "Pretraining",
    "TokenClassifier",
    "choices",
]
