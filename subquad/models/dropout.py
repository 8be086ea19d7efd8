"""Dropout (Srivastava et al. 2014). On the CPU, torch draws one random number per element in a
single thread, which takes longer than the matrix products of a layer; here one number serves
four."""

import torch
from torch import Tensor, nn

#: Below this many elements, torch's dropout is as fast.
LEAST = 4096
#: Number of values of a 16-bit lane.
LANE = 1 << 16


class Dropout(nn.Dropout):
    """Like ``nn.Dropout``, but ``p`` is rounded to a multiple of 2⁻¹⁶ on the CPU. It uses torch's
    random generator, so that the same seed drops the same elements."""

    def forward(self, x: Tensor) -> Tensor:
        from subquad.kernels.loading import traced

        active = self.training and 0 < self.p < 1
        if not active or x.device.type != "cpu" or x.numel() < LEAST or traced():
            return super().forward(x)
        return x * _factors(x, self.p)


@torch.no_grad()
def _factors(x: Tensor, p: float) -> Tensor:
    """0 where an element is dropped, otherwise 1 / (fraction kept)."""
    dropped = min(round(p * LANE), LANE - 1)
    numbers = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    lanes = numbers.view(torch.int16)[: x.numel()].view(x.shape)
    return (lanes >= dropped - LANE // 2).to(x.dtype).mul_(LANE / (LANE - dropped))
