"""``bench``: every mixer and kernel compared with softmax attention at several sequence lengths.

Speed is reported as a ratio measured within one interleaved run: candidates take turns, every round
gives one ratio, and the report shows the median and quartiles over rounds. Threads should be pinned
(``OMP_PROC_BIND=true OMP_PLACES=cores``, which the command line sets), because unpinned threads can
end up on the same core.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from subquad.lab.bench import attention
from subquad.lab.bench import tokens as bench_tokens
from subquad.lab.bench.result import BenchResult, Row
from subquad.lab.instruments import machine
from subquad.lab.instruments.generation import generation_speed
from subquad.lab.instruments.timing import Times, interleave
from subquad.lab.progress import Progress, Watch, ignore
from subquad.lab.published import CIFAR10, MNIST, WAYS
from subquad.mixers import fnet
from subquad.mixers.fnet import transforms
from subquad.models.block import Block
from subquad.models.config import ModelConfig
from subquad.models.precision import autocast, device, resolve
from subquad.tasks import task_class


@dataclass(frozen=True, kw_only=True)
class BenchConfig:
    """What to measure."""

    lengths: tuple[int, ...] = (64, 128, 256, 1024, 4096, 16384)
    """Sequence lengths for attention on its own (batch 1, 8 heads of 64)."""
    long_lengths: tuple[int, ...] = (65536, 262144)
    """Longer sequences, for which only the linear-time kernels are timed."""
    step_lengths: tuple[int, ...] = (512, 2048, 8192)
    """Sequence lengths for a training step (batches of 8,192 tokens, 4 layers, d=256, 8 heads, ff
    1,024)."""
    mixers: tuple[str, ...] = ("none", "fnet", "fastformer", "linear", "linear causal", "softmax")
    """Mixers whose training step is timed; `` causal`` after a name means the causal version."""
    fourier_shapes: tuple[tuple[int, int, int], ...] = (
        (128, 32, 128),
        (16, 512, 256),
        (8, 512, 768),
        (4, 2048, 256),
        (1, 4096, 768),
        (1, 8192, 256),
        (1, 16384, 256),
    )
    """Shapes (batch, tokens, width) at which the implementations of Fourier mixing are compared."""
    batches: tuple[int, ...] = (1, 32)
    """Batch sizes for token-by-token generation (8 layers, d=256, 8 heads, ff 1,024)."""
    images: bool = False
    """Also measure images per second for the paper's two image models; this takes minutes."""
    seconds: float = 10.0
    """Seconds to spend on each comparison (at least three rounds are always run)."""
    seed: int = 0
    memory: bool = True


STEP_TOKENS = 8192


def _rows(kind: str, t: int, times: Times, base: str, *, over: bool = False) -> list[Row]:
    """One row per candidate; with ``over``, the ratio is its own time divided by the base's."""
    made = []
    for name in times.rounds:
        ratio, low, high = times.ratio(name, base) if over else times.ratio(base, name)
        made.append(
            Row(
                kind=kind,
                name=name,
                t=t,
                seconds=times.median(name),
                base=base,
                ratio=ratio,
                low=low,
                high=high,
                rounds=len(times.rounds[name]),
            )
        )
    return made


def _attention(config: BenchConfig) -> Iterator[list[Row]]:
    for t in (*config.lengths, *config.long_lengths):
        names = [n for n in attention.forms() if t in config.lengths or n == "native"]
        for backward in (False, True) if t in config.lengths else (False,):
            inputs = attention.inputs(t, backward)
            runs = {n: attention.call(n, inputs, backward) for n in names}
            if not backward and "native" in names:
                half = attention.inputs(t, False, torch.bfloat16)
                runs["native bf16"] = attention.call("native", half, False)
            kind = "forward+backward" if backward else "forward"
            base = "softmax" if "softmax" in names else "native"
            if runs:
                yield _rows(kind, t, interleave(runs, config.seconds), base)


