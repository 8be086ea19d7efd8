"""Linear attention with a window of softmax attention, both in one divisor.

Zhang et al., "LoLCATs: On Low-Rank Linearizing of Large Language Models", 2024 (arXiv 2410.10254),
section 3.3, with blocks for a window: real tokens are counted in blocks of N, and W(i) is the block
of token i with its two neighbours (bidirectional), or its block up to i and the one before it
(causal). For one head,

    Eq. (W1)  V'_i = (Σ_{j∈W(i)} e_ij V_j + γ Σ_{j∉W(i)} φ_ij V_j) / (the same with 1 for V_j)
    Eq. (W2)  e_ij = exp(Q_iᵀ K_j / √k),  φ_ij = φ(Q_i)ᵀ φ(K_j)

where γ > 0 is learned. Computed as it stands, e_ij overflows; an offset of the exponents that is
not applied to φ_ij as well changes the result. So V' is computed as a mean of the two attentions,
which is the same without an offset: with E_i = Σ_{W(i)} e_ij and D_i = Σ_{∉W(i)} φ_ij,

    Eq. (W3)  V'_i = w_i Σ_{W(i)} e_ij V_j / E_i + (1 - w_i) Σ_{∉W(i)} φ_ij V_j / D_i
    Eq. (W4)  w_i = σ(log E_i - log γ - log D_i),  and 1 where D_i is zero

Where no token is outside the window, this is softmax attention. Cost: O(t·N·k + t·f·m) time for f
features, O(t·N) memory with gradients; without them, torch's fused attention needs O(t).
"""

import math
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from subquad.mixers.base import State, at_own_precision
from subquad.mixers.native import ordinary
from subquad.shapes import Heads, Mask, Sequence, Values

#: Logarithms of the sums of every query.
Logs: TypeAlias = Float[Tensor, "b h t"]


def compact(x: Sequence, mask: Mask) -> tuple[Sequence, Mask]:
    """The real tokens of each row first, in their order; the rest is zero and not real."""
    place = _places(mask)
    room = x.new_zeros(x.shape[0], x.shape[1] + 1, x.shape[2])  # the last takes what is not real
    first = room.scatter(1, place.unsqueeze(-1).expand_as(x), x)[:, :-1]
    at = torch.arange(x.shape[1], device=x.device)
    return first, at < mask.sum(1, keepdim=True)


def spread(y: Sequence, mask: Mask) -> Sequence:
    """The inverse of ``compact``; what is not real is arbitrary."""
    place = _places(mask).clamp(max=y.shape[1] - 1).unsqueeze(-1)
    return y.gather(1, place.expand(-1, -1, y.shape[2]))


def _places(mask: Mask) -> Tensor:
    return torch.where(mask, mask.cumsum(1) - 1, mask.shape[1])


def mean_of_both(
    near: Values,
    log_near: Logs,
    numerator: Values,
    denominator: Logs,
    log_gamma: Float[Tensor, "h"],
) -> Values:
    """V' of softmax attention over the window, and of the sums over what is outside."""
    empty = denominator < torch.finfo(denominator.dtype).tiny
    denominator = denominator.masked_fill(empty, 1)
    log_far = denominator.log() + log_gamma.unsqueeze(-1)
    w = torch.sigmoid(log_near - log_far).masked_fill(empty, 1)  # Eq. (W4)
    far = torch.sigmoid(log_far - log_near).masked_fill(empty, 0) / denominator
    return torch.addcmul(w.unsqueeze(-1) * near, far.unsqueeze(-1), numerator)  # Eq. (W3)


def softmax_over(
    q: Float[Tensor, "*b q k"],
    k: Float[Tensor, "*b s k"],
    v: Float[Tensor, "*b s m"],
    allowed: Bool[Tensor, "... s"],
) -> tuple[Float[Tensor, "*b q m"], Float[Tensor, "*b q"]]:
    """Softmax attention and the logarithm of its divisor; ``allowed`` is broadcast. A query that
    may read nothing gets an arbitrary mean, and the logarithm of a very small number."""
    scores = (q / math.sqrt(q.shape[-1])) @ k.mT
    scores = scores.masked_fill(~allowed, _nothing(q.dtype))
    largest = scores.amax(-1, keepdim=True).detach()
    e = (scores - largest).exp()  # Eq. (W2), with an offset that softmax does not see
    total = e.sum(-1, keepdim=True)
    return (e @ v) / total, (total.log() + largest).squeeze(-1)


