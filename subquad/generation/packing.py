"""Packs a causal model into the block of bytes that the step engine reads, here and on a web page.

``kernels/csrc/model.h`` defines the order of the tensors, which this file follows.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, cast

import torch
from einops import rearrange
from torch import Tensor, nn

from subquad.errors import UsageError
from subquad.mixers import MIXERS, CausalMixer
from subquad.mixers.capabilities import EngineLayer
from subquad.models import CausalModel
from subquad.models.block import Block
from subquad.models.embeddings import sinusoid_rates
from subquad.models.gelu import tanh_gelu
from subquad.models.shared_levels import settle

Weights = Literal["fp32", "bf16", "int8"]
_WEIGHTS = {"fp32": 0, "bf16": 1, "int8": 2}
_POSITIONS = {"none": 0, "learned": 1, "sinusoidal": 2}
#: Rows are padded with zeros to a multiple of this many elements.
ROW = 16
#: Height of the tiles in which matrices are stored; their width is ``ROW``.
TALL = 8
#: Tensors begin at multiples of this many bytes.
ALIGNED = 64
#: Largest int8 weight.
LARGEST = 127


@dataclass(frozen=True)
class Packed:
    """A packed model."""

    spec: tuple[int | float, ...]
    """The fields of ``Spec`` in ``model.h``, in order."""
    block: Tensor
    """The weights as uint8; the first byte is aligned to ``ALIGNED``."""
    layers: tuple[EngineLayer, ...]
    """The mixers, which know the layout of their states."""


def unsupported(model: nn.Module) -> str | None:
    """The reason why the step engine cannot run ``model``, or None if it can."""
    if not isinstance(model, CausalModel):
        return "it is not a causal model"
    if model.embedding.projection is not None:
        return "its embeddings are projected (projection), which the engine does not support"
    for block in model.blocks:
        assert isinstance(block, Block)
        if block.ff.glu or block.ff.inner.bias is None:
            return "its feed-forward networks are gated or have no biases (glu, biases)"
        if not all(isinstance(n, nn.LayerNorm) for n in (block.norm_mixer, block.norm_ff)):
            return "it has other norms than layer norm in every block (rms, embedding_norm)"
        if not isinstance(block.dense, nn.Identity):
            return (
                "it has a linear map after the mixer (mixer_dense), which the engine does not "
                "support"
            )
        if block.ff.gelu is not tanh_gelu:
            return "it has another activation (gelu) than GELU's tanh approximation"
    if any(p.dtype != torch.float32 for p in model.parameters()):
        return "its weights are not fp32"
    return _unsupported_layer(model)


def _unsupported_layer(model: CausalModel) -> str | None:
    """The reason why the engine cannot run the mixers, or None if it can."""
    found: dict[tuple[str, str], int] = {}
    above = False
    for i, mixer in enumerate(_mixers(model)):
        name = type(mixer).__name__
        try:
            layer = mixer.engine_layer()
        except UsageError as refusal:
            return f"layer {i} is {name}; {refusal}"
        if layer is None:
            return f"layer {i} is {name}; the engine supports {', '.join(known())}"
        if above and layer.kind == "local":
            return (
                f"layer {i}, {name}, is above another kind of layer; the engine needs such layers "
                "at the bottom"
            )
        above = above or layer.kind != "local"
        for setting, value in layer.settings().items():
            first = found.setdefault((layer.kind, setting), value)
            if first != value:
                return (
                    f"its layers differ in {setting} ({first}, but {value} in layer {i}); the "
                    "engine needs the same in all of them"
                )
    return None


def known() -> list[str]:
    """The names of the mixers that the engine supports."""
    causal = {name: entry.causal for name, entry in MIXERS.items()}
    return [n for n, c in causal.items() if c and c.engine_layer is not CausalMixer.engine_layer]


def _mixers(model: CausalModel) -> list[CausalMixer]:
    return [cast(CausalMixer, cast(Block, block).mixer) for block in model.blocks]


def engine_layers(model: CausalModel) -> tuple[EngineLayer, ...]:
    """The mixers of a supported model as engine layers."""
    layers = [mixer.engine_layer() for mixer in _mixers(model)]
    return tuple(layer for layer in layers if layer is not None)


def quantise(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise a matrix to int8; return it with the scale of each row, which maps the row's largest
    element to ±127."""
    scale = weight.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny) / LARGEST
    return (weight / scale.unsqueeze(1)).round().to(torch.int8), scale


def rounded(weight: Tensor, weights: Weights) -> Tensor:
    """The matrix that the engine effectively uses, in fp32."""
    if weights == "bf16":
        return weight.bfloat16().float()
    if weights == "int8":
        whole, scale = quantise(weight)
        return whole.float() * scale.unsqueeze(1)
    return weight