def _step(name: str, t: int) -> Callable[[], object]:
    """A forward and backward pass of four blocks, in the precision that training would use here."""
    mixer, _, direction = name.partition(" ")
    shape = ModelConfig(mixers=(mixer,), layers=4, d=256, heads=8, ff=1024, dropout=0.0)
    causal = direction == "causal"
    stack = nn.Sequential(*(Block(shape, mixer, causal=causal, length=t) for _ in range(4)))
    x = torch.randn(STEP_TOKENS // t, t, 256)

    def run() -> None:
        stack.zero_grad()
        with autocast(resolve("auto", x.device), x.device):
            y = stack(x)
        y.float().square().mean().backward()

    return run


def _steps(config: BenchConfig) -> Iterator[list[Row]]:
    for t in config.step_lengths:
        runs = {name: _step(name, t) for name in config.mixers}
        yield _rows("training step", t, interleave(runs, config.seconds), "none", over=True)


def _fourier(config: BenchConfig) -> Iterator[list[Row]]:
    from subquad.kernels import status

    for b, t, d in config.fourier_shapes:
        x = torch.randn(b, t, d)
        runs = {"whole": partial(transforms.whole_spectrum, x)}
        if status().native:
            runs["half"] = partial(transforms.half_spectrum, x, hartley=False)
        if t <= 512:
            runs["products"] = partial(fnet.definition, x)
        yield _rows(f"fourier {b},{t},{d}", t, interleave(runs, config.seconds / 10), "whole")


def _tokens(config: BenchConfig) -> Iterator[list[Row]]:
    for batch in config.batches:
        times = bench_tokens.tokens(batch, config.seconds)
        if times is not None:
            yield _rows("eight tokens", batch, times, bench_tokens.TORCH)


#: Batch size and rounds for each image model. With larger batches the engine's lead over
#: recomputation grows (LOG.md), and so does the time that the softmax baselines take.
_TOGETHER = ((MNIST, 32, 2), (CIFAR10, 4, 1))


def _images() -> Iterator[list[Row]]:
    """Seconds per image; the ratio is the speed-up of recurrent generation over each baseline."""
    for paper, batch, rounds in _TOGETHER:
        config = paper.settings(task_class("pixels").defaults())
        found = generation_speed(
            config.model,
            levels=256,
            length=paper.length,
            batch=batch,
            mixture=config.options.mixture,
            rounds=rounds,
            ways=WAYS,
        )
        best = found[0]
        yield [
            Row(
                kind="image",
                name=s.method,
                t=paper.length,
                seconds=1 / s.median,
                base=best.method,
                ratio=best.median / s.median,
                low=best.slowest / s.fastest,
                high=best.fastest / s.slowest,
                rounds=rounds,
            )
            for s in found
        ]


def _comparisons(config: BenchConfig) -> Iterator[list[Row]]:
    """Yield the rows of each comparison in turn."""
    yield from _attention(config)
    yield from _fourier(config)
    yield from _steps(config)
    yield from _tokens(config)
    if config.images:
        yield from _images()


def _expected(config: BenchConfig) -> int:
    """The number of comparisons that will be run."""
    from subquad.kernels import status

    attended = 2 * len(config.lengths) + len(config.long_lengths)
    rest = len(config.fourier_shapes) + len(config.step_lengths)
    rest += len(config.batches) if status().native else 0  # the step engine against torch
    return attended + rest + len(_TOGETHER) * config.images


def _in_a_line(rows: list[Row]) -> str:
    times = ", ".join(f"{row.name} {row.seconds * 1e3:,.3g} ms" for row in rows)
    return f"{rows[0].kind}, {rows[0].t:,}: {times}"


def bench(
    config: BenchConfig, command: str = "subquad bench", *, watch: Watch = ignore
) -> BenchResult:
    """Run the whole benchmark and return the results; nothing is printed or written.

    ``command`` is stored in the result so that others can repeat the measurement.
    """
    torch.manual_seed(config.seed)
    rows: list[Row] = []
    for done, found in enumerate(_comparisons(config), 1):
        rows += found
        watch(Progress(done / _expected(config), "measuring", _in_a_line(found)))
    memory: dict[str, int] = {}
    if config.memory:
        memory = {
            n: attention.peak_memory(n, max(config.lengths), backward=True)
            for n in attention.forms()
        }
    numbers = {"bf16 error": attention.bf16_error()} if "native" in attention.forms() else {}
    late = bench_tokens.late_over_early(config.seconds) if config.batches else None
    numbers |= {} if late is None else {"token late over early": late}
    return BenchResult(asdict(config), _environment(config.seed, command), rows, memory, numbers)


def _environment(seed: int, command: str) -> dict[str, Any]:
    """The circumstances of the measurement: what a reader needs to interpret or repeat it."""
    from subquad.kernels import status

    return machine.facts(f"fp32, training steps in {resolve('auto', device('cpu'))}") | {
        "command": command,
        "seed": seed,
        "pinned": os.environ.get("OMP_PROC_BIND", "false"),
        "kernels": asdict(status()),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }
