"""``bench``: every mixer and form against softmax attention, over lengths, on this machine.

Speed is a ratio measured in one interleaved run: candidates take turns, each round gives a ratio,
and the median and quartiles over rounds are what is reported. Threads should be pinned
(``OMP_PROC_BIND=true OMP_PLACES=cores``; the command does): unpinned, two can share a core.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

import torch
from torch import Tensor, nn

from subquad.lab.bench import tokens as bench_tokens
from subquad.lab.bench.result import BenchResult, Row, environment
from subquad.lab.instruments.generation import generation_speed
from subquad.lab.instruments.timing import Times, interleave, peak_memory
from subquad.lab.recipes import drawing
from subquad.mixers import fnet, linear
from subquad.mixers.fnet import transforms
from subquad.models.block import Block
from subquad.models.config import ModelConfig
from subquad.models.precision import autocast, resolve
from subquad.tasks import task_class


@dataclass(frozen=True, kw_only=True)
class BenchConfig:
    """What to measure."""

    lengths: tuple[int, ...] = (64, 128, 256, 1024, 4096, 16384)
    """Tokens per row of the attention measurement (batch 1, 8 heads of 64)."""
    long_lengths: tuple[int, ...] = (65536, 262144)
    """Where only the linear-time forms run."""
    step_lengths: tuple[int, ...] = (512, 2048, 8192)
    """Tokens per row of the training step (8,192 tokens, 4 layers, d=256, 8 heads, ff 1,024)."""
    mixers: tuple[str, ...] = ("none", "fnet", "fastformer", "linear", "linear causal", "softmax")
    """Names of the training step; `` causal`` behind a name asks for its causal class."""
    fourier_shapes: tuple[tuple[int, int, int], ...] = (
        (128, 32, 128),
        (16, 512, 256),
        (8, 512, 768),
        (4, 2048, 256),
        (1, 4096, 768),
        (1, 8192, 256),
        (1, 16384, 256),
    )
    """Batch, tokens and width at which the forms of Fourier mixing are compared."""
    batches: tuple[int, ...] = (1, 32)
    """Streams that generate a token at a time (8 layers, d=256, 8 heads, ff 1,024)."""
    images: bool = False
    """Also images per second at the paper's two shapes, which takes minutes."""
    seconds: float = 10.0
    """Time for one comparison (never fewer than three rounds)."""
    seed: int = 0
    memory: bool = True


HEADS, WIDTH, STEP_TOKENS = 8, 64, 8192


