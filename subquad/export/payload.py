"""The weights for a page: the step engine's block, with matrices in f16 if requested."""

import copy
import math
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

import torch
from torch import nn

from subquad.errors import UsageError
from subquad.generation.packing import ROW, Packed, pack, rounded_model, tensors
from subquad.models import CausalModel
from subquad.models.shared_levels import settle

Precision = Literal["f16", "f32", "int8"]
PRECISIONS: tuple[str, ...] = get_args(Precision)

Model = TypeVar("Model", bound=nn.Module)


@dataclass(frozen=True)
class Payload:
    """The data from which a page restores the engine's block."""

    model: CausalModel
    """The model with the rounded weights that the page uses."""
    spec: tuple[int | float, ...]
    data: bytes
    halves: list[tuple[bool, int]] | None
    """Sections of ``data`` as (whether f16, count); None if ``data`` is the block itself."""


def payload(model: CausalModel, precision: Precision) -> Payload:
    """The weights of ``model`` at ``precision``.

    Raises:
        UsageError: the engine cannot run this model, or a weight is too large for f16.
    """
    if precision == "int8":
        rounded = rounded_model(model, "int8")
        packed = pack(model, "int8")
        return Payload(rounded, packed.spec, _bytes(packed.block), None)
    if precision == "f32":
        packed = pack(model)
        return Payload(model, packed.spec, _bytes(packed.block), None)
    rounded = halved(model)
    packed = pack(rounded)
    halves, data = _halves(rounded, packed)
    return Payload(rounded, packed.spec, data, halves)


def halved(model: Model) -> Model:
    """A copy of ``model`` whose matrices are rounded to f16.

    Raises:
        UsageError: a weight is not finite or too large for f16.
    """
    made = copy.deepcopy(model)
    settle(made)
    largest = torch.finfo(torch.float16).max
    with torch.no_grad():
        for p in made.parameters():
            value = p.half().float() if p.dim() == 2 else p
            if not value.isfinite().all():
                raise UsageError(
                    f"a weight exceeds {largest:.0f}, the largest f16 number: use --weights f32"
                )
            p.copy_(value)
    return made


def _halves(model: CausalModel, packed: Packed) -> tuple[list[tuple[bool, int]], bytes]:
    numbers = packed.block.view(torch.float32)
    runs: list[tuple[bool, int]] = []
    data: list[bytes] = []
    at = 0
    for tensor in tensors(model, "fp32"):
        matrix = tensor.dim() == 2
        count = math.prod(-(-n // ROW) * ROW for n in tensor.shape)
        part = numbers[at : at + count]
        data.append(_bytes((part.half() if matrix else part).contiguous().view(torch.uint8)))
        at += count
        if runs and runs[-1][0] == matrix:
            runs[-1] = (matrix, runs[-1][1] + count)
        else:
            runs.append((matrix, count))
    assert at == len(numbers)
    return runs, b"".join(data)


def _bytes(block: torch.Tensor) -> bytes:
    return bytes(block.numpy().data)
