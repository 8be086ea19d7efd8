"""Arithmetic of one example, counted while it runs: products by torch's own counter, and what each
mixer does beside them."""

from typing import Any

import torch
from torch import nn

from subquad.models.block import Block


def per_example(model: nn.Module, run: Any, length: int) -> float:
    """Operations of the forward pass ``run()`` of one row of ``length`` tokens."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    counter: Any = FlopCounterMode(display=False)
    # The fused kernel of attention is not counted; its definition, two products, is. The counter
    # hooks into autograd, which must therefore be there.
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        run()
    blocks = (module for module in model.modules() if isinstance(module, Block))
    return float(counter.get_total_flops() + sum(b.mixer.operations(length) for b in blocks))
