"""What a mixer makes of the tokens of a row: weights that add up to one over the row, by head.

A mixer's *channels* are the places where it weighs tokens: the columns of a Fastformer, what a
token writes into the state of linear attention, the attention that it gets. A mixer without weights
(FNet) has none.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from subquad.mixers import CausalMixer, Mixer
from subquad.mixers.base import zero_padding
from subquad.mixers.fastformer import Fastformer, softmax_over_time
from subquad.mixers.fastformer_causal import CausalFastformer
from subquad.mixers.linear import CausalLinearAttention, LinearAttention
from subquad.mixers.softmax import CausalSoftmaxAttention, SoftmaxAttention
from subquad.models import CausalModel, Classifier

LINEAR = (LinearAttention, CausalLinearAttention)
SOFTMAX = (SoftmaxAttention, CausalSoftmaxAttention)


@dataclass(frozen=True)
class Seen:
    """What came to the mixer of one layer."""

    mixer: Mixer
    x: Tensor
    mask: Tensor | None


@contextmanager
def watched(model: nn.Module) -> Iterator[list[Seen]]:
    """What comes to each mixer while the model runs, layer by layer, from the bottom."""
    assert isinstance(model, Classifier | CausalModel)
    layers = model.blocks if isinstance(model, CausalModel) else model.encoder.blocks
    mixers: list[Any] = list(dict.fromkeys(block.mixer for block in layers))
    seen: list[Seen] = []

    def noting(mixer: Any, run: Callable[..., Any]) -> Callable[..., Any]:
        def note(x: Tensor, *rest: Any, **named: Any) -> Any:
            mask = named.get("mask", rest[-1] if rest else None)
            seen.append(Seen(mixer, x, mask))
            return run(x, *rest, **named)

        return note

    names = ["scan" if isinstance(m, CausalMixer) else "forward" for m in mixers]
    for mixer, name in zip(mixers, names, strict=True):
        setattr(mixer, name, noting(mixer, getattr(mixer, name)))
    try:
        yield seen
    finally:
        for mixer, name in zip(mixers, names, strict=True):
            delattr(mixer, name)


@dataclass(frozen=True)
class Channel:
    """How the heads of one channel weigh tokens."""

    weights: Tensor
    """``[b, t, h]``: they add up to one over the row, and are zero at padding."""
    scores: Tensor
    """``[b, t, h]``: before they were divided among the row; what a token gets by itself."""


def channels(seen: Seen) -> dict[str, Channel]:
    """Every channel of a layer, by name."""
    mixer, x, mask = seen.mixer, seen.x.float(), seen.mask
    if isinstance(mixer, Fastformer | CausalFastformer):
        names = ["α, global query", "β, global key"]
        names = [names[0]] if mixer.columns == 1 else names
        names += [f"β{i}, global key {i}" for i in range(2, mixer.columns)]
        pairs = zip(names, mixer.scores(x, mask), strict=True)
        return {name: Channel(softmax_over_time(s, mask), s) for name, s in pairs}
    if isinstance(mixer, LINEAR):
        return {"written to the state": _shared(features(seen)[1].sum(-1).mT)}
    if isinstance(mixer, SOFTMAX):
        maps = attention(seen)
        if isinstance(mixer, CausalMixer):
            return {"read by the last token": _shared(maps[:, :, -1].mT)}
        return {"attention received": _shared(maps.sum(2).mT)}
    return {}


def features(seen: Seen) -> tuple[Tensor, Tensor, Tensor]:
    """φ(Q), φ(K) and V of linear attention, ``[b, h, t, k]``, zero at padding."""
    assert isinstance(seen.mixer, LINEAR)
    q, k, v = seen.mixer.projections.split(zero_padding(seen.x.float(), seen.mask))
    found = (seen.mixer.phi(q), seen.mixer.phi(k), v)
    if seen.mask is None:
        return found
    hidden = ~seen.mask[:, None, :, None]
    phi_q, phi_k, v = (part.masked_fill(hidden, 0) for part in found)
    return phi_q, phi_k, v


def attention(seen: Seen) -> Tensor:
    """The attention map of softmax attention, ``[b, h, reader, read]``."""
    assert isinstance(seen.mixer, SOFTMAX)
    q, k, _ = seen.mixer.projections.split(zero_padding(seen.x.float(), seen.mask))
    b, _, t, width = q.shape
    allowed = torch.ones(b, 1, t, t, dtype=torch.bool, device=q.device)
    if isinstance(seen.mixer, CausalMixer):
        allowed = allowed.tril()
    if seen.mask is not None:
        allowed = allowed & seen.mask[:, None, None, :] & seen.mask[:, None, :, None]
    scores = (q @ k.mT / width**0.5).masked_fill(~allowed, torch.finfo(q.dtype).min)
    return scores.softmax(-1).masked_fill(~allowed, 0)


def _shared(amounts: Tensor) -> Channel:
    """Amounts ``[b, t, h]`` as parts of each row's sum; zeros where there is nothing."""
    total = amounts.sum(1, keepdim=True)
    return Channel(amounts / total.masked_fill(total == 0, 1), amounts)
