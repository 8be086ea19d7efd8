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
With a decay γ (not the paper's), S_i = γ_i S_{i-1} + φ(K_i) V_iᵀ, and Z likewise.
There is no 1/√k scale (the paper has none) and no epsilon in the divisor: φ ≥ 0, so the divisor
is zero only where nothing has been seen, and there the result is zero by definition.

The causal forms below are one function written in several ways; they share one signature. The
``native`` form (``linear_native``) is the C++ core, fused to one pass over memory.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from subquad.mixers.base import CausalMixer, Mixer, State, at_own_precision, zero_padding
from subquad.mixers.feature_maps import FeatureMap, elu_plus_one, feature_map
from subquad.mixers.linear_native import native, native_bidirectional
from subquad.mixers.linear_parts import LinearState, decay_products, decays, divide, features
from subquad.mixers.native import core_serves
from subquad.mixers.projections import Projections
from subquad.shapes import Heads, Mask, Sequence, Values


class CausalForm(Protocol):
    """The signature that all causal forms share.

    Args: ``q``, ``k`` ``[b, h, t, k]`` before the feature map; ``v`` ``[b, h, t, m]``; ``mask``
    ``[b, t]``, True = real; ``state`` to continue from; ``decay`` γ per head ``[h]`` or per
    position ``[b, h, t]`` (at a masked token it is 1: the state stays). Returns V' ``[b, h, t, m]``
    in the dtype of ``v`` and the state after the last token. Sums are fp32 or wider.
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
    decay: Tensor | None = None,
) -> tuple[Values, LinearState]:
    """The definition: all t² similarities, those ahead struck out. For reading and for tests."""
    phi_q, phi_k, wide_v = features(q, k, v, phi, mask)
    start = state or empty_state(phi_k, wide_v)
    left_q, left_k, left_0 = phi_q, phi_k, None  # what the decay leaves of them
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
    """The RNN: one token at a time, constant time and memory per token."""
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
    decay: Tensor | None = None,
) -> tuple[Values, LinearState]:
    """The fast parallel form: quadratic inside chunks of ``CHUNK`` tokens, recurrent between them.

    The last chunk is filled with tokens whose features are zero, which changes nothing.
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
    )  # Eq. (10), before each chunk and after
    z_all = _running(left_k.sum(3), start.z, chunk_gamma)  # Eq. (11), the same
    numerator = sim @ wide_v + left_q @ s_all[:, :, :-1]
    denominator = sim.sum(-1, keepdim=True) + left_q @ z_all[:, :, :-1].unsqueeze(-1)
    out = rearrange(divide(numerator, denominator), "b h n c m -> b h (n c) m")[:, :, :t]  # Eq. (9)
    end = LinearState(s=s_all[:, :, -1], z=z_all[:, :, -1])
    # A view would keep the ends of all chunks alive.
    return out.to(v.dtype), end.map(Tensor.clone)


def _running(parts: Tensor, start: Tensor, gamma: Float[Tensor, "b h n"] | None) -> Tensor:
    """``start`` and the sums after each of n parts ``[b, h, n, ...]``: n + 1 of them."""
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


def _known(form: str, forms: Iterable[str]) -> str:
    known = ["auto", *forms]
    if form not in known:
        raise ValueError(f"form={form!r} is not one of {', '.join(known)}")
    return form


class LinearAttention(Mixer):
    """Bidirectional linear attention, Eq. (5).

    Args: ``d`` width; ``heads``; ``feature_map`` one of ``feature_maps.FEATURE_MAPS``; ``form`` one
    of ``BIDIRECTIONAL_FORMS``, or ``"auto"``: ``native`` where the C++ core is in use and tensors
    are on the CPU, else ``sums``.
    """

    def __init__(
        self, d: int, *, heads: int, feature_map: str = "elu+1", form: str = "auto"
    ) -> None:
        super().__init__()
        self.phi = _named_map(feature_map)
        self.form = _known(form, BIDIRECTIONAL_FORMS)
        self.projections = Projections(d, heads)

    def forward(self, x: Sequence, mask: Mask | None = None) -> Sequence:
        q, k, v = self.projections.split(zero_padding(x, mask))
        name = self.form
        if name == "auto":
            name = "native" if core_serves(q) else "sums"
        y = BIDIRECTIONAL_FORMS[name](q, k, v, phi=self.phi, mask=mask)
        return zero_padding(self.projections.merge(y), mask)


class CausalLinearAttention(CausalMixer):
    """Causal linear attention, Eq. (9): the Transformer that is an RNN.

    Args: ``d`` width; ``heads``; ``feature_map`` one of ``feature_maps.FEATURE_MAPS``; ``form`` one
    of ``CAUSAL_FORMS``, or ``"auto"``: ``native`` where the C++ core is in use and the tensors are
    on the CPU, else ``chunked`` (``recurrent`` for a single token: the same arithmetic, and less;
    ``quadratic`` for ``torch.export``: a graph of chunks would fix their number). A form that is
    named is the one that runs.
    """

    def __init__(
        self, d: int, *, heads: int, feature_map: str = "elu+1", form: str = "auto"
    ) -> None:
        super().__init__()
        self.phi = _named_map(feature_map)
        self.form = _known(form, CAUSAL_FORMS)
        self.projections = Projections(d, heads)

    def scan(
        self, x: Sequence, state: State | None = None, mask: Mask | None = None
    ) -> tuple[Sequence, LinearState]:
        if state is not None and not isinstance(state, LinearState):
            raise TypeError(f"linear attention continues a LinearState, not {type(state).__name__}")
        q, k, v = self.projections.split(zero_padding(x, mask))
        name = self.form
        if name == "auto":
            many = "quadratic" if torch.compiler.is_exporting() else "chunked"
            torch_form = "recurrent" if x.shape[1] == 1 else many
            name = "native" if core_serves(q) else torch_form
        y, after = CAUSAL_FORMS[name](q, k, v, phi=self.phi, mask=mask, state=state)
        return zero_padding(self.projections.merge(y), mask), after


_named_map = feature_map  # the classes' argument of the same name hides it
