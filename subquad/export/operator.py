"""Causal linear attention by ONNX's own operator ``LinearAttention``, which opset 27 brought.

With ``update_rule="linear"`` and ``scale=1`` it computes S_t = S_{t-1} + k_t ⊗ v_t and
o_t = S_tᵀ q_t: the sums alone, neither feature map nor normaliser. So φ is applied before it, and V
gets a column of ones: the last column of S is then Z, the last of o the divisor, and one call gives
both parts of the fraction.

torch's exporter knows opsets up to 25, so a graph is made at an older one with the operator under a
name of our own; onnx converts it to 27, and then the operator gets its own name.
"""

from typing import Any

import torch
from einops import rearrange
from torch import Tensor

from subquad.errors import UsageError
from subquad.mixers import State
from subquad.mixers.base import zero_padding
from subquad.mixers.linear import CausalLinearAttention, empty_state
from subquad.mixers.linear_parts import LinearState, divide, features
from subquad.shapes import Mask, Sequence

OPSET = 27
#: The operator's home until the graph is at its opset.
_DOMAIN = "subquad"


class ByOperator(CausalLinearAttention):
    """A mixer for graphs only: run by torch itself it returns nothing meaningful."""

    def scan(
        self, x: Sequence, state: State | None = None, mask: Mask | None = None
    ) -> tuple[Sequence, LinearState]:
        q, k, v = self.projections.split(zero_padding(x, mask))
        phi_q, phi_k, wide_v = features(q, k, v, self.phi, mask)
        start = empty_state(phi_k, wide_v) if state is None else state
        assert isinstance(start, LinearState)
        ones = torch.ones_like(wide_v[..., :1])
        y, end = _operator(
            phi_q,
            phi_k,
            torch.cat([wide_v, ones], -1),
            torch.cat([start.s, start.z.unsqueeze(-1)], -1),
        )
        out = self.projections.merge(divide(y[..., :-1], y[..., -1:]).to(v.dtype))
        return zero_padding(out, mask), LinearState(s=end[..., :-1], z=end[..., -1])


def _operator(q: Tensor, k: Tensor, v: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """o ``[b, h, t, m]`` and the state after, from q, k ``[b, h, t, k]``, v ``[b, h, t, m]``."""
    b, h, t, m = v.shape
    packed = [rearrange(x, "b h t w -> b t (h w)") for x in (q, k, v)]
    y, end = torch.onnx.ops.symbolic_multi_out(
        f"{_DOMAIN}::LinearAttention",
        [*packed, state],
        {"q_num_heads": h, "kv_num_heads": h, "scale": 1.0, "update_rule": "linear"},
        dtypes=[v.dtype, state.dtype],
        shapes=[(b, t, h * m), state.shape],
        version=1,
    )
    return rearrange(y, "b t (h m) -> b h t m", h=h), end


def known() -> None:
    """Raises UsageError where the installed onnx does not define the operator."""
    import onnx

    if onnx.defs.onnx_opset_version() < OPSET:
        raise UsageError(
            f"onnx {onnx.__version__} ends at opset {onnx.defs.onnx_opset_version()}, "
            f"LinearAttention came with {OPSET}: pip install 'onnx>=1.22'"
        )


def standard(model: Any) -> Any:
    """An ``onnx.ModelProto`` at opset 27, the operator under its own name."""
    import onnx

    made = onnx.version_converter.convert_version(model, OPSET)
    for node in made.graph.node:
        if node.domain == _DOMAIN:
            node.domain = ""
    del made.opset_import[:]
    made.opset_import.append(onnx.helper.make_opsetid("", OPSET))
    made.ir_version = onnx.helper.find_min_ir_version_for(made.opset_import)
    onnx.checker.check_model(made, full_check=True)
    return made
