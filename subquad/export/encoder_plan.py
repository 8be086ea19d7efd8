"""A classifier as a page computes it: which layers in which order, and the weights of each."""

from typing import Any

from torch import Tensor, nn

from subquad.errors import UsageError
from subquad.export.payload import Precision, halved
from subquad.mixers import MIXERS, Mixer
from subquad.models import Classifier, ModelConfig
from subquad.models.block import Block
from subquad.models.embeddings import sinusoid_rates


def plan(model: Classifier, config: ModelConfig) -> dict[str, Any]:
    """The page's plan of ``model``.

    Raises:
        UsageError: the page does not implement a layer of it; it is named.
    """
    names = _names(model)
    made = []
    for i, block in enumerate(model.encoder.blocks):
        assert isinstance(block, Block)
        layer = block.mixer.page_layer()
        if layer is None:
            raise UsageError(
                f"layer {i} is {type(block.mixer).__name__}; a page has {_list(known())}: "
                "--to onnx exports it"
            )
        at = names[block.mixer]
        made.append(
            {
                "mixer": layer.kind,
                "options": layer.options | {"d": config.d},
                "parts": {part: f"{at}{name}" for part, name in layer.parts.items()},
                "at": names[block],
                "dense": config.mixer_dense,
            }
        )
    return {
        "layers": made,
        "d": config.d,
        "norm": config.norm,
        "eps": config.norm_eps,
        "gelu": config.gelu,
        "pooling": model.pooling,
        "cls": model.cls,
    }


def known() -> list[str]:
    """The mixers that a page has."""
    both = {name: entry.bidirectional for name, entry in MIXERS.items()}
    return [n for n, cls in both.items() if cls and cls.page_layer is not Mixer.page_layer]


def _list(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def weights(model: Classifier, precision: Precision) -> tuple[Classifier, list[Any], bytes]:
    """The model whose matrices hold what the page sees; for each tensor its name, rows, columns
    and whether it is f16; and their numbers, one after the other.

    Raises:
        UsageError: a precision that is not for classifiers; f16 cannot hold a weight.
    """
    if precision == "int8":
        raise UsageError("int8 is for pages that generate; a classifier's page holds f16 or f32")
    seen = halved(model) if precision == "f16" else model
    tensors: dict[str, Tensor] = dict(seen.named_parameters())  # what is shared, once
    if seen.encoder.embedding.kind == "sinusoidal":
        tensors["rates"] = sinusoid_rates(seen.head.in_features)
    listed, data = [], []
    for name, tensor in tensors.items():
        half = precision == "f16" and tensor.dim() == 2
        columns = tensor.shape[-1]
        listed.append([name, tensor.numel() // columns, columns, half])
        numbers = tensor.detach().half() if half else tensor.detach().float()
        data.append(numbers.contiguous().numpy().tobytes())
    return seen, listed, b"".join(data)


def _names(model: nn.Module) -> dict[nn.Module, str]:
    """Where each module stands, first; those with weights of their own are meant."""
    return {module: f"{name}." for name, module in model.named_modules()}
