"""Recipes ``mnist-generation`` and ``cifar10-generation``: images drawn pixel by pixel.

Katharopoulos et al. 2020, sections 4.2.1 and 4.2.2, tables 1 and 2, and the stateful softmax of
table 4: bits per dimension on the test set, and images per second against softmax recomputed and
cached.
"""

import io
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from subquad.errors import UsageError
from subquad.generation import Sampling, images
from subquad.lab.instruments.generation import (
    CACHED,
    COPIED,
    RECOMPUTED,
    RECURRENT,
    Speed,
    generation_speed,
)
from subquad.lab.progress import Progress, of_training, part
from subquad.lab.published import CIFAR10, MNIST, WAYS, ImageModel
from subquad.lab.recipes.job import Job, Outcome, Picture, Table
from subquad.run import Run
from subquad.tasks import Config, TrainConfig, task_class
from subquad.tasks.pictures import contact_sheet
from subquad.training import train

#: Images on the sheet.
SHOWN = 64


@dataclass(frozen=True)
class Preset:
    """What an ordinary computer trains instead of the paper's model."""

    near: dict[str, int]
    """What the preset's masked convolution sees of the rows above and of its own."""
    minutes: float
    """Of training, so that all of it ends within half an hour on two cores."""


PRESETS = {
    MNIST.name: Preset({"above": 4, "side": 3, "width": 4}, 25.0),
    CIFAR10.name: Preset({"above": 3, "side": 6, "width": 9}, 10.0),
}


def mnist(job: Job) -> Outcome:
    """``mnist-generation``."""
    return _draw(job, MNIST)


def cifar10(job: Job) -> Outcome:
    """``cifar10-generation``."""
    return _draw(job, CIFAR10)


def preset(paper: ImageModel, path: str, full: bool) -> Config:
    """The settings: the paper's, or those for half an hour on two cores, where three layers of
    neighbours in the picture stand below the attention and a pixel's value is one of 256 levels,
    whose vectors share cosines."""
    usual = task_class("pixels").defaults()
    config = replace(usual, data=replace(usual.data, path=path, validation=0.01))
    if full:
        return paper.settings(config)
    ours = PRESETS[paper.name]
    return config.having(
        mixers=(*("masked_convolution",) * 3, "linear"),
        mixer_options={"masked_convolution": ours.near},
        level_cosines=32,
        layers=4,
        d=96,
        ff=256,
        dropout=0.0,
        norm="pre",
        epochs=None,
        minutes=ours.minutes,
        batch=2,
        lr=4e-3,
        evaluations=2,
    )


def _draw(job: Job, paper: ImageModel) -> Outcome:
    if len(job.data) != 2:
        raise UsageError(
            f"give the images to learn from and those to test on, as two files or folders; "
            f"{len(job.data)} given"
        )
    if job.seeds not in (None, 1):
        raise UsageError("this recipe trains one model: --seeds 1")
    config = preset(paper, job.data[0], job.full)
    watch = of_training(part(job.watch, 0.0, 0.8), f"training on {paper.name}")
    run = train(config, job.out / "run", resume=True, watch=watch)
    tested = run.evaluate(job.data[1])
    text = f"test: {tested['bits_per_dim']:.3f} bits per dimension"
    job.watch(Progress(0.85, "drawing, and measuring generation", text))
    began = time.perf_counter()
    sheet = _sheet(run)
    seconds = time.perf_counter() - began
    speeds = _speeds(paper, job.full)
    return _outcome(paper, run, tested, speeds, sheet, SHOWN / seconds, job.full)


def _sheet(run: Run) -> bytes:
    drawn = images(run, SHOWN, Sampling(temperature=1.0))
    file = io.BytesIO()
    contact_sheet(drawn.pixels, drawn.levels).save(file, format="PNG")
    return file.getvalue()


def _speeds(paper: ImageModel, full: bool) -> list[Speed]:
    """The ways of generating, at the paper's model and length."""
    usual = task_class("pixels").defaults()
    config = paper.settings(usual)
    batch = 8 if paper.length < 1000 or full else 1
    rounds = 3 if full else 1
    return generation_speed(
        config.model,
        levels=256,
        length=paper.length,
        batch=batch,
        mixture=config.options.mixture,
        rounds=rounds,
        ways=WAYS,
    )


