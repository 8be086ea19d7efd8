"""Muon (Jordan et al. 2024): the momentum of a hidden matrix, made orthogonal, is its update.

torch has a Muon of its own, which multiplies in bf16, one matrix at a time, and takes no other
parameters: on a processor without bf16 it costs more than a small model's step. Here matrices of
one shape go together, in fp32, and AdamW serves the parameters that are no hidden matrices.
"""

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any, overload

import torch
from torch import Tensor

MOMENTUM = 0.95
#: Newton–Schulz by the quintic a x + b x³ + c x⁵. Jordan et al. apply it five times; three leave
#: the smallest singular values small, and learned as much in each step here (LOG.md).
A, B, C, TIMES = 3.4445, -4.7750, 2.0315, 3
#: Root mean square of an update's elements over that of AdamW's, which is about 0.2 times the rate
#: (Liu et al. 2025); three times as much was best for texts and images here (LOG.md).
SIZE = 0.6


class Muon(torch.optim.AdamW):
    """AdamW, except in groups with ``orthogonal=True``, of matrices ``[m, n]`` alone."""

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
        """Nesterov's: the gradient as it will be averaged next."""
        assert p.grad is not None
        state = self.state[p]
        if not state:
            state["exp_avg"] = torch.zeros_like(p)
        average: Tensor = state["exp_avg"].lerp_(p.grad, 1 - MOMENTUM)
        return p.grad.lerp(average, MOMENTUM).float()


def orthogonal(x: Tensor) -> Tensor:
    """About U Vᵀ of each matrix U Σ Vᵀ in ``x`` ``[b, m, n]``: singular values near 1."""
    turned = x.shape[1] > x.shape[2]
    x = x.mT.contiguous() if turned else x
    x = x / x.flatten(1).norm(dim=1)[:, None, None].clamp(min=1e-7)
    for _ in range(TIMES):
        squares = x @ x.mT
        polynomial = torch.baddbmm(squares, squares, squares, beta=B, alpha=C)
        x = torch.baddbmm(x, polynomial, x, beta=A)
    return x.mT if turned else x
