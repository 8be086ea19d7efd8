"""Cost of one layer against sequence length: time and memory, forward and backward, per mixer.

Time: the mixers take turns at every length, for several rounds in one process, so that a machine
that slows down affects all of them alike; median and spread over rounds are kept. Short sequences
are processed in batches of ``BATCHED`` tokens, and the time is given per sequence.

Memory: of one sequence, not counting parameters and input, by ``memory.allocated_peak``.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from subquad.errors import UsageError
from subquad.lab.instruments.memory import allocated_peak
from subquad.lab.instruments.timing import Prepared, in_turns, seconds_of
from subquad.lab.progress import Progress, Watch, ignore
from subquad.models import ModelConfig
from subquad.models.block import Block
from subquad.models.precision import Precision, autocast, resolve

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
#: Minimum number of tokens in a batch.
BATCHED = 1024
ROUNDS = 5


@dataclass(frozen=True)
class Point:
    """Cost of one mixer at one length, per sequence."""

    mixer: str
    length: int
    seconds: float
    """Median over rounds."""
    fastest: float
    slowest: float
    nbytes: int


@dataclass(frozen=True)
class Measured:
    """All measured points, and the settings they were measured with."""

    points: tuple[Point, ...]
    d: int
    ff: int
    heads: int
    causal: bool
    precision: str
    rounds: int
    threads: int

    def of(self, mixer: str) -> list[Point]:
        return [p for p in self.points if p.mixer == mixer]

    def slope(self, mixer: str, what: str = "seconds") -> float | None:
        """Growth exponent of time or memory: 1 is linear, 2 quadratic.

        A least-squares fit on log-log axes to the lengths of at least a quarter of the longest;
        None if there are fewer than two.
        """
        points = self.of(mixer)
        long = [p for p in points if p.length * 4 >= points[-1].length] if points else []
        if len(long) < 2:
            return None
        x = [math.log(p.length) for p in long]
        y = [math.log(max(getattr(p, what), 1e-12)) for p in long]
        return float(statistics.linear_regression(x, y).slope)

    def to_dict(self) -> dict[str, Any]:
        slopes = {
            m: {"time": self.slope(m), "memory": self.slope(m, "nbytes")}
            for m in dict.fromkeys(p.mixer for p in self.points)
        }
        return asdict(self) | {"slopes": slopes}


def measure(
    mixers: Sequence[str],
    model: ModelConfig,
    *,
    causal: bool = False,
    lengths: Sequence[int] = LENGTHS,
    budget: float = 4.0,
    rounds: int = ROUNDS,
    precision: Precision = "auto",
    watch: Watch = ignore,
) -> Measured:
    """Time and memory of one block (mixer and feed-forward) of ``model``'s width.

    A mixer is not measured beyond the length at which its rounds take over ``budget`` seconds.

    Raises:
        UsageError: an unknown mixer, or a length below 1.
    """
    if any(t < 1 for t in lengths):
        raise UsageError(f"lengths are {', '.join(map(str, lengths))}; each must be at least 1")
    on = torch.device("cpu")
    precision = resolve(precision, on)
    try:
        layers: dict[str, nn.Module] = {
            n: Block(model, n, causal=causal, length=max(lengths, default=1)) for n in mixers
        }
    except ValueError as error:
        raise UsageError(str(error)) from None
    points: list[Point] = []
    for i, length in enumerate(sorted(lengths)):
        watch(Progress(i / len(lengths), f"measuring one layer at {length:,} tokens"))
        with autocast(precision, on):
            points += _at(layers, length, model.d, rounds, budget)
    return Measured(
        tuple(points),
        d=model.d,
        ff=model.ff,
        heads=model.heads,
        causal=causal,
        precision=precision,
        rounds=rounds,
        threads=torch.get_num_threads(),
    )


def _at(layers: dict[str, nn.Module], t: int, d: int, rounds: int, budget: float) -> list[Point]:
    """Measure all mixers at one length; remove those too slow for ``budget`` from ``layers``."""
    batch = max(1, BATCHED // t)
    x = torch.randn(batch, t, d, requires_grad=True)
    most = budget / (rounds + 1)
    runs = {name: _backward(layer, x) for name, layer in layers.items()}
    for name, run in list(runs.items()):
        # The first call may include warm-up, so a mixer is only too slow if the second is as well.
        if seconds_of(run) > most and seconds_of(run) > most:
            del layers[name], runs[name]
    taken = {n: [s / batch for s in ss] for n, ss in in_turns(runs, rounds).rounds.items()}
    row = x[:1].detach().requires_grad_()
    return [
        Point(name, t, statistics.median(s), min(s), max(s), allocated_peak(layers[name], row))
        for name, s in taken.items()
    ]


def _backward(layer: nn.Module, x: Tensor) -> Prepared:
    """A forward and backward pass; clearing the gradients is not timed."""

    def run() -> None:
        layer(x).sum().backward()

    def make() -> Callable[[], None]:
        layer.zero_grad(set_to_none=True)
        x.grad = None
        return run

    return Prepared(make)
