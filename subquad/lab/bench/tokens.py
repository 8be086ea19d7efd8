"""``bench``: generation token by token, step engine against torch, for 8 layers of width 256."""

from collections.abc import Callable
from functools import partial

import torch

from subquad.generation import EngineDecoder, Sampling, Streams, TorchDecoder, engine_refuses
from subquad.generation.decoder import Decoder
from subquad.lab.instruments.timing import Times, interleave
from subquad.models import CausalModel, ModelConfig

#: Tokens generated in one timed call.
TOGETHER = 8
#: The two positions at which a step is timed.
EARLY, LATE = 10, 100_000
GREEDY = Sampling(temperature=0.0)
TORCH, FP32, BF16, INT8 = "torch scan", "engine fp32", "engine bf16", "engine int8"


def shape() -> CausalModel:
    """The benchmark's model: about 6.5 million parameters, one token per byte."""
    config = ModelConfig(
        mixers=("linear",), layers=8, d=256, heads=8, ff=1024, positions="sinusoidal", norm="pre"
    )
    return CausalModel(config, inputs=257, outputs=257, length=1).eval()


def tokens(batch: int, seconds: float) -> Times | None:
    """Times of generating ``TOGETHER`` tokens for ``batch`` sequences with each decoder; None if
    the step engine is not available."""
    model = shape()
    if engine_refuses(model) is not None:
        return None
    ways: dict[str, Decoder] = {TORCH: TorchDecoder(model)}
    ways[FP32] = EngineDecoder(model, rows=batch)
    ways[BF16] = EngineDecoder(model, rows=batch, weights="bf16")
    ways[INT8] = EngineDecoder(model, rows=batch, weights="int8")
    runs = {name: _some(decoder, batch) for name, decoder in ways.items()}
    return interleave(runs, seconds)


def late_over_early(seconds: float) -> float | None:
    """The time of a token at position ``LATE`` divided by that at ``EARLY``; None if the step
    engine is not available."""
    model = shape()
    if engine_refuses(model) is not None:
        return None
    early, late = EngineDecoder(model, rows=1), EngineDecoder(model, rows=1)
    for decoder, position in ((early, EARLY), (late, LATE)):
        _some(decoder, 1)()
        decoder.engine.set_position(decoder.streams[0], position)
    times = interleave({"early": _some(early, 1), "late": _some(late, 1)}, seconds)
    return times.ratio("late", "early")[0]


def _some(decoder: Decoder, batch: int) -> Callable[[], object]:
    start = torch.zeros(batch, dtype=torch.long)
    return partial(decoder.run, start, TOGETHER, GREEDY, Streams.fresh(batch))
