"""Causal linear attention with a window of softmax attention: Eq. (W1) with W(i) the block of
token i up to i, and the block before it. Equations are in ``linear/windowed.py``.

What has left the window is in the sums S and Z, as in causal linear attention; the keys and values
that the next token's window may still read are kept as they are: fewer than 2·N, however much has
been read. The forms below are the same function, with one signature.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from subquad.mixers.base import at_own_precision
from subquad.mixers.linear.windowed import (
    Blocks,
    Form,
    Read,
    WindowState,
    defined,
    mean_of_both,
    near_blocks,
)
from subquad.shapes import Values


def empty_state(like: Values, width: int, features: int, size: int) -> WindowState:
    """Nothing has been read. ``like``: values ``[b, h, t, m]``; ``width``: that of a key."""
    b, h, _, m = like.shape
    return WindowState(
        s=like.new_zeros(b, h, features, m),
        z=like.new_zeros(b, h, features),
        k=like.new_zeros(b, h, 2 * size, width),
        v=like.new_zeros(b, h, 2 * size, m),
        held=like.new_zeros(b),
        seen=like.new_zeros(b),
    )


def joined(
    old: Float[Tensor, "b h r k"], new: Float[Tensor, "b h t k"], held: Int[Tensor, "b"]
) -> Float[Tensor, "b h s k"]:
    """``new`` right behind the first ``held`` of ``old``; the end is arbitrary."""
    room = old.shape[2]
    at = torch.arange(room + new.shape[2], device=new.device)
    ends = held.unsqueeze(-1)
    place = torch.where(at < ends, at, (at + room - ends).clamp(max=at.shape[0] - 1))
    return _taken(torch.cat([old, new], dim=2), place)


def _taken(x: Float[Tensor, "b h t k"], place: Int[Tensor, "b s"]) -> Float[Tensor, "b h s k"]:
    """The tokens at ``place`` ``[b, s]``."""
    return x.gather(2, place[:, None, :, None].expand(-1, x.shape[1], -1, x.shape[3]))


@at_own_precision
def quadratic(read: Read, log_gamma: Float[Tensor, "h"], size: int) -> Values:
    """The definition: the form to read, and the one for few tokens and for graphs."""
    i, j = read.queries()
    behind = i // size - j // size
    allowed = (j <= i) & read.real.unsqueeze(1)
    return defined(read, allowed & (behind <= 1), allowed & (behind > 1), log_gamma)


@at_own_precision
def in_blocks(read: Read, log_gamma: Float[Tensor, "h"], size: int) -> Values:
    """The fast parallel form."""
    t, room = read.q.shape[2], read.k.shape[2] - read.q.shape[2]
    at = read.held.unsqueeze(-1) + torch.arange(t, device=read.q.device)
    q, phi_q = read.q, read.phi_q
    if room:
        q = joined(q.new_zeros(*q.shape[:2], room, q.shape[3]), q, read.held)
        phi_q = joined(phi_q.new_zeros(*q.shape[:2], room, phi_q.shape[3]), phi_q, read.held)
    blocks = Blocks(q.shape[2], size, after=False)
    near, log_near = near_blocks(q, read.k, read.v, read.real, blocks)
    own_k, own_v, own_q = blocks.own(read.phi_k), blocks.own(read.v), blocks.own(phi_q)
    s = blocks.outside(own_k.mT @ own_v) + read.start.s.unsqueeze(2)
    z = blocks.outside(own_k.sum(3)) + read.start.z.unsqueeze(2)
    numerator = blocks.whole(own_q @ s)
    denominator = blocks.whole((own_q @ z.unsqueeze(-1)).squeeze(-1))
    y = mean_of_both(near, log_near, numerator, denominator, log_gamma)
    return _taken(y, at) if room else y


def after(read: Read, size: int) -> WindowState:
    """The state after what was read: tokens that the next one's window cannot reach are added to
    the sums."""
    total = read.real.sum(1)
    first = ((total // size - 1) * size).clamp(min=0).unsqueeze(-1)
    at = torch.arange(read.k.shape[2], device=read.k.device)
    left = read.phi_k.masked_fill((at >= first)[:, None, :, None], 0)
    place = first + torch.arange(2 * size, device=read.k.device)
    beyond = (place >= total.unsqueeze(-1))[:, None, :, None]
    place = place.clamp(max=read.k.shape[2] - 1)
    return WindowState(
        s=read.start.s + left.mT @ read.v,
        z=read.start.z + left.sum(2),
        k=_taken(read.k, place).masked_fill(beyond, 0),
        v=_taken(read.v, place).masked_fill(beyond, 0),
        held=(total - first.squeeze(-1)).to(read.k.dtype),
        seen=read.start.seen + (total - read.held).to(read.k.dtype),
    )


FORMS: dict[str, Form] = {"quadratic": quadratic, "chunked": in_blocks}
