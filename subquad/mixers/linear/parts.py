"""What all forms of linear attention share: the state, the features and the decay."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from subquad.mixers.base import State
from subquad.mixers.linear.feature_maps import FeatureMap
from subquad.shapes import Heads, Mask, Values


@dataclass(frozen=True)
class LinearState(State):
    """S and Z of Eq. (10) and (11), in fp32 (or fp64): a fixed size, however much has been read."""

    s: Float[Tensor, "b h k m"]
    z: Float[Tensor, "b h k"]


def features(
    q: Heads, k: Heads, v: Values, phi: FeatureMap, mask: Mask | None
) -> tuple[Heads, Heads, Values]:
    """φ(Q), φ(K) and V in fp32 (or fp64 if given). φ(K) and V are masked *after* the map, because
    φ(0) need not be zero."""
    dtype = torch.promote_types(q.dtype, torch.float32)
    phi_q, phi_k, v = phi(q.to(dtype)), phi(k.to(dtype)), v.to(dtype)
    if mask is not None:
        hidden = ~mask[:, None, :, None]
        phi_k, v = phi_k.masked_fill(hidden, 0), v.masked_fill(hidden, 0)
    return phi_q, phi_k, v


def decays(decay: Tensor, mask: Mask | None, phi_k: Heads) -> Float[Tensor, "b h t"]:
    """γ at every position; 1 at masked ones, which leave the state unchanged."""
    b, h, t, _ = phi_k.shape
    gamma = decay.to(phi_k.dtype)
    gamma = gamma.view(1, h, 1).expand(b, h, t) if gamma.dim() == 1 else gamma
    return gamma if mask is None else gamma.masked_fill(~mask.unsqueeze(1), 1)


def decay_products(gamma: Float[Tensor, "*b t"]) -> tuple[Tensor, Tensor]:
    """The decay from token j to token i, γ_{j+1}···γ_i, ``[*b, i, j]`` (zero for j > i), and from
    the start to i, γ_1···γ_i, ``[*b, i]``. Computed without division, because γ may be zero."""
    t = gamma.shape[-1]
    after = torch.ones(t, t, dtype=torch.bool, device=gamma.device).tril(-1)
    factors = torch.where(after, gamma.unsqueeze(-1), 1)
    return factors.cumprod(-2).tril(), gamma.cumprod(-1)
