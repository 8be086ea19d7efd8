"""The memory that training a model takes: more than the model."""

import torch

from subquad.models.size import refuse_too_large
from subquad.tasks import Task


def check_size(task: Task, on: torch.device) -> None:
    """Refuse to train a model that does not fit into memory, before it is made.

    Raises:
        UsageError: with its size, and what there is.
    """
    averages = 1 if task.config.training.optimizer == "muon" else 2
    holding = "weights, gradients and the optimiser's averages"
    refuse_too_large(task.model, on, copies=2 + averages, holding=holding)
