"""What a family of ``transformers`` models is: its settings, the names of its tensors, its head."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from subquad.mixers import ATTENTION
from subquad.models.config import ModelConfig
from subquad.models.foreign.about import About
from subquad.models.foreign.names import Table
from subquad.models.model import Pooling


@dataclass(frozen=True)
class Shape:
    """An architecture with the sizes of its tables."""

    config: ModelConfig
    length: int
    """Learned positions, or the length that the model was trained for."""
    vocabulary: int


def _unchanged(tensors: Mapping[str, Tensor], shape: Shape) -> dict[str, Tensor]:  # noqa: ARG001
    return dict(tensors)


@dataclass(frozen=True, kw_only=True)
class Family:
    """One ``model_type``.

    Args:
        name: the ``model_type``.
        architecture: the class of transformers that reads what is saved here.
        prefix: precedes all names in models with a head, and is absent in bare ones.
        table: see ``names``.
        heads: beginnings of the names of heads, which are not part of the body.
        read: settings → shape; refuses what is not supported.
        settings: shape → settings, for saving.
        pooling: how a row is summarised unless the folder says otherwise.
        causal: whether it reads one way.
        mixers: those that its layers can have.
        coming, going: last changes to the tensors under our names, after reading and before saving.
    """

    name: str
    architecture: str
    prefix: str
    table: Table
    heads: tuple[str, ...]
    read: Callable[[About], Shape]
    settings: Callable[[Shape], dict[str, object]]
    pooling: Pooling = "mean"
    causal: bool = False
    mixers: tuple[str, ...] = (ATTENTION,)
    coming: Callable[[Mapping[str, Tensor], Shape], dict[str, Tensor]] = _unchanged
    going: Callable[[Mapping[str, Tensor], Shape], dict[str, Tensor]] = _unchanged
