"""When a computation goes to the C++ core rather than to torch."""

import torch
from torch import Tensor
from torch.autograd import forward_ad

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def core_serves(x: Tensor) -> bool:
    """Whether the C++ core is in use and can process this tensor: it is on the CPU, and no
    forward-mode derivatives are being taken."""
    from subquad.kernels.loading import CORE

    return x.device.type == "cpu" and CORE is not None and forward_ad._current_level < 0


def core_serves_plainly(x: Tensor) -> bool:
    """The same for kernels that are not registered as torch operators: these take only ordinary
    tensors, and only when nothing is being traced (compilers fuse the torch version better, and
    exporters need it)."""
    return core_serves(x) and ordinary(x)


def ordinary(x: Tensor) -> bool:
    """Whether this is an ordinary tensor on the CPU, and nothing is being traced or transformed."""
    from subquad.kernels.loading import traced

    return (
        not traced()
        and x.device.type == "cpu"
        and forward_ad._current_level < 0
        and type(x) is Tensor
        and x.dtype in DTYPES
        and not torch._C._functorch.is_functorch_wrapped_tensor(x)
    )
