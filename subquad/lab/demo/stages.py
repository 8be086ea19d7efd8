"""The demo: a few minutes of training on built-in data, and one page with the results.

::

    OUT/
      report.html       the page
      results.json      its numbers
      runs/             the trained runs; runs/pixels generates digits
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
#: Number of generated digits, and of real ones shown next to them.
SHOWN = 64


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much the demo does; the defaults take about three minutes on two cores."""

    epochs: float = 10
    """Training epochs for each mixer in the comparison."""
    seeds: int = 2
    pixel_epochs: float | None = None
    """Training epochs for the model that generates digits; by default, those of the task."""
    temperature: float = 0.7
    lengths: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048)
    """Sequence lengths at which the cost of one layer is measured."""
    speeds: tuple[tuple[int, int, int], ...] = ((64, 64, 3), (784, 16, 2))
    """(pixels per image, batch size, rounds) for each measurement of generation speed."""


def demo(out: str | Path, *, settings: Settings | None = None, watch: Watch = ignore) -> Demo:
    """Train, compare, generate and measure on the built-in digits; write one page to ``out``.

    Runs that an earlier, interrupted demo has finished there are reused.

    Raises:
        UsageError: ``out/runs`` contains runs with other settings.
        Interrupted: a signal arrived; the same call continues the demo.
    """
    out, settings = Path(out), settings or Settings()
    first = of_training(part(watch, 0, 0.4), "training the pixel model")
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
    """Write the page and its numbers."""
    text = json.dumps(made.to_dict(), indent=1, ensure_ascii=False) + "\n"
    write_text(made.results, text)
    write_text(made.report, render(made.comparison, context(made)))


def pixel_config(settings: Settings) -> Config:
    """Settings of the pixel model: the task's defaults."""
    config = task_class("pixels").defaults()
    if settings.pixel_epochs is None:
        return config
    return replace(config, training=replace(config.training, epochs=settings.pixel_epochs))


def compare_config(settings: Settings) -> Config:
    """Settings of the comparison: one layer, and a quarter of the digits held out for more reliable
    results; fp32, because softmax attention this narrow is several times slower in bf16."""
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
    """Generate ``SHOWN`` digits with a pixel run and judge them by a classifier of real digits."""
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
    """The training and held-out digits of a pixel run, with their classes."""
    config = task_class("classify").defaults()
    data = replace(run.config.data, path=digits.NAME)
    _, training, held_out = task_class("classify").fit(replace(config, data=data), run.path / STORE)
    return training, held_out


def _spread(n: int, wanted: int) -> Sequence[int]:
    """Evenly spaced indices, so that the images shown come from all of the data set."""
    return [int(i) for i in np.linspace(0, n - 1, min(n, wanted))]


def _drawn(drawing: Drawing) -> str:
    return (
        f"pixel model: {drawing.bits_per_dim:.2f} bits per pixel after "
        f"{drawing.seconds:.0f} s; a classifier recognises {drawing.recognition.recognised:.0%} "
        "of its digits"
    )


def _paces(speeds: Sequence[Speed]) -> str:
    paces = ", ".join(f"{s.method} {s.median:,.3g}" for s in speeds)
    return f"images of {speeds[0].length:,} pixels per second: {paces}"
