"""The option ``window`` of linear attention: its parameter, and what a layer with it computes.
Equations are in ``linear/windowed.py``."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from subquad.mixers.base import State, zero_padding
from subquad.mixers.capabilities import Channel, Explanation
from subquad.mixers.linear import windowed, windowed_causal, windowed_step
from subquad.mixers.linear.learned import Maps
from subquad.mixers.linear.windowed import Read, WindowState
from subquad.mixers.projections import Projections
from subquad.shapes import Mask, Sequence

#: log γ at the start: of e^0, e^1 and e^2, the last imitates softmax attention best before anything
#: is learned (``LOG.md``).
BALANCE = 2.0


class Window(nn.Module):
    """A window of softmax attention in linear attention.

    Args:
        heads: number of heads.
        size: N, tokens per block.

    Raises:
        ValueError: the size is not a positive integer.
    """

    def __init__(self, heads: int, size: int) -> None:
        super().__init__()
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"window={size!r}: it is a number of tokens, or 0 for none")
        self.size = size
        #: log γ, so that γ stays positive.
        self.balance = nn.Parameter(torch.full((heads,), BALANCE))

    def bidirectional(
        self, projections: Projections, maps: Maps, x: Sequence, mask: Mask | None, form: str
    ) -> Sequence:
        """The layer's output, of which padding is arbitrary."""
        if x.shape[1] == 0:
            return x
        x, real = _compact(x, mask)
        read = self._read(projections, maps, x, real, masked=mask is not None)
        if form == "auto":  # blocks would fix the length of a graph
            form = "quadratic" if torch.compiler.is_exporting() else "sums"
        y = windowed.FORMS[form](read, self._log_gamma(read), self.size)
        return _spread(projections.merge(y.to(x.dtype)), mask)

    def causal(
        self,
        projections: Projections,
        maps: Maps,
        x: Sequence,
        mask: Mask | None,
        state: WindowState | None,
        form: str,
    ) -> tuple[Sequence, WindowState]:
        """The layer's output, of which padding is arbitrary, and the state after it."""
        given, exporting = x.shape[1], torch.compiler.is_exporting()
        if form == "auto" and state is not None and given == 1 and not exporting:
            return self._step(projections, maps, x, mask, state)
        x, real = _compact(x, mask)
        read = self._read(projections, maps, x, real, state, masked=mask is not None)
        if given == 0:
            return x, read.start
        if form == "auto":
            # Chunks would fix the length of a graph.
            few = exporting or (state is not None and given <= 2 * self.size)
            form = "quadratic" if few else "chunked"
        y = windowed_causal.FORMS[form](read, self._log_gamma(read), self.size)
        return _spread(projections.merge(y.to(x.dtype)), mask), windowed_causal.after(
            read, self.size
        )

    def _step(
        self,
        projections: Projections,
        maps: Maps,
        x: Sequence,
        mask: Mask | None,
        state: WindowState,
    ) -> tuple[Sequence, WindowState]:
        x, real = _compact(x, mask)
        parts = projections.split(x, real, state.seen.long())
        q, k, v = (part.to(state.s.dtype) for part in parts)
        held = windowed_step.appended(state, k, v, real[:, 0])
        y = windowed_step.step(q, maps.of_queries(q), held, self.balance.to(q.dtype))
        return projections.merge(y.to(x.dtype)), windowed_step.left(held, maps.of_keys, self.size)

    def explain(
        self, projections: Projections, maps: Maps, x: Sequence, mask: Mask | None, *, causal: bool
    ) -> Explanation:
        """The weights of Eq. (W1), by the definition with the identity for values."""
        t = x.shape[1]
        first, real = _compact(x, mask)
        read = self._read(projections, maps, first, real)
        eye = torch.eye(t, dtype=read.v.dtype, device=x.device)
        weights = eye.expand(*read.v.shape[:2], t, t)
        weights = weights.masked_fill(~real[:, None, :, None], 0)
        k, f = read.k.shape[-1], read.phi_k.shape[-1]
        start = windowed_causal.empty_state(weights, k, f, self.size)
        form = (windowed_causal if causal else windowed).quadratic
        found = form(replace(read, v=weights, start=start), self._log_gamma(read), self.size)
        if mask is not None:
            rows = [_spread(found[:, i], mask).mT for i in range(found.shape[1])]
            hidden = ~(mask.unsqueeze(1) & mask.unsqueeze(2))
            found = torch.stack([_spread(w, mask).mT.masked_fill(hidden, 0) for w in rows], 1)
        return Explanation({"attention received": Channel.of(found.sum(2).mT)}, attention=found)

    def _log_gamma(self, read: Read) -> Tensor:
        return self.balance.to(read.v.dtype)

    def _read(
        self,
        projections: Projections,
        maps: Maps,
        x: Sequence,
        real: Mask,
        state: WindowState | None = None,
        *,
        masked: bool = True,
    ) -> Read:
        """The tokens of ``x`` behind those that the state holds."""
        before = None if state is None else state.seen.long()
        q, k, v = projections.split(x, real, before)
        wide = torch.promote_types(q.dtype, torch.float32)
        q, k, v = q.to(wide), k.to(wide), v.to(wide)
        held, start = x.new_zeros(x.shape[0], dtype=torch.long), state
        if state is not None:
            held = state.held.long()
            k, v = (
                windowed_causal.joined(state.k, k, held),
                windowed_causal.joined(state.v, v, held),
            )
            at = torch.arange(k.shape[2], device=x.device)
            real = at < (held + real.sum(1)).unsqueeze(-1)
        phi_q, phi_k = maps.of_queries(q), maps.of_keys(k)
        if masked or state is not None:
            hidden = ~real[:, None, :, None]
            phi_k, v = phi_k.masked_fill(hidden, 0), v.masked_fill(hidden, 0)
        if start is None:
            start = windowed_causal.empty_state(v, k.shape[-1], phi_k.shape[-1], self.size)
        return Read(q, phi_q, k, phi_k, v, real, held, start)


def _compact(x: Sequence, mask: Mask | None) -> tuple[Sequence, Mask]:
    if mask is None:
        return x, x.new_ones(x.shape[:2], dtype=torch.bool)
    return windowed.compact(zero_padding(x, mask), mask)


def _spread(y: Sequence, mask: Mask | None) -> Sequence:
    return y if mask is None else windowed.spread(y, mask)


def continued(state: State | None) -> WindowState | None:
    """
    Raises:
        TypeError: the state belongs to another kind of mixer, or to linear attention without
            a window.
    """
    if state is None or isinstance(state, WindowState):
        return state
    raise TypeError(
        f"linear attention with a window continues a WindowState, not {type(state).__name__}"
    )
