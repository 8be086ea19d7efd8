"""Optimisers (AdamW, RAdam, Muon) and the learning-rate schedule."""

import re
from collections.abc import Collection

import torch
from torch import nn

from subquad.errors import UsageError
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


def optimiser(
    model: nn.Module, training: TrainConfig, new: Collection[str] = ()
) -> torch.optim.Optimizer:
    """The optimiser that ``training`` names. Weight decay applies to matrices only, not to
    embeddings, biases and norms. Muon updates the matrices of the blocks, and AdamW the rest.

    Every group has a ``factor`` on the learning rate, which depends on the depth of a parameter and
    on whether it is among the ``new`` ones. Parameters that need no gradient are left out.
    """
    tables = (m for m in model.modules() if isinstance(m, nn.Embedding))
    embeddings = {id(p) for table in tables for p in table.parameters()}
    kinds: dict[tuple[str, float], list[nn.Parameter]] = {}
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        kind = "decayed"
        if p.dim() < 2 or id(p) in embeddings:
            kind = "rest"
        elif training.optimizer == "muon" and p.dim() == 2 and "blocks." in name:
            kind = "hidden"
        factor = _factor(model, name, training, name in set(new))
        kinds.setdefault((kind, factor), []).append(p)
    order = {"decayed": 0, "rest": 1, "hidden": 2}
    groups = [
        {"params": found, "factor": factor, "weight_decay": _decay(kind, training)}
        | ({"orthogonal": True} if kind == "hidden" else {})
        for (kind, factor), found in sorted(kinds.items(), key=lambda k: (order[k[0][0]], k[0][1]))
    ]
    if training.optimizer == "radam":
        return torch.optim.RAdam(groups, lr=training.lr, decoupled_weight_decay=True)
    betas = (0.9, 0.98)
    if training.optimizer == "muon":
        return Muon(groups, lr=training.lr, betas=betas, fused=True)
    return torch.optim.AdamW(groups, lr=training.lr, betas=betas, fused=True)


def _decay(kind: str, training: TrainConfig) -> float:
    return 0.0 if kind == "rest" else training.weight_decay


def _factor(model: nn.Module, name: str, training: TrainConfig, new: bool) -> float:
    """The factor on a parameter's learning rate."""
    if new:
        return training.new_lr
    top = _layers(model)
    return float(training.layer_decay ** (top - depth(name, top=top)))


def _layers(model: nn.Module) -> int:
    """The depth of what is above the layers."""
    return 1 + max((depth(n) for n, _ in model.named_parameters() if "blocks." in n), default=0)


def depth(name: str, top: int = 0) -> int:
    """0 for the embedding, i for the i-th layer from below, ``top`` for what is above them."""
    if match := re.search(r"(?:^|\.)blocks\.(\d+)\.", name):
        return int(match[1]) + 1
    return 0 if re.search(r"(?:^|\.)embedding\.", name) else top


def freeze(model: nn.Module, training: TrainConfig, new: Collection[str]) -> None:
    """Exclude from training what ``training.freeze`` names.

    Raises:
        UsageError: there are fewer layers, or nothing would be left to train.
    """
    if training.freeze == "none":
        return
    top = _layers(model)
    most = top if training.freeze == "body" else int(training.freeze)
    if most >= top and training.freeze != "body":
        raise UsageError(f"--freeze {most}: the model has {top - 1} layers; body freezes them all")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in new or depth(name, top=top) > most)
    if not any(p.requires_grad for p in model.parameters()):
        raise UsageError(f"--freeze {training.freeze} leaves nothing to train")
