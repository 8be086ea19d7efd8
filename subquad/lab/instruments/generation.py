"""How fast images are generated: from a constant-size state, from a KV cache, and by reading the
prefix again.

All ways take turns in one process and draw from models of one shape. Weights do not matter for
speed, so they are fresh ones, which allows any length. The honest rival of the recurrent form is
the cached softmax; recomputing the prefix for every token is what the paper's 317× is against, and
a cache that is copied at every step what its "stateful" softmax did.
"""

import statistics
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from subquad.generation import (
    Head,
    Sampling,
    Streams,
    TorchDecoder,
    continue_tokens,
    decoder_for,
    recompute_tokens,
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

    def candidates(n: int) -> dict[str, Prepared]:
        known = {
            RECURRENT: Prepared(lambda: _streamed(linear, prompt, n, head)),
            SCANNED: Prepared(lambda: _scanned(linear, prompt, n, head)),
            CACHED: Prepared(lambda: _scanned(softmax, prompt, n, head)),
            COPIED: Prepared(lambda: _copied(softmax, prompt, n, head)),
            RECOMPUTED: Prepared(lambda: _recomputed(softmax, prompt, n, head)),
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


def _streamed(model: CausalModel, prompt: Tensor, length: int, head: Head) -> Run:
    decoder = decoder_for(model, rows=len(prompt), head=head)
    return lambda: continue_tokens(decoder, prompt, length, Sampling())


def _scanned(model: CausalModel, prompt: Tensor, length: int, head: Head) -> Run:
    decoder = TorchDecoder(model, head=head)
    return lambda: continue_tokens(decoder, prompt, length, Sampling())


def _copied(model: CausalModel, prompt: Tensor, length: int, head: Head) -> Run:
    """Where gradients may be asked for, a cache cannot grow in place: it is copied."""

    def run() -> None:
        tokens, state, streams = prompt, None, Streams.fresh(len(prompt))
        with torch.enable_grad():
            for _ in range(length):
                outputs, state = model.scan(tokens, state)
                tokens = streams.draw(outputs[:, -1].float(), Sampling(), head).unsqueeze(1)

    return run


def _recomputed(model: CausalModel, prompt: Tensor, length: int, head: Head) -> Run:
    """All of ``length`` tokens; beyond ``FULL`` one pass over each of ``PREFIXES`` prefixes."""
    if length <= FULL:
        return torch.inference_mode()(
            lambda: recompute_tokens(model, prompt, length, Sampling(), head)
        )
    ends = [round((i + 0.5) * length / PREFIXES) for i in range(PREFIXES)]
    prefixes = [prompt.expand(-1, end).contiguous() for end in ends]

    @torch.inference_mode()
    def run() -> None:
        for rows in prefixes:
            model(rows)

    return run


@torch.inference_mode()
def _state_bytes(model: CausalModel, length: int) -> int:
    """Of one row after ``length`` tokens."""
    return model.scan(torch.zeros(1, length, dtype=torch.long))[1].nbytes
