"""When the C++ core takes a tensor from the forms in torch."""

import torch
from torch import Tensor
from torch.autograd import forward_ad

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def core_serves(x: Tensor) -> bool:
    """Whether the C++ core is in use and takes this tensor: it is on the CPU, and nobody
    differentiates forward."""
    from subquad.kernels.loading import CORE

    return x.device.type == "cpu" and CORE is not None and forward_ad._current_level < 0


def core_serves_plainly(x: Tensor) -> bool:
    """The same for what is no operator of torch: an ordinary tensor that nobody traces (a compiler
    fuses torch's own form, an exporter needs it)."""
    from subquad.kernels.loading import traced

    return (
        not traced()
        and core_serves(x)
        and type(x) is Tensor
        and x.dtype in DTYPES
        and not torch._C._functorch.is_functorch_wrapped_tensor(x)
    )
