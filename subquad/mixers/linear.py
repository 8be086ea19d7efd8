"""Linear attention: softmax replaced by a kernel, so that the sum over keys is kept, not redone.

Katharopoulos, Vyas, Pappas, Fleuret, "Transformers are RNNs", ICML 2020 (arXiv 2006.16236).
With φ the feature map (``feature_maps``), row vectors Q_i, K_i, V_i and one head:

    Eq. (5)   V'_i = φ(Q_i)ᵀ Σ_j φ(K_j) V_jᵀ / φ(Q_i)ᵀ Σ_j φ(K_j)     bidirectional
    Eq. (9)   V'_i = φ(Q_i)ᵀ S_i / φ(Q_i)ᵀ Z_i                       causal, where
    Eq. (10)  S_i = Σ_{j≤i} φ(K_j) V_jᵀ
    Eq. (11)  Z_i = Σ_{j≤i} φ(K_j)
    Eq. (18)  s_i = s_{i-1} + φ(x_i W_K) (x_i W_V)ᵀ                  the same, as an RNN
    Eq. (19)  z_i = z_{i-1} + φ(x_i W_K)

Cost: O(t·k·m) time and O(k·m) state per head, against softmax's O(t²·k) and O(t·k).
There is no 1/√k scale (the paper has none) and no epsilon in the divisor: φ ≥ 0, so the divisor
is zero only where nothing has been seen, and there the result is zero by definition.

The three causal forms below are one function written three ways; they share one signature.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from subquad.mixers.base import CausalMixer, Mixer, State, at_own_precision, zero_padding
from subquad.mixers.feature_maps import FeatureMap, elu_plus_one, feature_map
from subquad.mixers.projections import Projections
from subquad.shapes import Heads, Mask, Sequence, Values


@dataclass(frozen=True)
class LinearState(State):
    """S and Z of Eq. (10) and (11), fp32 (fp64 stays): a fixed size, whatever has been read."""

    s: Float[Tensor, "b h k m"]
    z: Float[Tensor, "b h k"]


class CausalForm(Protocol):
    """The signature that all causal forms share.

    Args: ``q``, ``k`` ``[b, h, t, k]`` before the feature map; ``v`` ``[b, h, t, m]``; ``mask``
    ``[b, t]``, True = real; ``state`` to continue from. Returns V' ``[b, h, t, m]`` in the dtype
    of ``v`` and the state after the last token. Sums are fp32 or wider.
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
    ) -> tuple[Values, LinearState]: ...


def divide(numerator: Tensor, denominator: Tensor) -> Tensor:
    """numerator / denominator, and zero where the denominator is (nothing has been seen)."""
    empty = denominator == 0
    return (numerator / denominator.masked_fill(empty, 1)).masked_fill(empty, 0)


def features(
    q: Heads, k: Heads, v: Values, phi: FeatureMap, mask: Mask | None
) -> tuple[Heads, Heads, Values]:
    """φ(Q), φ(K), V in fp32 (fp64 stays). The mask zeroes φ(K) and V *after* the map: φ(0) ≠ 0."""
    wide = torch.promote_types(q.dtype, torch.float32)
    phi_q, phi_k, v = phi(q.to(wide)), phi(k.to(wide)), v.to(wide)
    if mask is not None:
        hidden = ~mask[:, None, :, None]
        phi_k, v = phi_k.masked_fill(hidden, 0), v.masked_fill(hidden, 0)
    return phi_q, phi_k, v


def empty_state(phi_k: Heads, v: Values) -> LinearState:
    """s_0 = 0, z_0 = 0."""
    b, h, _, k = phi_k.shape
    return LinearState(s=v.new_zeros(b, h, k, v.shape[-1]), z=v.new_zeros(b, h, k))


@at_own_precision
def bidirectional(
    q: Heads, k: Heads, v: Values, *, phi: FeatureMap = elu_plus_one, mask: Mask | None = None
) -> Values:
    """Every token reads the sum over the whole row: O(t·k·m), and no state to carry."""
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
) -> tuple[Values, LinearState]:
    """The definition: all t² similarities, those ahead struck out. For reading and for tests."""
    phi_q, phi_k, wide_v = features(q, k, v, phi, mask)
    start = state or empty_state(phi_k, wide_v)
    sim = (phi_q @ phi_k.mT).tril()
    numerator = sim @ wide_v + phi_q @ start.s  # Eq. (10)
    denominator = sim.sum(-1) + torch.einsum("bhtk,bhk->bht", phi_q, start.z)  # Eq. (11)
    out = divide(numerator, denominator.unsqueeze(-1))  # Eq. (9)
    end = LinearState(s=start.s + phi_k.mT @ wide_v, z=start.z + phi_k.sum(2))
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
) -> tuple[Values, LinearState]:
    """The RNN: one token at a time, constant time and memory per token."""
    phi_q, phi_k, wide_v = features(q, k, v, phi, mask)
    start = state or empty_state(phi_k, wide_v)
    s, z = start.s, start.z
    outputs = []
    for i in range(q.shape[2]):
        s = s + phi_k[:, :, i, :, None] * wide_v[:, :, i, None, :]  # Eq. (18)
        z = z + phi_k[:, :, i]  # Eq. (19)
        numerator = torch.einsum("bhk,bhkm->bhm", phi_q[:, :, i], s)
        denominator = (phi_q[:, :, i] * z).sum(-1, keepdim=True)
        outputs.append(divide(numerator, denominator))  # Eq. (9)
    out = torch.stack(outputs, dim=2) if outputs else torch.zeros_like(wide_v)
    return out.to(v.dtype), LinearState(s=s, z=z)


