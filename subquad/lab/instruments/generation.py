"""How fast images are generated: from a constant-size state, from a KV cache, and by reading the
prefix again.

All ways take turns in one process and draw from models of one shape. Weights do not matter for
speed, so they are fresh ones, which allows any length. The honest rival of the recurrent form is
the cached softmax; recomputing the prefix for every token is what the paper's 317× is against, and
a cache that is copied at every step what its "stateful" softmax did.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from subquad.generation import (
    CopyingDecoder,
    Decoder,
    Head,
    RecomputingDecoder,
    Sampling,
    TorchDecoder,
    continue_tokens,
    decoder_for,
)
from subquad.lab.instruments.timing import Prepared, Run, in_turns
from subquad.models import CausalModel, ModelConfig
from subquad.tasks.logistics import PARTS

#: Longest row that is generated in full by recomputation; beyond, it is timed at some prefixes.
FULL = 64
#: Prefixes timed beyond that, evenly spread; their mean stands for all.
PREFIXES = 8

RECURRENT, SCANNED = "linear, recurrent", "linear, torch scan"
CACHED, COPIED, RECOMPUTED = "softmax, cached", "softmax, copied cache", "softmax, recomputed"
#: What the demo shows.
USUAL = (RECURRENT, CACHED, RECOMPUTED)


@dataclass(frozen=True)
class Speed:
    """One way of generating at one length, in images per second."""

    method: str
    length: int
    batch: int
    median: float
    slowest: float
    fastest: float
    state_bytes: int
    """Held for one image at its end; 0 where nothing is kept."""
    sampled: bool
    """Timed at ``PREFIXES`` prefixes instead of all."""


def generation_speed(
    config: ModelConfig,
    *,
    levels: int,
    length: int,
    batch: int,
    mixture: int = 0,
    rounds: int = 3,
    ways: tuple[str, ...] = USUAL,
) -> list[Speed]:
    """The ``ways`` at one ``length`` and ``batch``, each ``config`` with the mixer it needs; pixels
    are drawn from a ``mixture`` of so many logistics, or (0) from a probability for each level."""
    head = Head(mixture=mixture, levels=levels if mixture else 0)
    models = {
        mixer: CausalModel(
            replace(config, mixers=(mixer,), mixer_options={}),
            inputs=levels + 1,
            outputs=PARTS * mixture or levels,
            length=length,
        ).eval()
        for mixer in ("linear", "softmax")
    }
    for model in models.values():
        model.requires_grad_(False)
    prompt = torch.full((batch, 1), levels)
    linear, softmax = models["linear"], models["softmax"]

    def candidates(n: int) -> dict[str, Prepared]:
        known = {
            RECURRENT: _drawing(lambda: decoder_for(linear, rows=batch, head=head), prompt, n),
            SCANNED: _drawing(lambda: TorchDecoder(linear, head=head), prompt, n),
            CACHED: _drawing(lambda: TorchDecoder(softmax, head=head), prompt, n),
            COPIED: _drawing(lambda: CopyingDecoder(softmax, head=head), prompt, n),
            RECOMPUTED: _recomputed(softmax, prompt, n, head),
        }
        return {name: known[name] for name in ways}

    in_turns(candidates(min(8, length)), 1)  # first uses are slow
    taken = in_turns(candidates(length), rounds).rounds
    if RECOMPUTED in taken and length > FULL:
        taken[RECOMPUTED] = [s / PREFIXES * length for s in taken[RECOMPUTED]]
    recurrent, cached = (_state_bytes(model, length) for model in (linear, softmax))
    held = {RECURRENT: recurrent, SCANNED: recurrent, CACHED: cached, COPIED: cached, RECOMPUTED: 0}
    return [
        Speed(
            name,
            length,
            batch,
            median=batch / statistics.median(seconds),
            slowest=batch / max(seconds),
            fastest=batch / min(seconds),
            state_bytes=held[name],
            sampled=name == RECOMPUTED and length > FULL,
        )
        for name, seconds in taken.items()
    ]


def _drawing(decoder: Callable[[], Decoder], prompt: Tensor, length: int) -> Prepared:
    """``length`` tokens after ``prompt``, by a new decoder each time."""

    def make() -> Run:
        made = decoder()
        return lambda: continue_tokens(made, prompt, length, Sampling())

    return Prepared(make)


def _recomputed(model: CausalModel, prompt: Tensor, length: int, head: Head) -> Prepared:
    """All of ``length`` tokens; beyond ``FULL`` one pass over each of ``PREFIXES`` prefixes."""
    if length <= FULL:
        return _drawing(lambda: RecomputingDecoder(model, head=head), prompt, length)
    ends = [round((i + 0.5) * length / PREFIXES) for i in range(PREFIXES)]
    prefixes = [prompt.expand(-1, end).contiguous() for end in ends]

    def make() -> Run:
        decoders = [RecomputingDecoder(model, head=head) for _ in prefixes]
        return lambda: [d.read(rows) for d, rows in zip(decoders, prefixes, strict=True)]

    return Prepared(make)


@torch.inference_mode()
def _state_bytes(model: CausalModel, length: int) -> int:
    """Of one row after ``length`` tokens."""
    return model.scan(torch.zeros(1, length, dtype=torch.long))[1].nbytes
