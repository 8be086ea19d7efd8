"""How fast images are generated: recurrent form, cached softmax, and softmax without a cache.

The three take turns in one process and draw from models of one shape. Weights do not matter for
speed, so they are fresh ones, which allows any length. The honest rival of the recurrent form is
the *cached* softmax; recomputing the prefix for every token is what the paper's 317× is against.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from subquad.generation import Sampling, continue_tokens, decoder_for, recompute_tokens
from subquad.models import CausalModel, ModelConfig

#: Longest row that is generated in full by recomputation; beyond, it is timed at some prefixes.
FULL = 64
#: Prefixes timed beyond that, evenly spread; their mean stands for all.
PREFIXES = 8

RECURRENT, CACHED, RECOMPUTED = "linear, recurrent", "softmax, cached", "softmax, recomputed"


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
    config: ModelConfig, *, levels: int, length: int, batch: int, rounds: int = 3
) -> list[Speed]:
    """The three ways at one ``length`` and ``batch``, each ``config`` with the mixer it needs."""
    models = {
        mixer: CausalModel(
            replace(config, mixers=(mixer,), mixer_options={}),
            inputs=levels + 1,
            outputs=levels,
            length=length,
        ).eval()
        for mixer in ("linear", "softmax")
    }
    prompt = torch.full((batch, 1), levels)
    ways: dict[str, Callable[[int], float]] = {
        RECURRENT: lambda n: _streamed(models["linear"], prompt, n),
        CACHED: lambda n: _streamed(models["softmax"], prompt, n),
        RECOMPUTED: lambda n: _recomputed(models["softmax"], prompt, n),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way(min(8, length))  # first uses are slow
    for _ in range(rounds):
        for name, way in ways.items():
            taken[name].append(way(length))
    held = {
        RECURRENT: _state_bytes(models["linear"], length),
        CACHED: _state_bytes(models["softmax"], length),
        RECOMPUTED: 0,
    }
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


def _streamed(model: CausalModel, prompt: torch.Tensor, length: int) -> float:
    decoder = decoder_for(model, rows=len(prompt))
    began = time.perf_counter()
    continue_tokens(decoder, prompt, length, Sampling())
    return time.perf_counter() - began


@torch.inference_mode()
def _recomputed(model: CausalModel, prompt: torch.Tensor, length: int) -> float:
    """Seconds for ``length`` tokens; beyond ``FULL`` the mean of some prefixes times ``length``."""
    if length <= FULL:
        began = time.perf_counter()
        recompute_tokens(model, prompt, length, Sampling())
        return time.perf_counter() - began
    taken = []
    for i in range(PREFIXES):
        rows = prompt.expand(-1, round((i + 0.5) * length / PREFIXES)).contiguous()
        began = time.perf_counter()
        model(rows)
        taken.append(time.perf_counter() - began)
    return statistics.fmean(taken) * length


@torch.inference_mode()
def _state_bytes(model: CausalModel, length: int) -> int:
    """Of one row after ``length`` tokens."""
    return model.scan(torch.zeros(1, length, dtype=torch.long))[1].nbytes