#: Tokens per chunk: the widest for which a chunk's own t² part stays cheaper than its state part.
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
) -> tuple[Values, LinearState]:
    """The fast parallel form: quadratic inside chunks of ``CHUNK`` tokens, recurrent between them.

    The last chunk is filled with tokens whose features are zero, which changes nothing.
    """
    t = q.shape[2]
    phi_q, phi_k, wide_v = features(q, k, v, phi, mask)
    start = state or empty_state(phi_k, wide_v)
    fill = -t % CHUNK
    phi_q, phi_k, wide_v = (
        rearrange(nn.functional.pad(x, (0, 0, 0, fill)), "b h (n c) w -> b h n c w", c=CHUNK)
        for x in (phi_q, phi_k, wide_v)
    )
    s_ends = (phi_k.mT @ wide_v).cumsum(2) + start.s.unsqueeze(2)  # Eq. (10), at chunk ends
    z_ends = phi_k.sum(3).cumsum(2) + start.z.unsqueeze(2)  # Eq. (11), at chunk ends
    s_starts = torch.cat([start.s.unsqueeze(2), s_ends[:, :, :-1]], dim=2)
    z_starts = torch.cat([start.z.unsqueeze(2), z_ends[:, :, :-1]], dim=2)
    sim = (phi_q @ phi_k.mT).tril()
    numerator = sim @ wide_v + phi_q @ s_starts
    denominator = sim.sum(-1, keepdim=True) + phi_q @ z_starts.unsqueeze(-1)
    out = rearrange(divide(numerator, denominator), "b h n c m -> b h (n c) m")[:, :, :t]  # Eq. (9)
    if t == 0:
        return out.to(v.dtype), start
    end = LinearState(s=s_ends[:, :, -1], z=z_ends[:, :, -1])
    return out.to(v.dtype), end.clone()  # a view would keep the ends of all chunks alive


CAUSAL_FORMS: dict[str, CausalForm] = {
    "quadratic": quadratic,
    "chunked": chunked,
    "recurrent": recurrent,
}


class LinearAttention(Mixer):
    """Bidirectional linear attention, Eq. (5).

    Args: ``d`` width; ``heads``; ``feature_map`` one of ``feature_maps.FEATURE_MAPS``.
    """

    def __init__(self, d: int, *, heads: int, feature_map: str = "elu+1") -> None:
        super().__init__()
        self.phi = _named_map(feature_map)
        self.projections = Projections(d, heads)

    def forward(self, x: Sequence, mask: Mask | None = None) -> Sequence:
        q, k, v = self.projections.split(zero_padding(x, mask))
        y = self.projections.merge(bidirectional(q, k, v, phi=self.phi, mask=mask))
        return zero_padding(y, mask)


class CausalLinearAttention(CausalMixer):
    """Causal linear attention, Eq. (9): the Transformer that is an RNN.

    Args: ``d`` width; ``heads``; ``feature_map`` one of ``feature_maps.FEATURE_MAPS``; ``form``
    one of ``CAUSAL_FORMS``, used for more than one token. A single token takes the recurrent form,
    which is then the same arithmetic.
    """

    def __init__(
        self, d: int, *, heads: int, feature_map: str = "elu+1", form: str = "chunked"
    ) -> None:
        super().__init__()
        if form not in CAUSAL_FORMS:
            raise ValueError(f"form={form!r} is not one of {', '.join(CAUSAL_FORMS)}")
        self.phi = _named_map(feature_map)
        self.form = form
        self.projections = Projections(d, heads)

    def scan(
        self, x: Sequence, state: State | None = None, mask: Mask | None = None
    ) -> tuple[Sequence, LinearState]:
        if state is not None and not isinstance(state, LinearState):
            raise TypeError(f"linear attention continues a LinearState, not {type(state).__name__}")
        q, k, v = self.projections.split(zero_padding(x, mask))
        form = recurrent if x.shape[1] == 1 else CAUSAL_FORMS[self.form]
        y, after = form(q, k, v, phi=self.phi, mask=mask, state=state)
        return zero_padding(self.projections.merge(y), mask), after


_named_map = feature_map  # the classes' argument of the same name hides it