def _nothing(dtype: torch.dtype) -> float:
    """A score whose exponential is zero beside any other's, and from which others can be taken."""
    return torch.finfo(dtype).min / 2


def fused_softmax_over(
    q: Float[Tensor, "b n q k"],
    k: Float[Tensor, "b n s k"],
    v: Float[Tensor, "b n s m"],
    allowed: Bool[Tensor, "#b #n #q s"],
) -> tuple[Float[Tensor, "b n q m"], Float[Tensor, "b n q"]]:
    """The same by torch's fused kernel for CPUs, without gradients."""
    bias = torch.zeros(allowed.shape, dtype=q.dtype).masked_fill_(~allowed, _nothing(q.dtype))
    y, log = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, attn_mask=bias)
    return y, log


def served(q: Heads) -> bool:
    """Whether the fused kernel can be used: on a CPU, and without gradients."""
    return ordinary(q) and not torch.is_grad_enabled()


#: Up to so many blocks, their running sums are fastest as one product with a matrix of zeros and
#: ones; its cost grows with the square of their number.
MANY = 512


class Blocks:
    """How ``t`` tokens lie in blocks.

    Args:
        t: number of tokens.
        size: N.
        after: whether the block after a token's is in its window.
    """

    def __init__(self, t: int, size: int, *, after: bool) -> None:
        self.t, self.size = t, size
        self.many = (t + size - 1) // size or 1
        self.fill = self.many * size - t
        self.wide = (3 if after else 2) * size
        self.end = size if after else 0

    def own(self, x: Float[Tensor, "b h t w"]) -> Float[Tensor, "b h n c w"]:
        x = nn.functional.pad(x, (0, 0, 0, self.fill))
        return x.unflatten(2, (self.many, self.size))

    def whole(self, x: Float[Tensor, "b h n c *w"]) -> Float[Tensor, "b h t *w"]:
        return x.flatten(2, 3)[:, :, : self.t]

    def windows(self, x: Float[Tensor, "b h t w"]) -> Float[Tensor, "b h n s w"]:
        """What every block reads (a view, in which windows overlap)."""
        x = nn.functional.pad(x, (0, 0, self.size, self.fill + self.end))
        return x.unfold(2, self.wide, self.size).mT

    def real(self, mask: Mask) -> Bool[Tensor, "b n s"]:
        padded = nn.functional.pad(mask, (self.size, self.fill + self.end))
        return padded.unfold(1, self.wide, self.size)

    def outside(self, parts: Float[Tensor, "b h n *w"]) -> Float[Tensor, "b h n *w"]:
        """For every block, the sum of the parts of the blocks outside its windows. The sums are
        added up, never subtracted: nothing outside is exactly zero."""
        if self.many > MANY:
            behind = _earlier(parts)
            return behind + _earlier(parts.flip(2)).flip(2) if self.end else behind
        at = torch.arange(self.many, device=parts.device)
        behind = at.unsqueeze(-1) - at
        wanted = behind.abs() > 1 if self.end else behind > 1
        return (wanted.to(parts.dtype) @ parts.flatten(3)).view_as(parts)


def _earlier(parts: Float[Tensor, "b h n *w"]) -> Float[Tensor, "b h n *w"]:
    """For every block, the sum of those before the one before it."""
    zeros = torch.zeros_like(parts[:, :, :2])
    return torch.cat([zeros, parts.cumsum(2)], dim=2)[:, :, : parts.shape[2]]


def near_blocks(
    q: Heads, k: Heads, v: Values, real: Mask, blocks: Blocks, band: int | None = None
) -> tuple[Values, Logs]:
    """Softmax attention over the windows, and log E, block by block; with a ``band``, over the
    tokens at that distance at most."""
    b, h, _, _ = q.shape
    own, k, v = blocks.own(q), blocks.windows(k), blocks.windows(v)
    allowed = blocks.real(real)[:, None, :, None, :]
    c = torch.arange(blocks.size, device=q.device).unsqueeze(-1) + blocks.size
    s = torch.arange(blocks.wide, device=q.device)
    if not blocks.end:  # its block up to i
        allowed = allowed & (s <= c)
    if band is not None:
        allowed = allowed & ((s - c).abs() <= band)
    if served(q):
        allowed = allowed.expand(b, h, *allowed.shape[2:]).flatten(0, 1) if b > 1 else allowed[0]
        own, k, v = own.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)
        y, log = fused_softmax_over(own, k, v, allowed)
        y, log = y.unflatten(0, (b, h)), log.unflatten(0, (b, h))
    else:
        y, log = softmax_over(own, k, v, allowed)
    return blocks.whole(y), blocks.whole(log)


