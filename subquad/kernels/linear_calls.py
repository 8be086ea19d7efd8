"""Calls of the core for linear attention, and their gradients; ``ops`` turns them into operators
and differentiable functions.

Inputs have been checked by ``subquad.kernels.linear``: they are CPU tensors of one dtype and
matching shapes, with states and decay in ``wide(dtype)``.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from subquad.kernels.core_calls import DTYPES, in_large_pages, solid, view, wide
from subquad.kernels.loading import CORE

MAPS = {"identity": 0, "elu+1": 1, "relu": 2}
#: With fewer multiplications than this, a second thread costs more than it saves.
FEW = 1 << 17


def _sizes(q: Tensor, v: Tensor, feature_map: str) -> tuple[int, ...]:
    b, h, t, k = q.shape
    m = v.shape[3]
    threads = 1 if b * h * t * k * m < FEW else torch.get_num_threads()
    return b, h, t, k, m, DTYPES[v.dtype], MAPS[feature_map], threads


def like_heads(x: Tensor) -> Tensor:
    """An empty tensor shaped like ``x`` ``[b, h, t, w]``, dense and in the same memory order, so
    that heads split from ``[b, t, h, w]`` can be merged again without a copy."""
    b, h, t, w = x.shape
    if x.is_contiguous():
        return x.new_empty(b, h, t, w)
    return x.new_empty(b, t, h, w).transpose(1, 2)


def _made_like(x: Tensor) -> Tensor:
    """``like_heads``, in large pages where it pays, for results of the core."""
    return in_large_pages(like_heads(x))


def run_causal(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    s0: Tensor | None,
    z0: Tensor | None,
    decay: Tensor | None,
    feature_map: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs, S and Z after the last token."""
    q, k, v, s0, z0, decay = solid(q, k, v, s0, z0, decay)
    b, h, _, w = q.shape
    kept = wide(v.dtype)
    out = _made_like(v)
    s, z = q.new_empty(b, h, w, v.shape[-1], dtype=kept), q.new_empty(b, h, w, dtype=kept)
    given = view(q), view(k), view(v), view(mask), view(s0), view(z0), view(decay)
    CORE.causal_forward(_sizes(q, v, feature_map), given, (view(out), view(s), view(z)))
    return out, s, z


def run_causal_backward(
    dout: Tensor,
    ds: Tensor | None,
    dz: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    s0: Tensor | None,
    z0: Tensor | None,
    decay: Tensor | None,
    feature_map: str,
    need_decay: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k, v, s0, z0 and decay; empty tensors for those that are not needed."""
    dout, ds, dz = solid(dout, ds, dz)
    q, k, v, s0, z0, decay = solid(q, k, v, s0, z0, decay)
    made = empty_gradients(q, k, v, s0, decay, need_decay, _made_like)
    dq, dk, dv, ds0, dz0, ddecay = made
    CORE.causal_backward(
        _sizes(q, v, feature_map),
        (view(dout), view(ds), view(dz)),
        (view(q), view(k), view(v), view(mask), view(s0), view(z0), view(decay)),
        (
            *(view(dq), view(dk), view(dv)),
            *((None, None) if s0 is None else (view(ds0), view(dz0))),
            view(ddecay) if need_decay else None,
        ),
    )
    return made


def empty_gradients(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s0: Tensor | None,
    decay: Tensor | None,
    need_decay: bool,
    like: Callable[[Tensor], Tensor] = like_heads,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The tensors that ``run_causal_backward`` writes to."""
    b, h, t, w = q.shape
    kept = wide(v.dtype)
    start = ((b, h, w, v.shape[-1]), (b, h, w)) if s0 is not None else ((0,), (0,))
    ds0, dz0 = (q.new_empty(shape, dtype=kept) for shape in start)
    wanted = need_decay and decay is not None
    ddecay = q.new_empty((b, h, t) if wanted else (0,), dtype=kept)
    return like(q), like(k), like(v), ds0, dz0, ddecay


def run_all(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, feature_map: str) -> Tensor:
    """The bidirectional outputs."""
    q, k, v = solid(q, k, v)
    out = _made_like(v)
    given = view(q), view(k), view(v), view(mask)
    CORE.bidirectional_forward(_sizes(q, v, feature_map), given, (view(out),))
    return out


def run_all_backward(
    dout: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, feature_map: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k, v."""
    dout, q, k, v = solid(dout, q, k, v)
    made = _made_like(q), _made_like(k), _made_like(v)
    given = view(q), view(k), view(v), view(mask)
    views = tuple(view(x) for x in made)
    CORE.bidirectional_backward(_sizes(q, v, feature_map), (view(dout),), given, views)
    return made


def keep(ctx: Any, inputs: tuple[Any, ...], output: Any = None) -> None:  # noqa: ARG001
    """Save the inputs for the backward pass."""
    *tensors, ctx.feature_map = inputs
    ctx.dtype = tensors[0].dtype
    ctx.save_for_backward(*tensors)
    ctx.set_materialize_grads(False)


def _kept(ctx: Any) -> tuple[Any, ...]:
    tensors: tuple[Any, ...] = ctx.saved_tensors
    if tensors[0].dtype != ctx.dtype:
        raise RuntimeError(
            f"the inputs were saved as {ctx.dtype} but restored as {tensors[0].dtype}: a hook on "
            "saved tensors must return tensors of the original dtype"
        )
    return tensors


def causal_gradients(
    ctx: Any, form: Callable[..., Any], dout: Tensor | None, ds: Tensor | None, dz: Tensor | None
) -> Any:
    """Gradients of all inputs, by ``run_causal_backward`` or its operator (``form``)."""
    q, k, v, mask, s0, z0, decay = _kept(ctx)
    if dout is None:
        dout = v.new_zeros(()).expand(v.shape)
    need_decay = decay is not None and ctx.needs_input_grad[6]
    dq, dk, dv, ds0, dz0, ddecay = form(
        dout, ds, dz, q, k, v, mask, s0, z0, decay, ctx.feature_map, need_decay
    )
    start = (None, None) if s0 is None else (ds0, dz0)
    return dq, dk, dv, None, *start, ddecay if need_decay else None, None


def all_gradients(ctx: Any, form: Callable[..., Any], dout: Tensor | None) -> Any:
    """Gradients of all inputs, by ``run_all_backward`` or its operator (``form``)."""
    q, k, v, mask = _kept(ctx)
    if dout is None:
        dout = v.new_zeros(()).expand(v.shape)
    return *form(dout, q, k, v, mask, ctx.feature_map), None, None
