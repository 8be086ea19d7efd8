"""How far a student is from its teacher: what the stages minimise, and what reports show."""

from typing import Any

import torch
from torch import Tensor

from subquad.conversion import losses
from subquad.conversion.recording import blocks_of, recorded
from subquad.conversion.student import Student
from subquad.data.batches import Batch
from subquad.run import Run


def of_transfer(student: Student, teacher: Run, batch: Batch) -> Tensor:
    """One relative error per changed layer: its mixer's output on the teacher's input."""
    with torch.no_grad(), recorded(teacher.model) as record:
        teacher.task.outputs(teacher.model, batch)
    mixers = [block.mixer for block in blocks_of(student.model)]
    theirs = [record.mixed[layer] for layer in student.layers]
    return losses.of_mixers(mixers, theirs, list(student.changed))


def of_whole(student: Student, teacher: Run, batch: Batch) -> Tensor:
    """The mean relative error of the blocks, each model on its own activations, and the cosine
    distance of the row vectors."""
    with torch.no_grad(), recorded(teacher.model) as theirs:
        teacher.task.outputs(teacher.model, batch)
    with recorded(student.model) as ours:
        student.task.outputs(student.model, batch)
    errors = losses.of_blocks(ours, theirs, batch.mask, list(student.layers))
    distance = 1 - losses.cosines(ours, theirs, batch.mask).mean()
    return torch.cat([errors / len(errors), distance.unsqueeze(0)])


@torch.no_grad()
def measured(student: Student, teacher: Run, batches: list[Batch]) -> dict[str, Any]:
    """``errors`` of the changed layers on the teacher's inputs, and the mean ``cosine`` of row
    vectors."""
    errors = torch.zeros(len(student.changed))
    cosine, rows, tokens = 0.0, 0, 0
    for batch in batches:
        with recorded(teacher.model) as theirs:
            teacher.task.outputs(teacher.model, batch)
        with recorded(student.model) as ours:
            student.task.outputs(student.model, batch)
        mixers = [block.mixer for block in blocks_of(student.model)]
        mixed = [theirs.mixed[layer] for layer in student.layers]
        n = int(batch.mask.sum())
        errors += losses.of_mixers(mixers, mixed, list(student.changed)).cpu() * n
        cosine += float(losses.cosines(ours, theirs, batch.mask).sum())
        rows, tokens = rows + len(batch.mask), tokens + n
    return {"errors": (errors / tokens).tolist(), "cosine": cosine / rows}
