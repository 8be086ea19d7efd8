"""How far a converted model is from the one it was made from."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from subquad.conversion.recording import Mixed, Record
from subquad.mixers import Mixer
from subquad.mixers.base import zero_padding
from subquad.shapes import Mask, Pooled, Sequence


def relative_error(y: Sequence, wanted: Sequence, mask: Mask | None) -> Tensor:
    """‖y − wanted‖² / ‖wanted‖² over real tokens: 0 if they are equal, about 1 if ``y`` knows
    nothing of ``wanted``. Relative, because otherwise the layers with large values would rule."""
    wide = torch.promote_types(y.dtype, torch.float32)
    y, wanted = zero_padding(y, mask).to(wide), zero_padding(wanted, mask).to(wide)
    return (y - wanted).square().sum() / wanted.square().sum().clamp(min=1e-12)


def of_mixers(
    mixers: list[Mixer], teacher: list[Mixed], layers: list[int]
) -> Float[Tensor, "layers"]:
    """The relative error of each mixer in ``layers`` on the input of the teacher's mixer there."""
    errors = [
        relative_error(mixers[i](teacher[i].x, teacher[i].mask), teacher[i].y, teacher[i].mask)
        for i in layers
    ]
    return torch.stack(errors)


def of_blocks(
    student: Record, teacher: Record, mask: Mask | None, layers: list[int]
) -> Float[Tensor, "layers"]:
    """The relative error of every block's output, each model on its own activations; ``layers`` are
    the teacher's blocks that the student's stand for."""
    pairs = zip(student.blocks, (teacher.blocks[i] for i in layers), strict=True)
    return torch.stack([relative_error(ours, theirs, mask) for ours, theirs in pairs])


def vectors(record: Record, mask: Mask | None) -> Pooled:
    """The mean of the last block's output over each row's real tokens."""
    x = record.blocks[-1]
    if mask is None:
        return x.mean(1)
    return zero_padding(x, mask).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


def cosines(student: Record, teacher: Record, mask: Mask | None) -> Float[Tensor, "b"]:
    """The cosine of each row's vector to the teacher's."""
    return nn.functional.cosine_similarity(
        vectors(student, mask).float(), vectors(teacher, mask).float(), dim=-1
    )
