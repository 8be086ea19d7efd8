"""How weights move: AdamW, and its learning rate over the budget."""

import torch
from torch import nn

from subquad.tasks import TrainConfig


def learning_rate(training: TrainConfig, spent: float) -> float:
    """Linear rise over ``warmup`` of the budget, then linear decay to zero at its end."""
    rise = min(1.0, spent / training.warmup) if training.warmup else 1.0
    fall = (1 - spent) / (1 - training.warmup)
    return training.lr * min(rise, max(fall, 0.0))


def optimiser(model: nn.Module, training: TrainConfig) -> torch.optim.AdamW:
    """AdamW; weight decay on matrices only (not on embeddings, biases and norms)."""
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    parameters = list(model.parameters())
    decayed = [p for p in parameters if p.dim() > 1 and id(p) not in embeddings]
    chosen = {id(p) for p in decayed}
    rest = [p for p in parameters if id(p) not in chosen]
    groups = [
        {"params": decayed, "weight_decay": training.weight_decay},
        {"params": rest, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=training.lr, betas=(0.9, 0.98))
