"""The memory needed for training a model, which is more than its weights."""

import torch
from torch import nn

from subquad.errors import UsageError
from subquad.models.size import refuse_too_large
from subquad.tasks import Task


def check_size(task: Task, on: torch.device) -> None:
    """Check, before the model is created, that training it fits into memory.

    Raises:
        UsageError: it does not; the message gives its size and the available memory.
    """
    averages = 1 if task.config.training.optimizer == "muon" else 2
    holding = "weights, gradients and the optimiser's averages"
    refuse_too_large(task.model, on, copies=2 + averages, holding=holding)


def made(task: Task, on: torch.device) -> nn.Module:
    """A task's fresh model, to be trained.

    Raises:
        UsageError: it cannot be made here, or its training does not fit into memory.
    """
    try:
        check_size(task, on)
        return task.model()
    except UsageError:
        raise
    except (RuntimeError, MemoryError, OverflowError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0][:200]
        raise UsageError(f"this model cannot be made here: {reason}") from None
