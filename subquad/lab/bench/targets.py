"""Performance targets of the native core, as ratios within one run; ``bench`` prints PASS/FAIL."""

from subquad.lab.bench.result import BenchResult, Target

#: Minimum speed-up over softmax attention, by sequence length.
OVER_SOFTMAX = {
    "forward": {64: 1.0, 128: 1.0, 256: 1.0, 1024: 12.0, 4096: 35.0, 16384: 100.0},
    "forward+backward": {1024: 8.0, 4096: 25.0, 16384: 80.0},
}
#: Minimum speed-up over the chunked torch implementation, at 1,024 tokens and more.
OVER_CHUNKED = {"forward": 6.0, "forward+backward": 5.0}
#: Maximum time of a training step, relative to a step without mixing.
STEP = {"fnet": 1.2, "fastformer": 1.6, "linear": 1.8, "linear causal": 1.8}
#: Minimum speed-up over torch for generating one token, by batch size and engine weights.
TOKEN = {(1, "engine fp32"): 3.0, (1, "engine bf16"): 5.0, (32, "engine fp32"): 3.0}
#: Maximum time of a token at position 100,000, relative to one at position 10.
LATE = 1.05
#: Minimum speed-up in images per second over softmax with recomputation and with a copied cache.
IMAGES = {
    ("softmax, recomputed", 784): 317.0,
    ("softmax, copied cache", 784): 19.0,
    ("softmax, recomputed", 3072): 4462.0,
    ("softmax, copied cache", 3072): 56.0,
}
#: Maximum memory of a forward and backward pass at 16,384 tokens, in MiB, inputs not counted.
MEMORY = 160


def targets(result: BenchResult) -> list[Target]:
    """All targets with the measured values."""
    return [*_speed(result), *_scaling(result), *_steps(result), *_tokens(result), *_others(result)]


def _target(text: str, found: float | None, limit: float, *, least: bool) -> Target:
    passed = found is not None and (found >= limit if least else found <= limit)
    return Target(f"{text} {'≥' if least else '≤'} {limit:g}", found, passed)


def _speed(result: BenchResult) -> list[Target]:
    made = []
    for kind, limits in OVER_SOFTMAX.items():
        for t, limit in limits.items():
            row = result.row(kind, "native", t)
            found = row.ratio if row else None
            made.append(_target(f"{kind}, {t}, times softmax", found, limit, least=True))
    for kind, limit in OVER_CHUNKED.items():
        for t in (1024, 4096, 16384):
            row, slow = result.row(kind, "native", t), result.row(kind, "chunked", t)
            found = slow.seconds / row.seconds if row and slow else None
            made.append(_target(f"{kind}, {t}, times chunked", found, limit, least=True))
    return made


def _scaling(result: BenchResult) -> list[Target]:
    made = []
    base = result.row("forward", "native", 16384)
    for t in (65536, 262144):
        row = result.row("forward", "native", t)
        found = row.seconds / t / (base.seconds / base.t) if row and base else None
        made.append(_target(f"time per token at {t} over 16384's", found, 1.3, least=False))
    half = result.row("forward", "native bf16", 16384)
    found = half.seconds / base.seconds if half and base else None
    return [*made, _target("bf16 time over fp32's, 16384", found, 1.0, least=False)]


def _steps(result: BenchResult) -> list[Target]:
    made = []
    for name, limit in STEP.items():
        for t in result.config["step_lengths"]:
            row = result.row("training step", name, t)
            found = row.ratio if row else None
            made.append(
                _target(f"training step, {name}, {t}, over none", found, limit, least=False)
            )
    return made


def _tokens(result: BenchResult) -> list[Target]:
    made = []
    for (batch, name), limit in TOKEN.items():
        row = result.row("eight tokens", name, batch)
        found = row.ratio if row else None
        made.append(_target(f"token, {name}, batch {batch}, times torch", found, limit, least=True))
    if any(row.kind == "image" for row in result.rows):
        for (name, length), limit in IMAGES.items():
            row = result.row("image", name, length)
            found = row.ratio if row else None
            made.append(_target(f"images of {length}, times {name}", found, limit, least=True))
    late = result.numbers.get("token late over early")
    return [*made, _target("token at 100,000 over one at 10", late, LATE, least=False)]


def _others(result: BenchResult) -> list[Target]:
    size = result.memory.get("native")
    found = None if size is None else size / 2**20
    return [
        _target("bf16 error against fp64", result.numbers.get("bf16 error"), 1e-2, least=False),
        _target("MiB over inputs, forward+backward", found, MEMORY, least=False),
    ]
