"""The demonstration: what the project is for, in a few minutes, from built-in data, on one page.

::

    OUT/
      report.html       the story
      results.json      its numbers
      runs/             the runs behind them; runs/pixels draws digits
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from subquad.checkpoint import write_text
from subquad.data import digits
from subquad.data.batches import Examples
from subquad.generation import Sampling, images
from subquad.lab.compare.floors import Floor, floors, matrix
from subquad.lab.compare.runs import Watch
from subquad.lab.compare.study import REPORT, RESULTS, Comparison, study
from subquad.lab.demo.recognise import Recognition, recognise
from subquad.lab.instruments.generation import Speed, generation_speed
from subquad.run import Run
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


@dataclass(frozen=True)
class Drawing:
    """What the pixel model drew, and what to think of it."""

    pixels: npt.NDArray[np.int64]
    """``[n, 8, 8]`` of 0..16."""
    real: npt.NDArray[np.int64]
    """As many held-out digits."""
    temperature: float
    recognition: Recognition
    bits_per_dim: float
    floors: tuple[Floor, ...]
    state_bytes: int
    """Carried from pixel to pixel for one image."""
    seconds: float
    """Training."""
    rows: int
    """Digits it learned from."""

    def to_dict(self) -> dict[str, Any]:
        """Without the pictures."""
        kept = {
            "temperature": self.temperature,
            "bits_per_dim": self.bits_per_dim,
            "state_bytes": self.state_bytes,
            "train_seconds": self.seconds,
            "rows": self.rows,
        }
        judged = asdict(self.recognition)
        return kept | {"recognition": judged, "floors": [asdict(f) for f in self.floors]}


@dataclass(frozen=True)
class Demo:
    """What ``demo`` made. ``report`` is the page to look at."""

    out: Path
    comparison: Comparison
    drawing: Drawing
    speeds: tuple[Speed, ...]

    @property
    def report(self) -> Path:
        return self.out / REPORT

    @property
    def results(self) -> Path:
        return self.out / RESULTS

    def to_dict(self) -> dict[str, Any]:
        return {
            "command": self.comparison.command,
            "machine": self.comparison.machine,
            "drawing": self.drawing.to_dict(),
            "generation": [asdict(s) for s in self.speeds],
            "comparison": self.comparison.to_dict(),
        }


def _ignore(line: dict[str, Any], spent: float) -> None:
    """Nobody watches."""


def demo(out: str | Path, *, settings: Settings | None = None, watch: Watch = _ignore) -> Demo:
    """Train, compare, draw and measure on the built-in digits; leave one page in ``out``.

    What an earlier, broken-off demo finished there is used again.

    Raises:
        UsageError: ``out/runs`` holds runs with other settings.
        Interrupted: a signal came; the same call continues.
    """
    out, settings = Path(out), settings or Settings()
    run = train(
        pixel_config(settings), out / "runs" / "pixels", resume=True, watch=_span(watch, 0, 0.4)
    )
    drawing = draw(run, settings)
    comparison = study(
        compare_config(settings),
        MIXERS,
        settings.seeds,
        out,
        lengths=settings.lengths,
        command=f"subquad demo --out {out}",
        watch=_span(watch, 0.4, 0.5),
    )
    speeds: list[Speed] = []
    for i, (length, batch, rounds) in enumerate(settings.speeds):
        watch({"kind": "speed", "length": length}, 0.9 + 0.1 * i / len(settings.speeds))
        speeds += generation_speed(
            run.config.model, levels=digits.LEVELS, length=length, batch=batch, rounds=rounds
        )
    made = Demo(out, comparison, drawing, tuple(speeds))
    write(made)
    watch({"kind": "done"}, 1.0)
    return made


def write(made: Demo) -> None:
    """The page and its numbers."""
    from subquad.lab.compare.report import render
    from subquad.lab.demo.page import context

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
    task, *rows = type(run.task).fit(run.config, run.path / STORE)
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


def _span(watch: Watch, begin: float, part: float) -> Watch:
    def note(line: dict[str, Any], spent: float) -> None:
        watch({"run": "pixels"} | line, begin + part * min(spent, 1.0))

    return note
