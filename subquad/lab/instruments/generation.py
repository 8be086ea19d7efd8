"""How fast images are generated: from a constant-size state, from a KV cache, and by reading the
prefix again.

All ways take turns in one process and draw from models of one shape. Weights do not matter for
speed, so they are fresh ones, which allows any length. The honest rival of the recurrent form is
the cached softmax; recomputing the prefix for every token is what the paper's 317× is against, and
a cache that is copied at every step what its "stateful" softmax did.
"""

import statistics
import time
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
    rounds: int = 3,
    ways: tuple[str, ...] = USUAL,
) -> list[Speed]:
    """The ``ways`` at one ``length`` and ``batch``, each ``config`` with the mixer it needs."""
    head = Head(mixture=config.mixture, levels=levels if config.mixture else 0)
    models = {
        mixer: CausalModel(
            replace(config, mixers=(mixer,), mixer_options={}),
            inputs=levels + 1,
            outputs=PARTS * config.mixture or levels,
            length=length,
        ).eval()
        for mixer in ("linear", "softmax")
    }
    for model in models.values():
        model.requires_grad_(False)
    prompt = torch.full((batch, 1), levels)
    linear, softmax = models["linear"], models["softmax"]
    known: dict[str, Callable[[int], float]] = {
        RECURRENT: lambda n: _seconds(decoder_for(linear, rows=batch, head=head), prompt, n),
        SCANNED: lambda n: _seconds(TorchDecoder(linear, head=head), prompt, n),
        CACHED: lambda n: _seconds(TorchDecoder(softmax, head=head), prompt, n),
        COPIED: lambda n: _seconds(CopyingDecoder(softmax, head=head), prompt, n),
        RECOMPUTED: lambda n: _recomputed(softmax, prompt, n, head),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for name in ways:
        known[name](min(8, length))  # first uses are slow
    for _ in range(rounds):
        for name in ways:
            taken[name].append(known[name](length))
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


def _seconds(decoder: Decoder, prompt: Tensor, length: int) -> float:
    """For ``length`` tokens after ``prompt``."""
    began = time.perf_counter()
    continue_tokens(decoder, prompt, length, Sampling())
    return time.perf_counter() - began


def _recomputed(model: CausalModel, prompt: Tensor, length: int, head: Head) -> float:
    """Seconds for ``length`` tokens; beyond ``FULL`` the mean of some prefixes times ``length``."""
    if length <= FULL:
        return _seconds(RecomputingDecoder(model, head=head), prompt, length)
    taken = []
    for i in range(PREFIXES):
        rows = prompt.expand(-1, round((i + 0.5) * length / PREFIXES)).contiguous()
        decoder = RecomputingDecoder(model, head=head)
        began = time.perf_counter()
        decoder.read(rows)
        taken.append(time.perf_counter() - began)
    return statistics.fmean(taken) * length


@torch.inference_mode()
def _state_bytes(model: CausalModel, length: int) -> int:
    """Of one row after ``length`` tokens."""
    return model.scan(torch.zeros(1, length, dtype=torch.long))[1].nbytes
