"""How weights move: AdamW or RAdam, and the learning rate over the budget."""

import torch
from torch import nn

from subquad.tasks import TrainConfig


def learning_rate(training: TrainConfig, spent: float) -> float:
    """The rate when ``spent`` of the budget (0 to 1) is: a linear rise over ``warmup`` of it, then
    what ``schedule`` says."""
    rise = min(1.0, spent / training.warmup) if training.warmup else 1.0
    after = {
        "linear": max((1 - spent) / (1 - training.warmup), 0.0),
        "constant": 1.0,
        "drop": 1.0 if spent < 0.5 else 0.1,
    }
    return training.lr * min(rise, after[training.schedule])


def optimiser(model: nn.Module, training: TrainConfig) -> torch.optim.Optimizer:
    """AdamW or RAdam; weight decay on matrices only (not on embeddings, biases and norms)."""
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    parameters = list(model.parameters())
    decayed = [p for p in parameters if p.dim() > 1 and id(p) not in embeddings]
    chosen = {id(p) for p in decayed}
    rest = [p for p in parameters if id(p) not in chosen]
    groups = [
        {"params": decayed, "weight_decay": training.weight_decay},
        {"params": rest, "weight_decay": 0.0},
    ]
    if training.optimizer == "radam":
        return torch.optim.RAdam(groups, lr=training.lr, decoupled_weight_decay=True)
    return torch.optim.AdamW(groups, lr=training.lr, betas=(0.9, 0.98), fused=True)