def _outcome(
    paper: ImageModel,
    run: Run,
    tested: dict[str, Any],
    speeds: list[Speed],
    sheet: bytes,
    pace: float,
    full: bool,
) -> Outcome:
    bits = tested["bits_per_dim"]
    by = {s.method: s.median for s in speeds}
    ratios = {name: by[RECURRENT] / by[name] for name in WAYS[1:]}
    parameters = sum(p.numel() for p in run.model.parameters())
    seconds = run.best().get("seconds", 0.0)
    quality = Table(
        f"Bits per dimension on {tested['examples']:,} test images",
        ["model", "bits per dim", "trained for"],
        [
            [
                f"{_kind(run.config)}, here ({parameters:,} parameters)",
                f"{bits:.3f}",
                f"{seconds / 60:.0f} min",
            ],
            ["linear, paper", f"{paper.linear[0]}", paper.budget],
            ["softmax, paper", f"{paper.softmax[0]}", paper.budget],
        ],
    )
    paper_rate = {
        RECURRENT: paper.linear[1],
        COPIED: paper.stateful[1],
        RECOMPUTED: paper.softmax[1],
    }
    pace_table = Table(
        f"Images per second at the paper's model ({paper.layers} layers of width 256), "
        f"{paper.length:,} values an image",
        ["way", "here, CPU", "recurrent is faster by", "paper, GPU", "paper's ratio"],
        [
            [
                s.method,
                f"{s.median:.4g}",
                f"{ratios[s.method]:,.1f}×" if s.method in ratios else "",
                f"{paper_rate[s.method]:g}" if s.method in paper_rate else "–",
                f"{paper.linear[1] / paper_rate[s.method]:,.1f}×"
                if s.method in ratios and s.method in paper_rate
                else "",
            ]
            for s in speeds
        ],
        note=f"{speeds[0].batch} images at a time. The honest rival is the cached softmax: its "
        "cache grows in place. The copied cache is the paper's stateful softmax. Recomputation is "
        "timed at eight prefixes, evenly spread.",
    )
    size = speeds[0].state_bytes
    return Outcome(
        headline=f"{paper.name}: {bits:.3f} bits per dimension, "
        f"{ratios[CACHED]:.1f}× the speed of cached softmax",
        lead=[
            f"The paper's linear model reaches {paper.linear[0]} after {paper.budget}.",
            f"At its shape the recurrent form draws {ratios[RECOMPUTED]:,.0f}× as many images as "
            f"softmax without a cache, {ratios[COPIED]:,.1f}× as many as with a cache that is "
            f"copied, and {ratios[CACHED]:,.1f}× as many as with the best cache, from a state of "
            f"{size / 1e6:.2f} MB an image whatever its length.",
        ],
        tables=[quality, pace_table],
        pictures=[Picture(f"{SHOWN} images from the trained model.", png=sheet, alt="Samples")],
        results={
            "test": tested,
            "parameters": parameters,
            "seconds": seconds,
            "images_per_second_of_the_trained_model": pace,
            "speeds": [asdict(s) for s in speeds],
            "ratios": ratios,
            "paper": asdict(paper),
        },
        distance=_distance(run.config, paper, full),
        settings=asdict(run.config),
    )


def _kind(config: Config) -> str:
    return " over ".join(dict.fromkeys(reversed(config.model.layer_mixers())))


def _budget(training: TrainConfig) -> str:
    given = {"minutes": training.minutes, "epochs": training.epochs, "steps": training.steps}
    return next(f"{value:g} {unit}" for unit, value in given.items() if value is not None)


def _distance(config: Config, paper: ImageModel, full: bool) -> list[str]:
    if full:
        return ["The paper's settings. Positions, norm and warm-up are not stated there: ours."]
    m, t = config.model, config.training
    return [
        f"The paper's model has {paper.layers} layers of width 256, 8 heads, 1,024 inside; this "
        f"one {m.layers} of width {m.d}, {m.heads} heads, {m.ff} inside.",
        f"The paper's layers are all linear attention; here, from the bottom: "
        f"{', '.join(m.layer_mixers())}. Raster mixes a pixel with its neighbours in the picture.",
        "The paper's pixel is a mixture of 10 logistics; here it is one of 256 levels, whose "
        f"vectors share {config.options.level_cosines} cosines.",
        f"The paper trains {paper.budget} with RAdam at 1e-4; this run {_budget(t)} with "
        f"AdamW at {t.lr:g}, batch {t.batch}, pre-norm.",
        "Speeds are at the paper's model in fp32, with fresh weights, from one round; for more "
        "images at once there is `subquad bench --images`.",
    ]