def _softmax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def _first(form: Callable[..., tuple[Tensor, object]], q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return form(q, k, v)[0]


def _native(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    from subquad.kernels import causal_linear_attention

    return causal_linear_attention(q, k, v)[0]


#: Causal attention by name. The softmax one is the baseline.
FORMS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "softmax": _softmax,
    "native": _native,
    "chunked": partial(_first, linear.chunked),
}


def forms() -> list[str]:
    """The forms this installation has."""
    from subquad.kernels import status

    return [name for name in FORMS if name != "native" or status().native]


def attention_inputs(t: int, grad: bool, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """q, k, v ``[1, 8, t, 64]``."""
    return [torch.randn(1, HEADS, t, WIDTH).to(dtype).requires_grad_(grad) for _ in range(3)]


def attention_run(form: str, inputs: list[Tensor], backward: bool) -> Callable[[], object]:
    """One forward, or one forward and backward, of a form."""

    def run() -> None:
        if not backward:
            with torch.no_grad():
                FORMS[form](*inputs)
            return
        torch.autograd.grad(FORMS[form](*inputs).sum(), inputs)

    return run


def _rows(kind: str, t: int, times: Times, base: str) -> list[Row]:
    made = []
    for name in times.rounds:
        ratio, low, high = times.ratio(base, name)
        rounds = len(times.rounds[name])
        made.append(Row(kind, name, t, times.median(name), base, ratio, low, high, rounds))
    return made


def _attention(config: BenchConfig) -> list[Row]:
    rows = []
    for t in (*config.lengths, *config.long_lengths):
        names = [n for n in forms() if t in config.lengths or n == "native"]
        for backward in (False, True) if t in config.lengths else (False,):
            inputs = attention_inputs(t, backward)
            runs = {n: attention_run(n, inputs, backward) for n in names}
            if not backward and "native" in names:
                half = attention_inputs(t, False, torch.bfloat16)
                runs["native bf16"] = attention_run("native", half, False)
            kind = "forward+backward" if backward else "forward"
            base = "softmax" if "softmax" in names else "native"
            if runs:
                rows += _rows(kind, t, interleave(runs, config.seconds), base)
    return rows


def _step(name: str, t: int) -> Callable[[], object]:
    """A forward and backward of four blocks, in the precision that a training would have here."""
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


def _steps(config: BenchConfig) -> list[Row]:
    rows = []
    for t in config.step_lengths:
        runs = {name: _step(name, t) for name in config.mixers}
        times = interleave(runs, config.seconds)
        for name, seconds in times.rounds.items():
            over_floor = times.ratio(name, "none")
            row = ("training step", name, t, times.median(name), "none", *over_floor, len(seconds))
            rows.append(Row(*row))
    return rows


def _fourier(config: BenchConfig) -> list[Row]:
    from subquad.kernels import status

    rows = []
    for b, t, d in config.fourier_shapes:
        x = torch.randn(b, t, d)
        runs = {"whole": partial(transforms.whole_spectrum, x)}
        if status().native:
            runs["half"] = partial(transforms.half_spectrum, x, hartley=False)
        if t <= 512:
            runs["products"] = partial(fnet.definition, x)
        rows += _rows(f"fourier {b},{t},{d}", t, interleave(runs, config.seconds / 10), "whole")
    return rows


def _tokens(config: BenchConfig) -> list[Row]:
    rows = []
    for batch in config.batches:
        times = bench_tokens.tokens(batch, config.seconds)
        if times is not None:
            rows += _rows("eight tokens", batch, times, bench_tokens.TORCH)
    return rows


#: Images drawn together, and rounds. The more streams, the more the engine gains on recomputation
#: (LOG.md), and the longer the softmax ways take.
_TOGETHER = ((drawing.MNIST, 32, 2), (drawing.CIFAR10, 4, 1))


def _images() -> list[Row]:
    """Seconds for one image; the ratio is how much faster the recurrent form is."""
    rows = []
    for paper, batch, rounds in _TOGETHER:
        config = paper.settings(task_class("pixels").defaults()).model
        found = generation_speed(
            config,
            levels=256,
            length=paper.length,
            batch=batch,
            rounds=rounds,
            ways=drawing.WAYS,
        )
        best = found[0]
        for s in found:
            spread = (best.slowest / s.fastest, best.fastest / s.slowest)
            ratio = (best.median / s.median, *spread)
            row = ("image", s.method, paper.length, 1 / s.median, best.method, *ratio, rounds)
            rows.append(Row(*row))
    return rows


def bf16_error(t: int = 4096) -> float:
    """The native form on bf16 inputs against fp64 on the same inputs, relative to the largest."""
    q, k, v = attention_inputs(t, False, torch.bfloat16)
    exact = linear.chunked(q.double(), k.double(), v.double())[0]
    found = _native(q, k, v).double()
    return ((found - exact).abs().max() / exact.abs().max()).item()


def bench(config: BenchConfig, command: str = "subquad bench") -> BenchResult:
    """Measure; print nothing. ``command`` is noted for whoever wants to measure again."""
    torch.manual_seed(config.seed)
    rows = _attention(config) + _fourier(config) + _steps(config) + _tokens(config)
    rows += _images() if config.images else []
    memory: dict[str, int] = {}
    if config.memory:
        memory = {n: peak_memory(n, max(config.lengths), backward=True) for n in forms()}
    numbers = {"bf16 error": bf16_error()} if "native" in forms() else {}
    late = bench_tokens.late_over_early(config.seconds) if config.batches else None
    numbers |= {} if late is None else {"token late over early": late}
    return BenchResult(asdict(config), environment(config.seed, command), rows, memory, numbers)
