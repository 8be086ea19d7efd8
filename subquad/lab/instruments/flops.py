"""Arithmetic of one example, counted while it runs: products by torch's own counter, transforms by
the usual 5/2 · n · log₂ n of a real FFT of n numbers, which that counter leaves out."""

import math
from typing import Any

import torch
from torch import nn

from subquad.mixers.fnet import FNet


def per_example(model: nn.Module, run: Any, length: int) -> float:
    """Operations of the forward pass ``run()`` of one row of ``length`` tokens."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    counter: Any = FlopCounterMode(display=False)
    # The fused kernel of attention is not counted; its definition, two products, is. The counter
    # hooks into autograd, which must therefore be there.
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        run()
    transforms = sum(
        2.5 * n * math.log2(n)
        for n in (
            (m.fixed_length or length) * m.d
            for m in model.modules()
            if isinstance(m, FNet) and m.transform == "fourier" and m.form == "auto"
        )
    )
    return float(counter.get_total_flops() + transforms)
