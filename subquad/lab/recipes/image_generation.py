"""Recipes ``mnist-generation`` and ``cifar10-generation``: images generated pixel by pixel.

Katharopoulos et al. 2020, sections 4.2.1 and 4.2.2, tables 1 and 2, and the stateful softmax of
table 4: bits per dimension on the test set, and images per second compared with softmax with
recomputation and with a cache.
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

#: Number of sample images in the report.
SHOWN = 64


@dataclass(frozen=True)
class Preset:
    """The smaller model that is trained instead of the paper's, for ordinary computers."""

    near: dict[str, int]
    """Options of the masked convolution: the neighbouring pixels that it sees."""
    minutes: float
    """Training time, chosen so that the whole recipe takes half an hour on two cores."""


PRESETS = {
    MNIST.name: Preset({"above": 4, "side": 3, "width": 4}, 25.0),
    CIFAR10.name: Preset({"above": 3, "side": 6, "width": 9}, 10.0),
}


def mnist(job: Job) -> Outcome:
    """Run ``mnist-generation``; DATA is the training and test images."""
    return _draw(job, MNIST)


def cifar10(job: Job) -> Outcome:
    """Run ``cifar10-generation``; DATA is the training and test images."""
    return _draw(job, CIFAR10)


def preset(paper: ImageModel, path: str, full: bool) -> Config:
    """The paper's settings (``full``), or a model for half an hour on two cores. The latter has
    three masked convolutions below one layer of linear attention, and predicts one of 256 levels,
    whose embeddings share a basis of cosines."""
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
            "this recipe takes two files or folders, the images to train on and those to test on; "
            f"{len(job.data)} given"
        )
    if job.seeds not in (None, 1):
        raise UsageError(f"--seeds is {job.seeds}, but this recipe trains one model: omit --seeds")
    config = preset(paper, job.data[0], job.full)
    watch = of_training(part(job.watch, 0.0, 0.8), f"training on {paper.name}")
    run = train(config, job.out / "run", resume=True, watch=watch)
    tested = run.evaluate(job.data[1])
    text = f"test: {tested['bits_per_dim']:.3f} bits per dimension"
    job.watch(Progress(0.85, "generating images and measuring speed", text))
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
    """The speed of each method of generation, for the paper's model and length."""
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
        ["model", "bits per dim", "training"],
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
        f"Images per second for the paper's model ({paper.layers} layers of width 256), "
        f"{paper.length:,} values per image",
        ["method", "here, CPU", "speed-up of recurrent", "paper, GPU", "speed-up in the paper"],
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
        note=f"Batch size {speeds[0].batch}. The fair baseline is the cached softmax, whose cache "
        "grows in place. The copied cache is the paper's stateful softmax. Recomputation is timed "
        "at eight evenly spaced prefix lengths.",
    )
    size = speeds[0].state_bytes
    return Outcome(
        headline=f"{paper.name}: {bits:.3f} bits per dimension, "
        f"{ratios[CACHED]:.1f}× the speed of cached softmax",
        lead=[
            f"The paper's linear model reaches {paper.linear[0]} after {paper.budget}.",
            "For a model of the paper's shape, recurrent generation is "
            f"{ratios[RECOMPUTED]:,.0f}× as fast as softmax without a cache, "
            f"{ratios[COPIED]:,.1f}× as fast as with a copied cache, and {ratios[CACHED]:,.1f}× as "
            f"fast as with a cache that grows in place. Its state takes {size / 1e6:.2f} MB per "
            "image, whatever the length.",
        ],
        tables=[quality, pace_table],
        pictures=[Picture(f"{SHOWN} samples from the trained model.", png=sheet, alt="Samples")],
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
        return [
            "The paper's settings. Position encoding, normalisation and warm-up are not stated "
            "there, so ours are used."
        ]
    m, t = config.model, config.training
    return [
        f"The paper's model has {paper.layers} layers of width 256, 8 heads and feed-forward width "
        f"1,024; this one has {m.layers} layers of width {m.d}, {m.heads} heads and feed-forward "
        f"width {m.ff}.",
        "The paper's layers are all linear attention; here, from the bottom: "
        f"{', '.join(m.layer_mixers())}. A masked convolution mixes a pixel with its neighbours in "
        "the image.",
        "The paper models a pixel as a mixture of 10 logistics; here it is one of 256 levels, "
        f"whose embeddings share {config.options.level_cosines} cosines.",
        f"The paper trains for {paper.budget} using RAdam with a learning rate of 1e-4; this run "
        f"trains for {_budget(t)} using AdamW with {t.lr:g}, batch size {t.batch}, pre-norm.",
        "Speeds are for the paper's model in fp32 with untrained weights, from one round; `subquad "
        "bench --images` measures larger batches.",
    ]
