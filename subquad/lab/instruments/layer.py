"""What one layer costs as rows grow: time and memory, forward and backward, for each mixer.

Time: the mixers take turns at every length, several rounds in one process, so that a machine that
slows down slows all of them down; the median and the spread of the rounds are kept. Short rows go
several at a time (``BATCHED`` tokens together) and the time is given per row.

Memory: the most bytes that torch's allocator holds at once above the parameters and the input, of
one row, counted from its own record of every allocation and release (``torch.profiler``). This is
exact and repeatable where the process's resident size is neither; scratch space that a kernel
takes from elsewhere is not in it.
"""

import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from subquad.errors import UsageError
from subquad.models import ModelConfig
from subquad.models.block import Block
from subquad.models.precision import Precision, autocast, resolve

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
#: Tokens that are processed together at least.
BATCHED = 1024
ROUNDS = 5

#: Called with what is being measured and the fraction of the work done.
Watch = Callable[[dict[str, Any], float], None]


def _ignore(line: dict[str, Any], spent: float) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class Point:
    """One mixer at one length, per row."""

    mixer: str
    length: int
    seconds: float
    """Median over rounds."""
    fastest: float
    slowest: float
    nbytes: int


@dataclass(frozen=True)
class Measured:
    """All points, and how they were taken."""

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
        """Growth exponent over the longest quarter of the range: 1 = linear, 2 = quadratic.

        Least squares in log–log over lengths of at least a quarter of the longest; None if fewer
        than two.
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
    watch: Watch = _ignore,
) -> Measured:
    """Time and memory of one block (mixer and feed-forward) of ``model``'s width.

    A mixer drops out at the length where its rounds would take more than ``budget`` seconds.

    Raises:
        UsageError: an unknown mixer, or a length below 1.
    """
    if any(t < 1 for t in lengths):
        raise UsageError(f"lengths {', '.join(map(str, lengths))} must be at least 1")
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
        watch({"kind": "measure", "length": length}, i / len(lengths))
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
    """All mixers at one length; those too slow for ``budget`` leave ``layers``."""
    batch = max(1, BATCHED // t)
    x = torch.randn(batch, t, d, requires_grad=True)
    most = budget / (rounds + 1)
    for name, layer in list(layers.items()):
        # A first use also loads kernels: only one that is slow again is too slow.
        if _seconds(layer, x) > most and _seconds(layer, x) > most:
            del layers[name]
    taken: dict[str, list[float]] = {name: [] for name in layers}
    for _ in range(rounds):
        for name, layer in layers.items():
            taken[name].append(_seconds(layer, x) / batch)
    row = x[:1].detach().requires_grad_()
    return [
        Point(name, t, statistics.median(s), min(s), max(s), peak_bytes(layers[name], row))
        for name, s in taken.items()
    ]


def _seconds(layer: nn.Module, x: Tensor) -> float:
    layer.zero_grad(set_to_none=True)
    x.grad = None
    began = time.perf_counter()
    layer(x).sum().backward()
    return time.perf_counter() - began


def peak_bytes(layer: nn.Module, x: Tensor) -> int:
    """The most bytes held at once by a forward and backward pass, above what was held before.

    The gradients of the parameters are allocated beforehand: they belong to the layer, not to the
    row.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # its log is for its makers, not for people
    for tensor in [*layer.parameters(), x]:
        tensor.grad = torch.zeros_like(tensor)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as record:
        layer(x).sum().backward()
    assert record.profiler is not None
    events = record.profiler.kineto_results.events()
    changes = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
    held = most = 0
    for _, change in sorted(changes, key=lambda c: c[0]):
        held += change
        most = max(most, held)
    return int(most)
