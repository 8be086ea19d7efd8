"""Measures whether bf16 is faster than fp32 on this processor. Some processors advertise bf16 but
multiply it more slowly, so both are timed, once per machine, torch version and thread count."""

import contextlib
import json
import os
import platform
import statistics
import time
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import torch

from subquad.errors import SubquadError
from subquad.storage import write_text

#: Rows, inputs and outputs of the matrix products that are timed.
SHAPES = ((512, 256, 1024), (1024, 512, 1024))
#: Time budget in seconds, and maximum number of rounds.
ENOUGH, ROUNDS = 0.3, 5


@dataclass(frozen=True)
class Times:
    """Seconds for the matrix products of a training step, forward and backward, with and without
    autocast to bf16."""

    bf16: float
    fp32: float

    @property
    def faster(self) -> bool:
        """Whether bf16 is faster."""
        return self.bf16 < self.fp32


@cache
def times() -> Times:
    """The timings of this processor, from the cache file if possible."""
    found = _remembered()
    if found is None:
        found = measure()
        _remember(found)
    return found


def cache_file() -> Path | None:
    """The file in which timings are cached; None if there is no place for it."""
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        folder = Path(base) if base else Path.home() / ".cache"
    except RuntimeError:  # there is no home directory
        return None
    return folder / "subquad" / "arithmetic.json" if folder.is_absolute() else None


def measure() -> Times:
    """Time both. They take turns, so that other load slows both equally; the result is the sum of
    medians. Random states are not changed."""
    began, seconds = time.perf_counter(), {True: 0.0, False: 0.0}
    with torch.inference_mode(False), torch.enable_grad():
        for i, (rows, inputs, outputs) in enumerate(SHAPES, start=1):
            x = torch.ones(rows, inputs, requires_grad=True)
            weight = torch.ones(outputs, inputs, requires_grad=True)
            rounds: dict[bool, list[float]] = {True: [], False: []}
            for _ in range(1 + ROUNDS):
                for bf16, taken in rounds.items():
                    taken.append(_seconds(x, weight, bf16))
                late = time.perf_counter() - began > ENOUGH * i / len(SHAPES)
                if late and len(rounds[True]) > 1:
                    break
            for bf16, taken in rounds.items():
                seconds[bf16] += statistics.median(taken[1:])  # the first round is a warm-up
    return Times(bf16=seconds[True], fp32=seconds[False])


def _seconds(x: torch.Tensor, weight: torch.Tensor, bf16: bool) -> float:
    x.grad = weight.grad = None
    began = time.perf_counter()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        y = torch.nn.functional.linear(x, weight)
    y.backward(torch.ones_like(y))
    return time.perf_counter() - began


def _key() -> str:
    processor = torch.cpu.get_capabilities().get("cpu_name") or platform.processor()
    return f"{processor}, torch {torch.__version__}, {torch.get_num_threads()} threads"


def _known() -> dict[str, dict[str, float]]:
    path = cache_file()
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path is not None else {}
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _remembered() -> Times | None:
    try:
        found = Times(**_known()[_key()])
    except (KeyError, TypeError):
        return None
    numbers = (found.bf16, found.fp32)
    return found if all(isinstance(n, float) and n > 0 for n in numbers) else None


def _remember(found: Times) -> None:
    path = cache_file()
    if path is not None:
        with contextlib.suppress(SubquadError):  # measured again next time
            write_text(path, json.dumps(_known() | {_key(): asdict(found)}, indent=1) + "\n")
