"""Speed of image generation: from a constant-size state, from a KV cache, and by recomputing the
prefix.

All methods take turns in one process, with models of the same shape. Speed does not depend on the
weights, so the models are untrained, which allows any length. The fair baseline for recurrent
generation is softmax with a KV cache. The paper's 317× is relative to recomputing the prefix for
every token, and its "stateful" softmax copied the cache at every step.
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

#: Up to this length, recomputation is timed in full; beyond, only at some prefix lengths.
FULL = 64
#: Number of evenly spaced prefix lengths timed beyond that; their mean stands for all.
PREFIXES = 8

RECURRENT, SCANNED = "linear, recurrent", "linear, torch scan"
CACHED, COPIED, RECOMPUTED = "softmax, cached", "softmax, copied cache", "softmax, recomputed"
#: The methods that the demo shows.
USUAL = (RECURRENT, CACHED, RECOMPUTED)


@dataclass(frozen=True)
class Speed:
    """Speed of one method of generation at one length, in images per second."""

    method: str
    length: int
    batch: int
    median: float
    slowest: float
    fastest: float
    state_bytes: int
    """Size of the state or cache of one image after its last pixel; 0 if there is none."""
    sampled: bool
    """Whether it was timed at ``PREFIXES`` prefix lengths instead of all of them."""


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
    """Time generation methods against each other.

    Args:
        config: shape of the model; its mixer is replaced by the one that each method needs.
        levels: number of values that a pixel can have.
        length: pixels per image.
        batch: images generated together.
        mixture: number of logistics that a pixel is sampled from; 0 means one logit per level.
        rounds: how often each method is timed.
        ways: the methods to time.
    """
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

    in_turns(candidates(min(8, length)), 1)  # warm-up
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
    """Generation of ``length`` tokens after ``prompt``, with a new decoder for each run."""

    def make() -> Run:
        made = decoder()
        return lambda: continue_tokens(made, prompt, length, Sampling())

    return Prepared(make)


def _recomputed(model: CausalModel, prompt: Tensor, length: int, head: Head) -> Prepared:
    """Generation by recomputation; beyond ``FULL`` tokens, one pass for each of ``PREFIXES``
    prefixes instead."""
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
    """Size of the state of one sequence after ``length`` tokens."""
    return model.scan(torch.zeros(1, length, dtype=torch.long))[1].nbytes
