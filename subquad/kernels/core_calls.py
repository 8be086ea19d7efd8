"""Calls of the native core that are not torch operators, and what the operators share.

Callers have made sure that tensors are on the CPU and have matching dtypes and shapes.
"""

from typing import Any

import torch
from torch import Tensor

from subquad.kernels.loading import CORE

DTYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}
#: From this many bytes on, new buffers use large pages.
LARGE = 8 << 20


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which sums over ``dtype`` are accumulated."""
    return torch.promote_types(dtype, torch.float32)


def solid(*tensors: Any) -> tuple[Any, ...]:
    """The same tensors (or None) with their values materialised in memory: torch stores the sign of
    ``z.conj().imag`` as a flag only, and a gradient known to be zero not at all."""
    return tuple(_written(x) for x in tensors)


def _written(x: Tensor | None) -> Tensor | None:
    if x is None or not (x.is_neg() or x._is_zerotensor()):
        return x
    return torch.zeros(x.shape, dtype=x.dtype) if x._is_zerotensor() else x.resolve_neg()


def view(x: Tensor | None) -> tuple[int, ...] | None:
    """A tensor as the core takes it: data pointer and strides, or None."""
    return None if x is None else (x.data_ptr(), *x.stride())


def in_large_pages(made: Tensor) -> Tensor:
    if made.nbytes >= LARGE:
        CORE.use_large_pages(made.data_ptr(), made.nbytes)
    return made


def run_gelu(x: Tensor, dout: Tensor | None = None) -> Tensor:
    """GELU (tanh) of a contiguous tensor or, given ``dout`` (also contiguous), its gradient."""
    x, dout = solid(x, dout)
    out = in_large_pages(torch.empty_like(x))
    above = 0 if dout is None else dout.data_ptr()
    pointers = above, x.data_ptr(), out.data_ptr()
    CORE.gelu(*pointers, x.numel(), DTYPES[x.dtype], torch.get_num_threads())
    return out


def run_lagged(x: Tensor, weight: Tensor, offsets: Tensor, made: int) -> Tensor:
    """y_i,c = Σ_j W_j,c x_{i + o_j},c for i < ``made``; ``x`` is zero outside its range.

    ``x`` ``[b, t, d]``, ``weight`` ``[w, d]`` contiguous in ``wide(x.dtype)``, ``offsets`` int64
    ``[w]`` contiguous.
    """
    x, weight = solid(x, weight)
    out = x.new_empty(x.shape[0], made, x.shape[2])
    pointers = offsets.data_ptr(), weight.data_ptr()
    CORE.lagged(_lagged_sizes(x, offsets, made), *pointers, view(x), view(out))
    return out


def run_lagged_weight(x: Tensor, dout: Tensor, offsets: Tensor) -> Tensor:
    """The gradient ``[w, d]`` of ``run_lagged``'s weight."""
    x, dout = solid(x, dout)
    dweight = x.new_empty(len(offsets), x.shape[2], dtype=wide(x.dtype))
    pointers = offsets.data_ptr(), dweight.data_ptr()
    CORE.lagged_weight(_lagged_sizes(x, offsets, dout.shape[1]), *pointers, view(x), view(dout))
    return dweight


def _lagged_sizes(x: Tensor, offsets: Tensor, made: int) -> tuple[int, ...]:
    b, t, d = x.shape
    return b, t, made, d, len(offsets), DTYPES[x.dtype], torch.get_num_threads()


def run_pool(x: Tensor, weight: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Σ_i softmax_i(W x_i) x_i ``[b, d]``, where each head weights its own features, and log Σ e^s
    ``[b, h]``; both in ``wide(x.dtype)``, as is ``weight`` ``[b, h, d]`` (contiguous rows)."""
    x, weight = solid(x, weight)
    b, h, d = weight.shape
    y, log_sum = (weight.new_empty(b, n) for n in (d, h))
    CORE.pool(_pool_sizes(x, h), tuple(map(view, (x, mask, weight, y, log_sum))))
    return y, log_sum


def run_pool_backward(
    dy: Tensor, x: Tensor, weight: Tensor, mask: Tensor | None, y: Tensor, log_sum: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of ``x`` and of ``weight`` (dy, y and log_sum contiguous)."""
    dy, x, weight = solid(dy, x, weight)
    b, h, d = weight.shape
    dx, dweight = x.new_empty(x.shape), weight.new_empty(b, h, d)
    views = tuple(map(view, (x, mask, weight, y, log_sum, dy, dx, dweight)))
    CORE.pool_backward(_pool_sizes(x, h), views)
    return dx, dweight


def _pool_sizes(x: Tensor, h: int) -> tuple[int, ...]:
    b, t, d = x.shape
    return b, t, d, h, DTYPES[x.dtype], torch.get_num_threads()


def run_unfold(half: Tensor, d: int, hartley: bool) -> Tensor:
    """The full real part ``[b, t, d]`` of a two-dimensional DFT of real input, from the half of its
    columns ``[b, t, d//2 + 1]`` (contiguous, complex), minus the imaginary part if ``hartley``."""
    b, t, _ = half.shape
    out = in_large_pages(half.new_empty(b, t, d, dtype=half.real.dtype))
    sizes = b, t, d, DTYPES[out.dtype], torch.get_num_threads()
    CORE.unfold(sizes, hartley, half.data_ptr(), out.data_ptr())
    return out
