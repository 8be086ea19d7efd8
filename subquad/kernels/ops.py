"""The native core as torch operators: ``subquad::causal_linear``, ``subquad::all_linear`` and their
backward operators, which are the functions of ``linear_calls`` with shapes for tracing and with
gradients.

``Causal`` and ``All`` do the same without torch's dispatcher, whose overhead exceeds the cost of a
short sequence. They are for ordinary tensors when nothing is traced.

Second derivatives are not supported: the backward operators have no gradient formula, so that torch
raises an error.
"""

from typing import Any

import torch
from torch import Tensor

from subquad.kernels import linear_calls
from subquad.kernels.core_calls import wide

_options: dict[str, Any] = {"mutates_args": (), "device_types": "cpu"}
_operator = torch.library.custom_op
causal_linear = _operator("subquad::causal_linear", linear_calls.run_causal, **_options)
causal_linear_backward = _operator(
    "subquad::causal_linear_backward", linear_calls.run_causal_backward, **_options
)
all_linear = _operator("subquad::all_linear", linear_calls.run_all, **_options)
all_linear_backward = _operator(
    "subquad::all_linear_backward", linear_calls.run_all_backward, **_options
)


@causal_linear.register_fake
def _(q, k, v, mask, s0, z0, decay, feature_map):  # type: ignore[no-untyped-def]  # noqa: ARG001
    b, h, _, w = q.shape
    kept = wide(v.dtype)
    s, z = q.new_empty(b, h, w, v.shape[-1], dtype=kept), q.new_empty(b, h, w, dtype=kept)
    return linear_calls.like_heads(v), s, z


@causal_linear_backward.register_fake
def _(dout, ds, dz, q, k, v, mask, s0, z0, decay, feature_map, need_decay):  # type: ignore[no-untyped-def]  # noqa: ARG001
    return linear_calls.empty_gradients(q, k, v, s0, decay, need_decay)


@all_linear.register_fake
def _(q, k, v, mask, feature_map):  # type: ignore[no-untyped-def]  # noqa: ARG001
    return linear_calls.like_heads(v)


@all_linear_backward.register_fake
def _(dout, q, k, v, mask, feature_map):  # type: ignore[no-untyped-def]  # noqa: ARG001
    return tuple(linear_calls.like_heads(x) for x in (q, k, v))


def _causal_gradients(ctx: Any, *above: Tensor | None) -> Any:
    return linear_calls.causal_gradients(ctx, causal_linear_backward, *above)


def _all_gradients(ctx: Any, dout: Tensor | None) -> Any:
    return linear_calls.all_gradients(ctx, all_linear_backward, dout)


causal_linear.register_autograd(_causal_gradients, setup_context=linear_calls.keep)
all_linear.register_autograd(_all_gradients, setup_context=linear_calls.keep)


class Causal(torch.autograd.Function):
    """``run_causal`` with gradients, which raise if they are differentiated again."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
        linear_calls.keep(ctx, inputs)
        return linear_calls.run_causal(*inputs)

    @staticmethod
    def backward(ctx: Any, *above: Tensor | None) -> Any:
        again = torch.is_grad_enabled()
        form = causal_linear_backward if again else linear_calls.run_causal_backward
        return linear_calls.causal_gradients(ctx, form, *above)


class All(torch.autograd.Function):
    """``run_all`` with gradients, likewise."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        linear_calls.keep(ctx, inputs)
        return linear_calls.run_all(*inputs)

    @staticmethod
    def backward(ctx: Any, dout: Tensor | None) -> Any:
        again = torch.is_grad_enabled()
        form = all_linear_backward if again else linear_calls.run_all_backward
        return linear_calls.all_gradients(ctx, form, dout)
