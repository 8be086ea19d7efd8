"""The native core as torch operators: ``subquad::causal_linear``, ``subquad::all_linear`` and their
backwards, with shapes for tracing and with gradients. Inputs as in ``plain``, which does the work.

A backward that is itself differentiated is refused by torch: the backward operators carry no
gradient formula.
"""

from typing import Any

import torch
from torch import Tensor

from subquad.kernels import plain
from subquad.kernels.calls import wide


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
    return plain.run_causal(q, k, v, mask, s0, z0, decay, feature_map)


@causal_linear.register_fake
def _(q, k, v, mask, s0, z0, decay, feature_map):  # type: ignore[no-untyped-def]  # noqa: ARG001
    b, h, _, w = q.shape
    kept = wide(v.dtype)
    s, z = q.new_empty(b, h, w, v.shape[-1], dtype=kept), q.new_empty(b, h, w, dtype=kept)
    return plain.like_heads(v), s, z


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
    return plain.run_causal_backward(
        dout, ds, dz, q, k, v, mask, s0, z0, decay, feature_map, need_decay
    )


@causal_linear_backward.register_fake
def _(dout, ds, dz, q, k, v, mask, s0, z0, decay, feature_map, need_decay):  # type: ignore[no-untyped-def]  # noqa: ARG001
    return plain.empty_gradients(q, k, v, s0, decay, need_decay)


def _causal_gradients(ctx: Any, *above: Tensor | None) -> Any:
    return plain.causal_gradients(ctx, causal_linear_backward, *above)


causal_linear.register_autograd(_causal_gradients, setup_context=plain.keep)


@torch.library.custom_op("subquad::all_linear", mutates_args=(), device_types="cpu")
def all_linear(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, feature_map: str) -> Tensor:
    return plain.run_all(q, k, v, mask, feature_map)


@all_linear.register_fake
def _(q, k, v, mask, feature_map):  # type: ignore[no-untyped-def]  # noqa: ARG001
    return plain.like_heads(v)


@torch.library.custom_op("subquad::all_linear_backward", mutates_args=(), device_types="cpu")
def all_linear_backward(
    dout: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, feature_map: str
) -> tuple[Tensor, Tensor, Tensor]:
    return plain.run_all_backward(dout, q, k, v, mask, feature_map)


@all_linear_backward.register_fake
def _(dout, q, k, v, mask, feature_map):  # type: ignore[no-untyped-def]  # noqa: ARG001
    return tuple(plain.like_heads(x) for x in (q, k, v))


def _all_gradients(ctx: Any, dout: Tensor | None) -> Any:
    return plain.all_gradients(ctx, all_linear_backward, dout)


all_linear.register_autograd(_all_gradients, setup_context=plain.keep)
