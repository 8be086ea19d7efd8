"""Optimisers (AdamW, RAdam, Muon) and the learning-rate schedule."""

import torch
from torch import nn

from subquad.optimiser.muon import Muon
from subquad.tasks import TrainConfig


def learning_rate(training: TrainConfig, spent: float) -> float:
    """The learning rate after the fraction ``spent`` (0 to 1) of the training budget: a linear
    warm-up over the fraction ``warmup``, then the given ``schedule``."""
    rise = min(1.0, spent / training.warmup) if training.warmup else 1.0
    after = {
        "linear": max((1 - spent) / (1 - training.warmup), 0.0),
        "constant": 1.0,
        "drop": 1.0 if spent < 0.5 else 0.1,
    }
    return training.lr * min(rise, after[training.schedule])


def optimiser(model: nn.Module, training: TrainConfig) -> torch.optim.Optimizer:
    """The optimiser that ``training`` names. Weight decay applies to matrices only, not to
    embeddings, biases and norms. Muon updates the matrices of the blocks, and AdamW the rest."""
    tables = (m for m in model.modules() if isinstance(m, nn.Embedding))
    embeddings = {id(p) for table in tables for p in table.parameters()}
    hidden, decayed, rest = [], [], []
    for name, p in model.named_parameters():
        if p.dim() < 2 or id(p) in embeddings:
            rest.append(p)
        elif training.optimizer == "muon" and p.dim() == 2 and "blocks." in name:
            hidden.append(p)
        else:
            decayed.append(p)
    groups = [
        {"params": decayed, "weight_decay": training.weight_decay},
        {"params": rest, "weight_decay": 0.0},
    ]
    if training.optimizer == "radam":
        return torch.optim.RAdam(groups, lr=training.lr, decoupled_weight_decay=True)
    betas = (0.9, 0.98)
    if training.optimizer == "muon":
        matrices = {"params": hidden, "weight_decay": training.weight_decay, "orthogonal": True}
        return Muon([*groups, matrices], lr=training.lr, betas=betas, fused=True)
    return torch.optim.AdamW(groups, lr=training.lr, betas=betas, fused=True)
