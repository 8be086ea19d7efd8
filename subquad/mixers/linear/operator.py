"""Causal linear attention by the standard ONNX operator ``LinearAttention``, added in opset 27.

With ``update_rule="linear"`` and ``scale=1`` it computes S_t = S_{t-1} + k_t ⊗ v_t and
o_t = S_tᵀ q_t: just the sums, with neither feature map nor normaliser. So φ is applied beforehand,
and V gets a column of ones: the last column of S is then Z, the last column of o is the divisor,
and one call computes both numerator and denominator.
"""

import torch
from einops import rearrange
from torch import Tensor

from subquad.mixers.base import CausalMixer, State, divide, zero_padding
from subquad.mixers.capabilities import OPERATOR_DOMAIN
from subquad.mixers.linear.forms import empty_state
from subquad.mixers.linear.learned import Maps
from subquad.mixers.linear.parts import LinearState, features
from subquad.mixers.projections import Projections
from subquad.shapes import Mask, Sequence

NAME = "LinearAttention"


class ByOperator(CausalMixer):
    """A mixer for export only: run in torch, its results are meaningless."""

    def __init__(self, projections: Projections, maps: Maps) -> None:
        super().__init__(projections.out.in_features)
        self.projections, self.maps = projections, maps

    def scan(
        self, x: Sequence, state: State | None = None, mask: Mask | None = None
    ) -> tuple[Sequence, LinearState]:
        q, k, v = self.projections.split(zero_padding(x, mask))
        q, k = self.maps(q, k)
        phi_q, phi_k, wide_v = features(q, k, v, self.maps.phi, mask)
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
        f"{OPERATOR_DOMAIN}::{NAME}",
        [*packed, state],
        {"q_num_heads": h, "kv_num_heads": h, "scale": 1.0, "update_rule": "linear"},
        dtypes=[v.dtype, state.dtype],
        shapes=[(b, t, h * m), state.shape],
        version=1,
    )
    return rearrange(y, "b t (h m) -> b h t m", h=h), end
