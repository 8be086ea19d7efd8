"""One token of causal linear attention with a window, in constant time: the RNN form of Eq. (W1).
Equations are in ``linear/windowed.py``; the result is that of ``windowed_causal``.

A block leaves the window once in N tokens, and only then are its features computed.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from subquad.mixers.base import at_own_precision
from subquad.mixers.linear.windowed import (
    WindowState,
    fused_softmax_over,
    mean_of_both,
    served,
    softmax_over,
)


@at_own_precision
def step(
    q: Float[Tensor, "b h 1 k"],
    phi_q: Float[Tensor, "b h 1 f"],
    state: WindowState,
    log_gamma: Float[Tensor, "h"],
) -> Float[Tensor, "b h 1 m"]:
    """V' of the last token that ``state`` holds."""
    at = torch.arange(state.k.shape[2], device=q.device)
    allowed = (at < state.held.unsqueeze(-1))[:, None, None]
    attention = fused_softmax_over if served(q) else softmax_over
    near, log_near = attention(q, state.k, state.v, allowed)
    denominator = (phi_q @ state.z.unsqueeze(-1)).squeeze(-1)
    return mean_of_both(near, log_near, phi_q @ state.s, denominator, log_gamma)


def appended(
    state: WindowState,
    k: Float[Tensor, "b h 1 k"],
    v: Float[Tensor, "b h 1 m"],
    real: Bool[Tensor, "b"],
) -> WindowState:
    """The state with one more token, in the rows where it is real. In the others its place, which
    is read by nobody, is taken by the next one."""
    place = state.held.long()[:, None, None, None]
    return replace(
        state,
        k=state.k.scatter(2, place.expand_as(k), k),
        v=state.v.scatter(2, place.expand_as(v), v),
        held=state.held + real,
        seen=state.seen + real,
    )


def left(state: WindowState, phi: Callable[[Tensor], Tensor], size: int) -> WindowState:
    """The state for the next token: a full window hands its first block to the sums.

    Args:
        state: what is held with the last token.
        phi: the feature map of keys.
        size: N.
    """
    full = state.held == 2 * size
    if not full.any():
        return state
    block = full[:, None, None, None]
    phi_k = phi(state.k[:, :, :size]).masked_fill(~block, 0)
    return WindowState(
        s=state.s + phi_k.mT @ state.v[:, :, :size],
        z=state.z + phi_k.sum(2),
        k=torch.where(block, _shifted(state.k, size), state.k),
        v=torch.where(block, _shifted(state.v, size), state.v),
        held=state.held - size * full,
        seen=state.seen,
    )


def _shifted(x: Float[Tensor, "b h w k"], size: int) -> Float[Tensor, "b h w k"]:
    return nn.functional.pad(x[:, :, size:], (0, 0, 0, size))
