"""The demonstration: what the project is for, in a few minutes, from built-in data, on one page.

::

    OUT/
      report.html       the story
      results.json      its numbers
      runs/             the runs behind them; runs/pixels draws digits
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from subquad.data import digits
from subquad.data.batches import Examples
from subquad.generation import Sampling, images
from subquad.lab.compare.experiment import study
from subquad.lab.compare.floors import floors, matrix
from subquad.lab.compare.report import render
from subquad.lab.demo.page import context
from subquad.lab.demo.recognise import recognise
from subquad.lab.demo.result import Demo, Drawing
from subquad.lab.instruments.generation import Speed, generation_speed
from subquad.lab.progress import Progress, Watch, ignore, of_training, part
from subquad.run import Run
from subquad.storage import write_text
from subquad.tasks import Config, task_class
from subquad.training import STORE, train

MIXERS = ("softmax", "linear", "fnet", "fastformer", "none")
#: Digits drawn, and real ones shown beside them.
SHOWN = 64


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much the demonstration does; the defaults take about three minutes on two cores."""

    epochs: float = 10
    """Of each mixer in the comparison."""
    seeds: int = 2
    pixel_epochs: float | None = None
    """Of the model that draws; None = the task's own default."""
    temperature: float = 0.7
    lengths: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048)
    """Row lengths at which one layer is measured."""
    speeds: tuple[tuple[int, int, int], ...] = ((64, 64, 3), (784, 16, 2))
    """(pixels in an image, images at once, rounds) for the speed of generation."""


def demo(out: str | Path, *, settings: Settings | None = None, watch: Watch = ignore) -> Demo:
    """Train, compare, draw and measure on the built-in digits; leave one page in ``out``.

    What an earlier, broken-off demo finished there is used again.

    Raises:
        UsageError: ``out/runs`` holds runs with other settings.
        Interrupted: a signal came; the same call continues.
    """
    out, settings = Path(out), settings or Settings()
    first = of_training(part(watch, 0, 0.4), "training the model that draws")
    run = train(pixel_config(settings), out / "runs" / "pixels", resume=True, watch=first)
    drawing = draw(run, settings)
    watch(Progress(0.4, "comparing", _drawn(drawing)))
    comparison = study(
        compare_config(settings),
        MIXERS,
        settings.seeds,
        out,
        lengths=settings.lengths,
        command=f"subquad demo --out {out}",
        watch=part(watch, 0.4, 0.5),
    )
    speeds: list[Speed] = []
    for i, (length, batch, rounds) in enumerate(settings.speeds):
        piece = part(watch, 0.9 + 0.1 * i / len(settings.speeds), 0.1 / len(settings.speeds))
        piece(Progress(0.0, f"measuring generation of {length:,} pixels"))
        found = generation_speed(
            run.config.model, levels=digits.LEVELS, length=length, batch=batch, rounds=rounds
        )
        piece(Progress(1.0, "measuring generation", _paces(found)))
        speeds += found
    made = Demo(out, comparison, drawing, tuple(speeds))
    write(made)
    watch(Progress(1.0, "done"))
    return made


def write(made: Demo) -> None:
    """The page and its numbers."""
    text = json.dumps(made.to_dict(), indent=1, ensure_ascii=False) + "\n"
    write_text(made.results, text)
    write_text(made.report, render(made.comparison, context(made)))


def pixel_config(settings: Settings) -> Config:
    """The model that draws: the task's defaults."""
    config = task_class("pixels").defaults()
    if settings.pixel_epochs is None:
        return config
    return replace(config, training=replace(config.training, epochs=settings.pixel_epochs))


def compare_config(settings: Settings) -> Config:
    """The contest: one layer each, a quarter of the digits held out so that figures mean more.

    fp32, because so narrow a softmax attention is several times slower in bf16.
    """
    config = task_class("classify").defaults()
    return config.having(
        path=digits.NAME,
        validation=0.25,
        layers=1,
        d=64,
        heads=4,
        ff=128,
        dropout=0.0,
        token_dropout=0.0,
        epochs=settings.epochs,
        batch=16,
        lr=4e-3,
        precision="fp32",
        label_smoothing=0.0,
    )


def draw(run: Run, settings: Settings) -> Drawing:
    """``SHOWN`` digits from a pixel run, judged by a classifier that saw only real ones."""
    made = images(run, SHOWN, Sampling(temperature=settings.temperature))
    training, held_out = labelled_rows(run)
    judged = recognise(made.pixels.reshape(SHOWN, -1), training, held_out)
    task, *rows = task_class(run.config.task).fit(run.config, run.path / STORE)
    best = run.best()
    return Drawing(
        pixels=made.pixels,
        real=matrix(held_out)[_spread(len(held_out), SHOWN)].reshape(-1, *digits.SHAPE),
        temperature=settings.temperature,
        recognition=judged,
        bits_per_dim=float(best["bits_per_dim"]),
        floors=tuple(floors(task, run.config, rows[0], rows[1])),
        state_bytes=made.state_bytes // SHOWN,
        seconds=float(best["seconds"]),
        rows=len(training),
    )


def labelled_rows(run: Run) -> tuple[Examples, Examples]:
    """The digits that a pixel run learned from and those it did not, with their classes."""
    config = task_class("classify").defaults()
    data = replace(run.config.data, path=digits.NAME)
    _, training, held_out = task_class("classify").fit(replace(config, data=data), run.path / STORE)
    return training, held_out


def _spread(n: int, wanted: int) -> Sequence[int]:
    """Indices spread evenly, so that neither end of the data set is preferred."""
    return [int(i) for i in np.linspace(0, n - 1, min(n, wanted))]


def _drawn(drawing: Drawing) -> str:
    return (
        f"the model that draws: {drawing.bits_per_dim:.2f} bits per pixel after "
        f"{drawing.seconds:.0f} s; a classifier recognises {drawing.recognition.recognised:.0%} "
        "of its digits"
    )


def _paces(speeds: Sequence[Speed]) -> str:
    paces = ", ".join(f"{s.method} {s.median:,.3g}" for s in speeds)
    return f"images of {speeds[0].length:,} pixels per second: {paces}"
