"""Muon (Jordan et al. 2024): the update of a hidden matrix is its orthogonalised momentum.

torch also has a Muon, but it multiplies in bf16, one matrix at a time, and accepts no other
parameters; without bf16 hardware it costs more than the rest of a small model's training step.
Here, matrices of the same shape are processed together in fp32, and AdamW updates all parameters
that are not hidden matrices.
"""

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any, overload

import torch
from torch import Tensor

MOMENTUM = 0.95
#: Newton–Schulz iteration with the quintic a x + b x³ + c x⁵. Jordan et al. iterate five times.
#: Three iterations leave the smallest singular values small, but learned as much per step (LOG.md).
A, B, C, TIMES = 3.4445, -4.7750, 2.0315, 3
#: Root mean square of an update's elements, in units of the learning rate. AdamW's is about 0.2
#: (Liu et al. 2025); three times as much worked best for texts and images here (LOG.md).
SIZE = 0.6


class Muon(torch.optim.AdamW):
    """Muon for parameter groups with ``orthogonal=True``, whose parameters must all be matrices
    ``[m, n]``; AdamW for all other groups."""

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        groups = self.param_groups
        try:
            self.param_groups = [g for g in groups if not g.get("orthogonal")]
            loss = super().step(closure)
        finally:
            self.param_groups = groups
        for group in groups:
            if group.get("orthogonal"):
                self._orthogonal_step(group)
        return loss

    def _orthogonal_step(self, group: dict[str, Any]) -> None:
        by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
        for p in group["params"]:
            if p.grad is not None:
                by_shape[p.shape].append(p)
        for shape, same in by_shape.items():
            updates = orthogonal(torch.stack([self._momentum(p) for p in same]))
            rate = group["lr"] * SIZE * math.sqrt(max(shape))
            for p, update in zip(same, updates, strict=True):
                p.mul_(1 - group["lr"] * group["weight_decay"]).add_(
                    update.to(p.dtype), alpha=-rate
                )

    def _momentum(self, p: Tensor) -> Tensor:
        """The Nesterov momentum of ``p``."""
        assert p.grad is not None
        state = self.state[p]
        if not state:
            state["exp_avg"] = torch.zeros_like(p)
        average: Tensor = state["exp_avg"].lerp_(p.grad, 1 - MOMENTUM)
        return p.grad.lerp(average, MOMENTUM).float()


def orthogonal(x: Tensor) -> Tensor:
    """Orthogonalise each matrix U Σ Vᵀ in ``x`` ``[b, m, n]``: approximately U Vᵀ, whose singular
    values are 1."""
    turned = x.shape[1] > x.shape[2]
    x = x.mT.contiguous() if turned else x
    x = x / x.flatten(1).norm(dim=1)[:, None, None].clamp(min=1e-7)
    for _ in range(TIMES):
        squares = x @ x.mT
        polynomial = torch.baddbmm(squares, squares, squares, beta=B, alpha=C)
        x = torch.baddbmm(x, polynomial, x, beta=A)
    return x.mT if turned else x
