"""What a conversion costs and gains at each length: forward passes of the whole model.

The old and the new model, and one that does not mix tokens at all, take turns at every length. The
last one is the bound: no mixer can make this body faster than that. Weights do not matter for the
time, so the models have as many positions as the longest row needs, drawn at random.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from subquad.conversion import Conversion
from subquad.conversion.student import remade
from subquad.lab.instruments.layer import Measured, Point
from subquad.lab.instruments.memory import allocated_by
from subquad.lab.instruments.timing import interleave
from subquad.lab.progress import Progress, Watch
from subquad.mixers import CONTROL
from subquad.models.precision import autocast, resolve

LENGTHS = (128, 256, 512, 1024, 2048, 4096)
#: Seconds for each length, about.
SECONDS = 2.0
#: A new model is faster if it takes this share of the old one's time at most.
FASTER = 0.95
BEFORE, AFTER, BARE = "original", "converted", "no mixing"


def measure(made: Conversion, lengths: Sequence[int], watch: Watch) -> Measured:
    """Time and memory of one row at each length, for ``BEFORE``, ``AFTER`` and ``BARE``."""
    longest = max(lengths)
    old, new = made.teacher.task, made.student.task
    on = torch.device("cpu")
    precision = resolve("auto", on)
    bare: dict[str, Any] = {"mixers": (CONTROL,), "hybrid": None, "mixer_options": {}}
    tasks = {BEFORE: remade(old, length=longest), AFTER: remade(new, length=longest)}
    tasks[BARE] = remade(new, length=longest, **bare)
    models = {name: task.model().eval() for name, task in tasks.items()}
    points: list[Point] = []
    for i, length in enumerate(sorted(lengths)):
        watch(Progress(i / len(lengths), f"measuring at {length:,} tokens"))
        with autocast(precision, on), torch.inference_mode():
            points += _at(models, length)
    model = old.config.model
    return Measured(
        tuple(points),
        d=model.d,
        ff=model.ff,
        heads=model.heads,
        causal=old.causal,
        precision=precision,
        rounds=3,
        threads=torch.get_num_threads(),
    )


def pays_from(measured: Measured) -> int | None:
    """The shortest measured length from which on the new model is faster at every length; None if
    it is not at the longest."""
    pays = None
    for old, new in zip(measured.of(BEFORE), measured.of(AFTER), strict=True):
        if new.seconds > FASTER * old.seconds:
            pays = None
        elif pays is None:
            pays = new.length
    return pays


def times_as_fast(measured: Measured, name: str) -> dict[int, float]:
    """Length → how many times as fast as the old model."""
    pairs = zip(measured.of(BEFORE), measured.of(name), strict=True)
    return {old.length: old.seconds / new.seconds for old, new in pairs}


def _at(models: Mapping[str, nn.Module], t: int) -> list[Point]:
    runs = {name: _forward(model, t) for name, model in models.items()}
    times = interleave(runs, SECONDS)
    return [
        Point(
            name,
            t,
            times.median(name),
            min(times.rounds[name]),
            max(times.rounds[name]),
            allocated_by(run),
        )
        for name, run in runs.items()
    ]


def _forward(model: nn.Module, t: int) -> Callable[[], object]:
    table = next(module for module in model.modules() if isinstance(module, nn.Embedding))
    tokens = torch.randint(table.num_embeddings, (1, t))
    return lambda: model(tokens)