def rounded_model(model: CausalModel, weights: Weights) -> CausalModel:
    """A copy of ``model`` with the matrices that the engine effectively uses; for fp32, the model
    itself."""
    if weights == "fp32":
        return model
    made = copy.deepcopy(model)
    settle(made)
    with torch.no_grad():
        for module in made.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                module.weight.copy_(rounded(module.weight, weights))
    return made


def pack(model: CausalModel, weights: Weights = "fp32") -> Packed:
    """Pack ``model`` into one block of bytes, with matrices in the given precision.

    Raises:
        UsageError: the engine cannot run this model.
    """
    reason = unsupported(model)
    if reason is not None:
        raise UsageError(f"the step engine cannot run this model: {reason}")
    filled = [_bytes(tensor) for tensor in tensors(model, weights)]
    size = sum(-(-len(data) // ALIGNED) * ALIGNED for data in filled)
    room = torch.zeros(size + ALIGNED, dtype=torch.uint8)
    block = room[-room.data_ptr() % ALIGNED :][:size]
    at = 0
    for data in filled:
        block[at : at + len(data)] = data
        at += -(-len(data) // ALIGNED) * ALIGNED
    return Packed(_spec(model, weights), block, engine_layers(model))


def _spec(model: CausalModel, weights: Weights) -> tuple[int | float, ...]:
    first = model.blocks[0]
    assert isinstance(first, Block)
    norm: nn.Module = first.norm_mixer
    assert isinstance(norm, nn.LayerNorm)
    embedding = model.embedding
    layers = engine_layers(model)
    # A setting has the same value in all layers that have it; else the engine ignores the default.
    usual = {"heads": 1, "phi": 0, "taps": 0}
    settings = usual | {name: n for layer in layers for name, n in layer.settings().items()}
    return (
        len(model.blocks),
        embedding.tokens.embedding_dim,
        settings["heads"],
        first.ff.inner.out_features,
        embedding.tokens.num_embeddings,
        model.outputs,
        embedding.length,
        int(first.pre),
        int(model.head is None),
        _POSITIONS[embedding.kind],
        settings["phi"],
        _WEIGHTS[weights],
        sum(layer.kind == "local" for layer in layers),
        settings["taps"],
        norm.eps,
    )


def tensors(model: CausalModel, weights: Weights) -> Iterator[Tensor]:
    """The block's tensors in order, without padding; matrices have two dimensions."""
    embedding = model.embedding
    yield from _matrix(embedding.tokens.weight, weights)
    if embedding.positions is not None:
        yield from _matrix(embedding.positions.weight, weights)
    if embedding.kind == "sinusoidal":
        yield sinusoid_rates(embedding.tokens.embedding_dim)
    if embedding.norm is not None:
        yield from _norm(embedding.norm)
    for block, layer in zip(model.blocks, engine_layers(model), strict=True):
        assert isinstance(block, Block)
        for weight in layer.weights():
            if isinstance(weight, nn.Linear):
                yield from _affine(weight, weights)
            else:
                yield weight
        yield from _norm(block.norm_mixer)
        yield from _affine(block.ff.inner, weights)
        yield from _affine(block.ff.outer, weights)
        yield from _norm(block.norm_ff)
    if isinstance(model.norm, nn.LayerNorm):
        yield from _norm(model.norm)
    if model.head is not None:
        yield from _affine(model.head, weights)


def _norm(norm: nn.Module) -> Iterator[Tensor]:
    assert isinstance(norm, nn.LayerNorm)
    yield norm.weight
    yield norm.bias


def _affine(linear: nn.Linear, weights: Weights) -> Iterator[Tensor]:
    yield from _matrix(linear.weight, weights)
    yield linear.bias


def _matrix(weight: Tensor, weights: Weights) -> Iterator[Tensor]:
    if weights == "int8":
        yield from quantise(weight)
    else:
        yield weight.bfloat16() if weights == "bf16" else weight


def _bytes(tensor: Tensor) -> Tensor:
    """The bytes of a tensor on the CPU, with rows padded with zeros, and matrices in tiles."""
    tensor = tensor.detach().cpu()
    filled = nn.functional.pad(tensor, (0, -tensor.shape[-1] % ROW))
    if tensor.dim() == 2:
        filled = nn.functional.pad(filled, (0, 0, 0, -len(tensor) % ROW))
        filled = rearrange(filled, "(m i) (n j) -> m n i j", i=TALL, j=ROW)
        if tensor.dtype == torch.bfloat16:
            filled = rearrange(filled, "m n i (half j) -> m n i (j half)", half=2)
    return filled.contiguous().view(torch.uint8).flatten()
