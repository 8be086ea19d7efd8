"""Linear attention: a kernel replaces the softmax, so that the sum over keys can be accumulated.

Katharopoulos, Vyas, Pappas, Fleuret, "Transformers are RNNs", ICML 2020 (arXiv 2006.16236).
With φ the feature map (``linear/feature_maps.py``), row vectors Q_i, K_i, V_i and one head:

    Eq. (5)   V'_i = φ(Q_i)ᵀ Σ_j φ(K_j) V_jᵀ / φ(Q_i)ᵀ Σ_j φ(K_j)     bidirectional
    Eq. (9)   V'_i = φ(Q_i)ᵀ S_i / φ(Q_i)ᵀ Z_i                       causal, where
    Eq. (10)  S_i = Σ_{j≤i} φ(K_j) V_jᵀ
    Eq. (11)  Z_i = Σ_{j≤i} φ(K_j)
    Eq. (18)  s_i = s_{i-1} + φ(x_i W_K) (x_i W_V)ᵀ                  the same, as an RNN
    Eq. (19)  z_i = z_{i-1} + φ(x_i W_K)

Cost: O(t·k·m) time and O(k·m) state per head, against O(t²·k) and O(t·k) for softmax attention.
With a decay γ (not in the paper), S_i = γ_i S_{i-1} + φ(K_i) V_iᵀ, and Z likewise.
There is no 1/√k scale (the paper has none) and no epsilon in the divisor: as φ ≥ 0, the divisor is
zero only if no token has been seen (or all features are zero), and the result is then defined as
zero.

The causal forms below are the same function implemented in several ways, with one signature. The
``native`` form (``linear/native.py``) is the C++ core, fused into one pass over memory.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from subquad.mixers.base import at_own_precision, divide
from subquad.mixers.linear.feature_maps import FeatureMap, elu_plus_one
from subquad.mixers.linear.native import native, native_bidirectional
from subquad.mixers.linear.parts import LinearState, decay_products, decays, features
from subquad.shapes import Heads, Mask, Values


class CausalForm(Protocol):
    """The signature of all causal forms. Sums are accumulated in fp32 or wider.

    Args:
        q, k: ``[b, h, t, k]``, before the feature map.
        v: ``[b, h, t, m]``.
        phi: the feature map φ.
        mask: ``[b, t]``, True at real tokens. Masked tokens leave the state unchanged.
        state: the state to continue from; None at the start.
        decay: γ, per head ``[h]`` or per position ``[b, h, t]``; None for no decay.

    Returns:
        V' ``[b, h, t, m]`` in the dtype of ``v``, and the state after the last token.
    """

    def __call__(
        self,
        q: Heads,
        k: Heads,
        v: Values,
        *,
        phi: FeatureMap = elu_plus_one,
        mask: Mask | None = None,
        state: LinearState | None = None,
        decay: Tensor | None = None,
    ) -> tuple[Values, LinearState]: ...


def empty_state(phi_k: Heads, v: Values) -> LinearState:
    """s_0 = 0, z_0 = 0."""
    b, h, _, k = phi_k.shape
    return LinearState(s=v.new_zeros(b, h, k, v.shape[-1]), z=v.new_zeros(b, h, k))


@at_own_precision
def bidirectional(
    q: Heads, k: Heads, v: Values, *, phi: FeatureMap = elu_plus_one, mask: Mask | None = None
) -> Values:
    """Every token reads the sums over the whole sequence, in O(t·k·m) and without a state."""
    phi_q, phi_k, wide_v = features(q, k, v, phi, mask)
    s = torch.einsum("bhtk,bhtm->bhkm", phi_k, wide_v)
    z = phi_k.sum(dim=2)
    out = divide(phi_q @ s, torch.einsum("bhtk,bhk->bht", phi_q, z).unsqueeze(-1))  # Eq. (5)
    return out.to(v.dtype)


@at_own_precision
def quadratic(
    q: Heads,
    k: Heads,
    v: Values,
    *,
    phi: FeatureMap = elu_plus_one,
    mask: Mask | None = None,
    state: LinearState | None = None,
    decay: Tensor | None = None,
) -> tuple[Values, LinearState]:
    """The definition: all t² similarities, with those to later tokens masked out. This is the form
    to read, and the reference for tests."""
    phi_q, phi_k, wide_v = features(q, k, v, phi, mask)
    start = state or empty_state(phi_k, wide_v)
    left_q, left_k, left_0 = phi_q, phi_k, None  # what is left of them after the decay
    sim = (phi_q @ phi_k.mT).tril()
    if decay is not None and q.shape[2] > 0:
        between, since_start = decay_products(decays(decay, mask, phi_k))
        sim = sim * between
        left_q, left_0 = phi_q * since_start.unsqueeze(-1), since_start[..., -1, None]
        left_k = phi_k * between[..., -1, :, None]
    numerator = sim @ wide_v + left_q @ start.s  # Eq. (10)
    denominator = sim.sum(-1) + torch.einsum("bhtk,bhk->bht", left_q, start.z)  # Eq. (11)
    out = divide(numerator, denominator.unsqueeze(-1))  # Eq. (9)
    s, z = (
        (start.s, start.z) if left_0 is None else (left_0.unsqueeze(-1) * start.s, left_0 * start.z)
    )
    end = LinearState(s=s + left_k.mT @ wide_v, z=z + left_k.sum(2))
    return out.to(v.dtype), end


@at_own_precision
def recurrent(
    q: Heads,
    k: Heads,
    v: Values,
    *,
    phi: FeatureMap = elu_plus_one,
    mask: Mask | None = None,
    state: LinearState | None = None,
    decay: Tensor | None = None,
) -> tuple[Values, LinearState]:
    """The RNN form: one token at a time, with constant time and memory per token."""
    phi_q, phi_k, wide_v = features(q, k, v, phi, mask)
    start = state or empty_state(phi_k, wide_v)
    s, z = start.s, start.z
    gamma = None if decay is None else decays(decay, mask, phi_k)
    outputs = []
    for i in range(q.shape[2]):
        if gamma is not None:
            s, z = gamma[:, :, i, None, None] * s, gamma[:, :, i, None] * z
        s = s + phi_k[:, :, i, :, None] * wide_v[:, :, i, None, :]  # Eq. (18)
        z = z + phi_k[:, :, i]  # Eq. (19)
        numerator = torch.einsum("bhk,bhkm->bhm", phi_q[:, :, i], s)
        denominator = (phi_q[:, :, i] * z).sum(-1, keepdim=True)
        outputs.append(divide(numerator, denominator))  # Eq. (9)
    out = torch.stack(outputs, dim=2) if outputs else torch.zeros_like(wide_v)
    return out.to(v.dtype), LinearState(s=s, z=z)


#: Tokens per chunk: the most for which the quadratic part within a chunk is still cheaper than the
#: part that goes through the state.
CHUNK = 64


@at_own_precision
def chunked(
    q: Heads,
    k: Heads,
    v: Values,
    *,
    phi: FeatureMap = elu_plus_one,
    mask: Mask | None = None,
    state: LinearState | None = None,
    decay: Tensor | None = None,
) -> tuple[Values, LinearState]:
    """The fast parallel form: quadratic inside chunks of ``CHUNK`` tokens, recurrent between them.

    The last chunk is padded with tokens whose features are zero, which does not change the result.
    """
    t = q.shape[2]
    phi_q, phi_k, wide_v = features(q, k, v, phi, mask)
    start = state or empty_state(phi_k, wide_v)
    if t == 0:
        return torch.zeros_like(v), start
    fill = -t % CHUNK
    gamma = None if decay is None else decays(decay, mask, phi_k)
    phi_q, phi_k, wide_v = (
        rearrange(nn.functional.pad(x, (0, 0, 0, fill)), "b h (n c) w -> b h n c w", c=CHUNK)
        for x in (phi_q, phi_k, wide_v)
    )
    sim = (phi_q @ phi_k.mT).tril()
    left_q, left_k, chunk_gamma = phi_q, phi_k, None
    if gamma is not None:
        gamma = rearrange(
            nn.functional.pad(gamma, (0, fill), value=1), "b h (n c) -> b h n c", c=CHUNK
        )
        between, since_start = decay_products(gamma)
        sim, left_q = sim * between, phi_q * since_start.unsqueeze(-1)
        left_k, chunk_gamma = phi_k * between[..., -1, :, None], since_start[..., -1]
    s_all = _running(
        left_k.mT @ wide_v, start.s, chunk_gamma
    )  # Eq. (10), before and after each chunk
    z_all = _running(left_k.sum(3), start.z, chunk_gamma)  # Eq. (11), likewise
    numerator = sim @ wide_v + left_q @ s_all[:, :, :-1]
    denominator = sim.sum(-1, keepdim=True) + left_q @ z_all[:, :, :-1].unsqueeze(-1)
    out = rearrange(divide(numerator, denominator), "b h n c m -> b h (n c) m")[:, :, :t]  # Eq. (9)
    end = LinearState(s=s_all[:, :, -1], z=z_all[:, :, -1])
    # Clone, because a view would keep the states of all chunks in memory.
    return out.to(v.dtype), end.map(Tensor.clone)


def _running(parts: Tensor, start: Tensor, gamma: Float[Tensor, "b h n"] | None) -> Tensor:
    """``start``, then the running sum after each of n parts ``[b, h, n, ...]``: n + 1 values."""
    if gamma is None:
        return torch.cat([start.unsqueeze(2), parts.cumsum(2) + start.unsqueeze(2)], dim=2)
    sums = [start]
    for i in range(parts.shape[2]):
        factor = gamma[:, :, i].reshape(*gamma.shape[:2], *[1] * (start.dim() - 2))
        sums.append(factor * sums[-1] + parts[:, :, i])
    return torch.stack(sums, dim=2)


CAUSAL_FORMS: dict[str, CausalForm] = {
    "quadratic": quadratic,
    "chunked": chunked,
    "recurrent": recurrent,
    "native": native,
}

BIDIRECTIONAL_FORMS: dict[str, Callable[..., Values]] = {
    "sums": bidirectional,
    "native": native_bidirectional,
}