@dataclass(frozen=True)
class WindowState(State):
    """What a causal form carries: S and Z of the tokens that have left the window; the keys and
    values of those that have not, from the beginning of a block, fewer than 2·N; how many these
    are; and how many tokens have been read in all. All in fp32 (or fp64)."""

    s: Float[Tensor, "b h f m"]
    z: Float[Tensor, "b h f"]
    k: Float[Tensor, "b h w k"]
    v: Float[Tensor, "b h w m"]
    held: Float[Tensor, "b"]
    seen: Float[Tensor, "b"]


@dataclass(frozen=True)
class Read:
    """What a form reads, in fp32 or wider: the real tokens of each row first (``compact``).

    Causal forms read new tokens behind those that the state holds, which begin with a block:
    queries are at ``held``, ``held + 1``, …. φ(K) and V are zero where ``real`` is False.
    """

    q: Float[Tensor, "b h t k"]
    phi_q: Float[Tensor, "b h t f"]
    k: Float[Tensor, "b h s k"]
    phi_k: Float[Tensor, "b h s f"]
    v: Float[Tensor, "b h s m"]
    real: Bool[Tensor, "b s"]
    held: Int[Tensor, "b"]
    start: WindowState

    def queries(self) -> tuple[Tensor, Tensor]:
        """The places of queries ``[b, t, 1]`` and keys ``[s]``."""
        at = torch.arange(self.k.shape[2], device=self.k.device)
        i = torch.arange(self.q.shape[2], device=self.k.device)
        return (self.held.unsqueeze(-1) + i).unsqueeze(-1), at


class Form(Protocol):
    """Computes V' ``[b, h, t, m]``, in fp32 or wider.

    Args:
        read: what is read.
        log_gamma: log γ of every head.
        size: N.
    """

    def __call__(self, read: Read, log_gamma: Float[Tensor, "h"], size: int) -> Values: ...


def defined(
    read: Read,
    near: Bool[Tensor, "b t s"],
    far: Bool[Tensor, "b t s"],
    log_gamma: Float[Tensor, "h"],
) -> Values:
    """The definition: all similarities, of which some are ``near`` and some ``far``."""
    y, log_near = softmax_over(read.q, read.k, read.v, near.unsqueeze(1))
    sim = (read.phi_q @ read.phi_k.mT).masked_fill(~far.unsqueeze(1), 0)
    numerator = sim @ read.v + read.phi_q @ read.start.s
    denominator = sim.sum(-1) + (read.phi_q @ read.start.z.unsqueeze(-1)).squeeze(-1)
    return mean_of_both(y, log_near, numerator, denominator, log_gamma)


@at_own_precision
def quadratic(read: Read, log_gamma: Float[Tensor, "h"], size: int) -> Values:
    """The definition, Eq. (W1)."""
    i, j = read.queries()
    near = (i // size - j // size).abs() <= 1
    real = read.real.unsqueeze(1)
    return defined(read, near & real, ~near & real, log_gamma)


@at_own_precision
def in_blocks(read: Read, log_gamma: Float[Tensor, "h"], size: int) -> Values:
    """The fast form."""
    blocks = Blocks(read.q.shape[2], size, after=True)
    near, log_near = near_blocks(read.q, read.k, read.v, read.real, blocks)
    own_k, own_v, own_q = (blocks.own(x) for x in (read.phi_k, read.v, read.phi_q))
    s, z = blocks.outside(own_k.mT @ own_v), blocks.outside(own_k.sum(3))
    numerator = blocks.whole(own_q @ s)
    denominator = blocks.whole((own_q @ z.unsqueeze(-1)).squeeze(-1))
    return mean_of_both(near, log_near, numerator, denominator, log_gamma)  # Eq. (W1)


FORMS: dict[str, Form] = {"quadratic": quadratic, "sums": in_blocks}
