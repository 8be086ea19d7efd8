"""The native core as torch operators: ``subquad::causal_linear``, ``subquad::all_linear`` and their
backwards, with shapes for tracing and with gradients. Inputs are as ``subquad.kernels.linear``
leaves them: CPU tensors of one dtype, checked shapes, states and decay in ``wide(dtype)``.

A backward that is itself differentiated is refused by torch: the backward operators carry no
gradient formula.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from subquad.kernels.calls import DTYPES, in_large_pages, view, wide
from subquad.kernels.loading import CORE

MAPS = {"identity": 0, "elu+1": 1, "relu": 2}


def _sizes(q: Tensor, v: Tensor, feature_map: str) -> tuple[int, ...]:
    b, h, t, k = q.shape
    code = DTYPES[v.dtype], MAPS[feature_map]
    return b, h, t, k, v.shape[-1], *code, torch.get_num_threads()


def _like_heads(x: Tensor) -> Tensor:
    """Empty, shaped like ``x`` ``[b, h, t, w]`` but laid out ``[b, t, h, w]``, so that joining the
    heads is a view."""
    b, h, t, w = x.shape
    return x.new_empty(b, t, h, w).transpose(1, 2)


def _made_like(x: Tensor) -> Tensor:
    """``_like_heads``, about to be written by the core."""
    return in_large_pages(_like_heads(x))


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
    """The forward without any dispatch: outputs, S and Z after the last token."""
    b, h, _, w = q.shape
    kept = wide(v.dtype)
    out = _made_like(v)
    s, z = q.new_empty(b, h, w, v.shape[-1], dtype=kept), q.new_empty(b, h, w, dtype=kept)
    given = view(q), view(k), view(v), view(mask), view(s0), view(z0), view(decay)
    CORE.causal_forward(_sizes(q, v, feature_map), given, (view(out), view(s), view(z)))
    return out, s, z


@torch.library.custom_op("subquad::causal_linear", mutates_args=(), device_types="cpu")
def causal_linear(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    s0: Tensor | None,
    z0: Tensor | None,
    decay: Tensor | None,
    feature_map: str,
) -> tuple[Tensor, Tensor, Tensor]:
    return run_causal(q, k, v, mask, s0, z0, decay, feature_map)


@causal_linear.register_fake
def _(q, k, v, mask, s0, z0, decay, feature_map):  # type: ignore[no-untyped-def]  # noqa: ARG001
    b, h, _, w = q.shape
    kept = wide(v.dtype)
    s, z = q.new_empty(b, h, w, v.shape[-1], dtype=kept), q.new_empty(b, h, w, dtype=kept)
    return _like_heads(v), s, z


@torch.library.custom_op("subquad::causal_linear_backward", mutates_args=(), device_types="cpu")
def causal_linear_backward(
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
    """Gradients of q, k, v, s0, z0, decay; empty tensors for those not wanted."""
    made = _gradients(q, k, v, s0, decay, need_decay, _made_like)
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


def _gradients(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s0: Tensor | None,
    decay: Tensor | None,
    need_decay: bool,
    like: Callable[[Tensor], Tensor] = _like_heads,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    b, h, t, w = q.shape
    kept = wide(v.dtype)

    start = ((b, h, w, v.shape[-1]), (b, h, w)) if s0 is not None else ((0,), (0,))
    ds0, dz0 = (q.new_empty(shape, dtype=kept) for shape in start)
    wanted = need_decay and decay is not None
    ddecay = q.new_empty((b, h, t) if wanted else (0,), dtype=kept)
    return like(q), like(k), like(v), ds0, dz0, ddecay


@causal_linear_backward.register_fake
def _(dout, ds, dz, q, k, v, mask, s0, z0, decay, feature_map, need_decay):  # type: ignore[no-untyped-def]  # noqa: ARG001
    return _gradients(q, k, v, s0, decay, need_decay)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG001
    *tensors, ctx.feature_map = inputs
    ctx.save_for_backward(*tensors)
    ctx.set_materialize_grads(False)


def _causal_gradients(ctx: Any, dout: Tensor | None, ds: Tensor | None, dz: Tensor | None) -> Any:
    q, k, v, mask, s0, z0, decay = ctx.saved_tensors
    if dout is None:
        dout = v.new_zeros(()).expand(v.shape)
    need_decay = decay is not None and ctx.needs_input_grad[6]
    dq, dk, dv, ds0, dz0, ddecay = causal_linear_backward(
        dout, ds, dz, q, k, v, mask, s0, z0, decay, ctx.feature_map, need_decay
    )
    start = (None, None) if s0 is None else (ds0, dz0)
    return dq, dk, dv, None, *start, ddecay if need_decay else None, None


causal_linear.register_autograd(_causal_gradients, setup_context=_keep)


def run_all(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, feature_map: str) -> Tensor:
    """The bidirectional forward without any dispatch."""
    out = _made_like(v)
    given = view(q), view(k), view(v), view(mask)
    CORE.bidirectional_forward(_sizes(q, v, feature_map), given, (view(out),))
    return out


@torch.library.custom_op("subquad::all_linear", mutates_args=(), device_types="cpu")
def all_linear(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, feature_map: str) -> Tensor:
    return run_all(q, k, v, mask, feature_map)


@all_linear.register_fake
def _(q, k, v, mask, feature_map):  # type: ignore[no-untyped-def]  # noqa: ARG001
    return _like_heads(v)


@torch.library.custom_op("subquad::all_linear_backward", mutates_args=(), device_types="cpu")
def all_linear_backward(
    dout: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, feature_map: str
) -> tuple[Tensor, Tensor, Tensor]:
    made = _made_like(q), _made_like(k), _made_like(v)
    given = view(q), view(k), view(v), view(mask)
    views = tuple(view(x) for x in made)
    CORE.bidirectional_backward(_sizes(q, v, feature_map), (view(dout),), given, views)
    return made


@all_linear_backward.register_fake
def _(dout, q, k, v, mask, feature_map):  # type: ignore[no-untyped-def]  # noqa: ARG001
    return _like_heads(q), _like_heads(k), _like_heads(v)


def _all_gradients(ctx: Any, dout: Tensor) -> Any:
    q, k, v, mask = ctx.saved_tensors
    return *all_linear_backward(dout, q, k, v, mask, ctx.feature_map), None, None


def _keep_all(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG001
    *tensors, ctx.feature_map = inputs
    ctx.save_for_backward(*tensors)


all_linear.register_autograd(_all_gradients, setup_context=_keep_all)
