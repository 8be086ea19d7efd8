"""A causal Fastformer: additive attention whose global vectors cover the tokens read so far.

This is not the paper's model with a causal mask, which would have to recompute p_i = q ∗ k_i for
every position, in O(t²). Here each token's p is computed once, from the global query of *its own*
prefix, so that everything is a running softmax-weighted mean. Per head, for token i:

    Eq. (3)   α_ij = softmax_{j≤i}(w_qᵀ q_j / √d_head)
    Eq. (4)   q̄_i = Σ_{j≤i} α_ij q_j                   global query of the prefix
    Eq. (5)   p_i = q̄_i ∗ k_i;  β_ij = softmax_{j≤i}(w_kᵀ p_j / √d_head)
    Eq. (6)   k̄_i = Σ_{j≤i} β_ij p_j                   global key of the prefix
    Eq. (7)   u_i = k̄_i ∗ v_i,  with v_i = q_i; output_i = W u_i + q_i

(the paper's numbering, over prefixes). With one column, the last token gets the same output as in
the bidirectional Fastformer; with more it does not, because earlier p were computed from less.

Each mean is carried as its largest score m, Σ exp(s_j - m) x_j and Σ exp(s_j - m), so that no
exponential overflows and none that matters underflows. Cost: O(t·d) besides the projections; the
state is O(d) per column, however much has been read. All sums are fp32 or wider.

The forms below pool one column each and share one signature.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn

from subquad.mixers.base import CausalMixer, State, at_own_precision, divide, zero_padding
from subquad.mixers.fastformer.weights import AdditiveAttention, Chain, meet
from subquad.shapes import Heads, Mask, Sequence


@dataclass(frozen=True)
class PooledState(State):
    """Running means of one column, or of all (``c``), in fp32 (or fp64): a fixed size."""

    largest: Float[Tensor, "b *c h"]
    """The largest score so far; the lowest finite number at the start."""
    total: Float[Tensor, "b *c h k"]
    """Σ exp(s_j - largest) x_j."""
    weight: Float[Tensor, "b *c h"]
    """Σ exp(s_j - largest)."""


class PoolingForm(Protocol):
    """The signature of all forms; tensors are fp32 or wider. The shift by the largest score cancels
    out, so that no gradient flows through it.

    Args:
        x: what is pooled, ``[b, h, t, k]``.
        scores: ``[b, h, t]``.
        start: the state to continue from.
        mask: ``[b, t]``, True at real tokens.

    Returns:
        The mean over each prefix ``[b, h, t, k]``, and the state after the last token.
    """

    def __call__(
        self, x: Heads, scores: Float[Tensor, "b h t"], start: PooledState, mask: Mask | None = None
    ) -> tuple[Heads, PooledState]: ...


def beginning(x: Heads) -> PooledState:
    """The initial state, before any token has been read."""
    b, h, _, k = x.shape
    lowest = x.new_full((b, h), torch.finfo(x.dtype).min)
    return PooledState(largest=lowest, total=x.new_zeros(b, h, k), weight=x.new_zeros(b, h))


def _hidden(scores: Tensor, mask: Mask | None) -> tuple[Tensor, Bool[Tensor, "b one t"]]:
    """Scores, set to the lowest finite number at masked tokens; and which tokens are real."""
    if mask is None:
        return scores, torch.ones_like(scores[:, :1], dtype=torch.bool)
    real = mask.unsqueeze(1)
    return scores.masked_fill(~real, torch.finfo(scores.dtype).min), real


def _pairs(scores: Tensor, largest: Tensor, real: Tensor) -> Tensor:
    """exp(s_j - largest_i) for real j ≤ i, otherwise zero: ``[*, i, j]`` from ``[*, t]``."""
    t = scores.shape[-1]
    allowed = torch.ones(t, t, dtype=torch.bool, device=scores.device).tril() & real.unsqueeze(-2)
    lowest = torch.finfo(scores.dtype).min
    exponent = scores.unsqueeze(-2).masked_fill(~allowed, lowest) - largest.unsqueeze(-1)
    return exponent.exp().masked_fill(~allowed, 0)


@at_own_precision
def quadratic(
    x: Heads, scores: Float[Tensor, "b h t"], start: PooledState, mask: Mask | None = None
) -> tuple[Heads, PooledState]:
    """The definition: for every token, a softmax over all tokens up to it. This is the form to
    read, and the reference for tests."""
    if x.shape[2] == 0:
        return x, start
    scores, real = _hidden(scores, mask)
    # Avoids cummax, which ONNX does not have.
    t = scores.shape[-1]
    ahead = torch.ones(t, t, dtype=torch.bool, device=scores.device).triu(1)
    lowest = torch.finfo(scores.dtype).min
    largest = scores.detach().unsqueeze(-2).masked_fill(ahead, lowest).amax(-1)
    largest = torch.maximum(largest, start.largest.unsqueeze(-1))
    weights = _pairs(scores, largest, real)
    kept = (start.largest.unsqueeze(-1) - largest).exp()
    total = weights @ x + kept.unsqueeze(-1) * start.total.unsqueeze(2)
    weight = weights.sum(-1) + kept * start.weight.unsqueeze(-1)
    after = PooledState(largest[..., -1], total[:, :, -1], weight[..., -1])
    return divide(total, weight.unsqueeze(-1)), after


@at_own_precision
def recurrent(
    x: Heads, scores: Float[Tensor, "b h t"], start: PooledState, mask: Mask | None = None
) -> tuple[Heads, PooledState]:
    """One token at a time, with constant time and memory per token."""
    scores, real = _hidden(scores, mask)
    largest, total, weight = start.largest, start.total, start.weight
    means = []
    for i in range(x.shape[2]):
        before, largest = largest, torch.maximum(largest, scores[..., i].detach())
        kept = (before - largest).exp()
        new = (scores[..., i] - largest).exp().masked_fill(~real[..., i], 0)
        total = kept.unsqueeze(-1) * total + new.unsqueeze(-1) * x[:, :, i]
        weight = kept * weight + new
        means.append(divide(total, weight.unsqueeze(-1)))
    out = torch.stack(means, dim=2) if means else x
    return out, PooledState(largest, total, weight)


#: Tokens per chunk.
CHUNK = 64


@at_own_precision
def chunked(
    x: Heads, scores: Float[Tensor, "b h t"], start: PooledState, mask: Mask | None = None
) -> tuple[Heads, PooledState]:
    """The fast parallel form: quadratic inside chunks of ``CHUNK`` tokens, recurrent between them.

    The last chunk is padded with masked tokens, which do not change the result.
    """
    t = x.shape[2]
    if t == 0:
        return x, start
    fill = -t % CHUNK
    scores, real = _hidden(scores, mask)
    lowest = torch.finfo(scores.dtype).min
    scores = nn.functional.pad(scores, (0, fill), value=lowest).unflatten(-1, (-1, CHUNK))
    real = nn.functional.pad(real, (0, fill), value=False).unflatten(-1, (-1, CHUNK))
    x = nn.functional.pad(x, (0, 0, 0, fill)).unflatten(2, (-1, CHUNK))  # b h n c k

    fixed = scores.detach()
    ends = torch.cat([start.largest.unsqueeze(-1), fixed.amax(-1)], dim=-1).cummax(-1).values
    largest = torch.maximum(fixed.cummax(-1).values, ends[..., :-1, None])
    # What each chunk adds, and what remains of everything before it, at the end of the chunk.
    added = (scores - ends[..., 1:, None]).exp().masked_fill(~real, 0)
    left = (ends[..., :-1] - ends[..., 1:]).exp()
    totals = _running(torch.einsum("bhnc,bhnck->bhnk", added, x), left, start.total)
    weights = _running(added.sum(-1), left, start.weight)

    own = _pairs(scores, largest, real)
    kept = (ends[..., :-1, None] - largest).exp()
    total = own @ x + kept.unsqueeze(-1) * totals[:, :, :-1, None]
    weight = own.sum(-1) + kept * weights[:, :, :-1, None]
    means = divide(total, weight.unsqueeze(-1)).flatten(2, 3)[:, :, :t]
    return means, PooledState(ends[..., -1], totals[:, :, -1], weights[:, :, -1])


def _running(parts: Tensor, left: Float[Tensor, "b h n"], start: Tensor) -> Tensor:
    """``start``, then the running sum after each of n parts ``[b, h, n, ...]``: n + 1 values."""
    sums = [start]
    for i in range(parts.shape[2]):
        factor = left[:, :, i].reshape(*left.shape[:2], *[1] * (start.dim() - 2))
        sums.append(factor * sums[-1] + parts[:, :, i])
    return torch.stack(sums, dim=2)


FORMS: dict[str, PoolingForm] = {
    "quadratic": quadratic,
    "chunked": chunked,
    "recurrent": recurrent,
}


@at_own_precision
def pool_prefixes(
    x: Sequence, chain: Chain, column: int, start: PooledState | None, mask: Mask | None, form: str
) -> tuple[Sequence, PooledState]:
    """The mean over each prefix of what ``column`` pools, and the state after the last token."""
    h = len(chain.scores[column])
    scores = nn.functional.linear(x, chain.scores[column]) / chain.scale  # Eq. (3) # Eq. (5)
    heads = rearrange(x, "b t (h k) -> b h t k", h=h)
    start = beginning(heads) if start is None else start
    means, after = FORMS[form](heads, scores.mT, start, mask)  # Eq. (4) # Eq. (6)
    return rearrange(means, "b h t k -> b t (h k)"), after


def prefix_attention(
    chain: Chain, state: PooledState | None = None, mask: Mask | None = None, form: str = "chunked"
) -> tuple[Float[Tensor, "b t e"], PooledState]:
    """u_i of Eq. (7), and the state of all columns after the last token."""
    dtype, chain = chain.v.dtype, chain.wide()
    means, ends = chain.v, []
    for c in range(len(chain.columns)):
        start = None if state is None else _column(state, c)
        means, end = pool_prefixes(pooled(chain, c, means), chain, c, start, mask, form)
        ends.append(end)
    parts = zip(*(end.tensors().values() for end in ends), strict=True)
    after = PooledState(*(torch.stack(columns, dim=1) for columns in parts))
    return meet(chain.interaction, means, chain.v).to(dtype), after  # Eq. (7)


def pooled(chain: Chain, c: int, means: Sequence) -> Sequence:
    """What column ``c`` pools: the queries if it is the first, otherwise p from the ``means`` of
    the previous column."""
    x = chain.columns[c]
    return meet(chain.interaction, means, x, chain.joined(c)) if c else x


def _column(state: PooledState, c: int) -> PooledState:
    return state.map(lambda tensor: tensor[:, c])


class CausalFastformer(AdditiveAttention, CausalMixer):
    """Additive attention over prefixes. Options are described in ``AdditiveAttention``.

    It uses the chunked form, the recurrent one for a single token, and the quadratic one under
    ``torch.export``, where a loop over chunks would fix the length of the graph.
    """

    def scan(
        self, x: Sequence, state: State | None = None, mask: Mask | None = None
    ) -> tuple[Sequence, PooledState]:
        if state is not None and not isinstance(state, PooledState):
            raise TypeError(
                f"causal fastformer continues a PooledState, not {type(state).__name__}"
            )
        chain = self.chain(zero_padding(x, mask))
        many = "quadratic" if torch.compiler.is_exporting() else "chunked"
        form = "recurrent" if x.shape[1] == 1 else many
        u, after = prefix_attention(chain, state, mask, form)
        y = self.transform(u)
        if self.query_residual:
            y = y + chain.columns[0]
        return zero_padding(y, mask), after  # Eq. (7)

    def scores(self, x: Sequence, mask: Mask | None = None) -> list[Float[Tensor, "b t h"]]:
        chain = self.chain(zero_padding(x, mask)).wide()
        means, found = chain.v, []
        for c, w in enumerate(chain.scores):
            p = pooled(chain, c, means)
            found.append(nn.functional.linear(p, w) / chain.scale)
            means, _ = pool_prefixes(p, chain, c, None, mask, "chunked")
        return found
