"""FLOPs of one example, counted while the model runs: matrix products by torch's own counter, plus
what each mixer computes outside of them."""

from typing import Any

import torch
from torch import nn

from subquad.models.block import Block


def per_example(model: nn.Module, run: Any, length: int) -> float:
    """FLOPs of ``run()``, a forward pass of ``model`` on one sequence of ``length`` tokens."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    counter: Any = FlopCounterMode(display=False)
    # torch does not count its fused attention kernel, but it counts the two products of the plain
    # definition. The counter hooks into autograd, so gradients must be enabled.
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        run()
    blocks = (module for module in model.modules() if isinstance(module, Block))
    return float(counter.get_total_flops() + sum(b.mixer.operations(length) for b in blocks))
