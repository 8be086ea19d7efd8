"""A classifier as a page computes it: which layers in which order, and the weights of each."""

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from subquad.errors import UsageError
from subquad.export.payload import Precision, halved
from subquad.mixers.convolution import Convolution
from subquad.mixers.fastformer import Fastformer
from subquad.mixers.feature_maps import FEATURE_MAPS
from subquad.mixers.fnet import FNet
from subquad.mixers.linear import LinearAttention
from subquad.mixers.none import NoMixing
from subquad.models import Classifier, ModelConfig
from subquad.models.block import Block
from subquad.models.embeddings import sinusoid_rates

#: One name for what a page cannot do, and the way out.
_HAS = "a page has fnet, linear, fastformer, convolution and none: --to onnx exports it"

#: A mixer's options, and the weights it has, by the names that the page's code gives them.
Parts = tuple[dict[str, Any], dict[str, str]]


def plan(model: Classifier, config: ModelConfig) -> dict[str, Any]:
    """The page's plan of ``model``.

    Raises:
        UsageError: the page does not implement a layer of it; it is named.
    """
    names = _names(model)
    made = []
    for i, block in enumerate(model.encoder.blocks):
        assert isinstance(block, Block)
        mixer: nn.Module = block.mixer
        if type(mixer) not in _KINDS:
            raise UsageError(f"layer {i} is {type(mixer).__name__}; {_HAS}")
        kind, describe = _KINDS[type(mixer)]
        options, parts = describe(mixer)
        at = names[mixer]
        made.append(
            {
                "mixer": kind,
                "options": options | {"d": config.d},
                "parts": {part: f"{at}{name}" for part, name in parts.items()},
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


def _nothing(_: Any) -> Parts:
    return {}, {}


def _fnet(mixer: FNet) -> Parts:
    if mixer.fixed_length is not None:
        raise UsageError("fnet transforms at one fixed length (padding=fixed); " + _OWN)
    if mixer.transform != "fourier":
        raise UsageError(f"fnet has transform={mixer.transform}; " + _OWN)
    return {}, {}


_OWN = "a page has the Fourier transform at a text's own length: --to onnx exports it"


def _linear(mixer: LinearAttention) -> Parts:
    names = {phi: name for name, phi in FEATURE_MAPS.items()}
    options = {"heads": mixer.projections.heads, "map": names[mixer.phi]}
    return options, {"qkv": "projections.qkv", "out": "projections.out"}


def _fastformer(mixer: Fastformer) -> Parts:
    heads, d = mixer.score_q.out_features, mixer.transform.out_features
    switches = {
        "columns": mixer.columns == 2,
        "query_residual": mixer.query_residual,
        "value": not mixer.own_value,
        "interaction": mixer.interaction == "product",
        "score_over": not mixer.own_head,
        "scale": mixer.scale == math.sqrt(d // heads),
    }
    changed = [name for name, usual in switches.items() if not usual]
    if changed:
        raise UsageError(
            f"fastformer has {' and '.join(changed)} changed; a page has it as released: "
            "--to onnx exports it"
        )
    return {"heads": heads}, {name: name for name in ("qk", "score_q", "score_k", "transform")}


def _convolution(_: Convolution) -> Parts:
    return {}, {"taps": ""}


_KINDS: dict[type[nn.Module], tuple[str, Callable[[Any], Parts]]] = {
    FNet: ("fnet", _fnet),
    LinearAttention: ("linear", _linear),
    Fastformer: ("fastformer", _fastformer),
    Convolution: ("convolution", _convolution),
    NoMixing: ("none", _nothing),
}
