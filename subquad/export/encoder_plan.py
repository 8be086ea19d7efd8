"""A description of a classifier for a page: its layers in order, and the weights of each."""

from typing import Any

from torch import Tensor, nn

from subquad.errors import UsageError
from subquad.export.payload import Precision, halved
from subquad.mixers import MIXERS, Mixer
from subquad.models import Classifier, ModelConfig
from subquad.models.block import Block
from subquad.models.embeddings import sinusoid_rates


def plan(model: Classifier, config: ModelConfig) -> dict[str, Any]:
    """The description of ``model`` for the page, as JSON-serialisable data.

    Raises:
        UsageError: pages do not support one of its layers, which the message names.
    """
    _refuse_beyond(config)
    names = _names(model)
    made = []
    for i, block in enumerate(model.encoder.blocks):
        assert isinstance(block, Block)
        layer = block.mixer.page_layer()
        if layer is None:
            raise UsageError(
                f"layer {i} is {type(block.mixer).__name__}, but pages only support "
                f"{_list(known())}: use --to onnx"
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


def _refuse_beyond(config: ModelConfig) -> None:
    """Refuse what the page's code does not have."""
    usual = {"glu": False, "rms": False, "biases": True, "embedding_norm": False}
    found = [name for name, value in usual.items() if getattr(config, name) != value]
    found += [] if config.gelu in ("tanh", "exact") else ["gelu"]
    if found:
        raise UsageError(f"pages do not support these options of its model: {_list(found)}")


def known() -> list[str]:
    """The names of the mixers that pages support."""
    both = {name: entry.bidirectional for name, entry in MIXERS.items()}
    return [n for n, cls in both.items() if cls and cls.page_layer is not Mixer.page_layer]


def _list(names: list[str]) -> str:
    return " and ".join([*([", ".join(names[:-1])] if names[:-1] else []), names[-1]])


def weights(model: Classifier, precision: Precision) -> tuple[Classifier, list[Any], bytes]:
    """The weights of ``model`` for a page.

    Returns:
        The model with the rounded weights that the page uses; for each tensor its name, rows,
        columns and whether it is stored as f16; and the data of all tensors, concatenated.

    Raises:
        UsageError: the precision is not available for classifiers, or a weight is too large for
            f16.
    """
    if precision == "int8":
        raise UsageError("int8 is only for pages that generate: use --weights f16 or f32")
    seen = halved(model) if precision == "f16" else model
    tensors: dict[str, Tensor] = dict(seen.named_parameters())  # lists shared weights only once
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
    """The first name of each module, as a prefix of the names of its weights."""
    return {module: f"{name}." for name, module in model.named_modules()}
