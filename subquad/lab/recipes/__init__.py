"""Recipes: the papers' experiments, each one function of its own file.

A recipe is a function from a ``Job`` to an ``Outcome``, and an entry here. It has the paper's
settings as its full preset (``--full``) and a preset that an ordinary computer ends; the paper's
figure stands beside the measured one, and the report says how far its preset is from the paper's.

::

    OUT/
      report.html      for people
      results.json     every number, the command and the machine
      …                what the recipe trained; the same command continues it
"""

import importlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from subquad.errors import UsageError
from subquad.lab.instruments import machine
from subquad.lab.recipes.job import Job, Outcome, Picture, Table
from subquad.lab.recipes.page import page
from subquad.locking import alone_in
from subquad.models.precision import device, resolve
from subquad.storage import write_text

__all__ = ["RECIPES", "Entry", "Job", "Made", "Outcome", "Picture", "Table", "run"]


@dataclass(frozen=True)
class Entry:
    """One line of ``subquad recipe --help``."""

    function: str
    """``module:function``."""
    line: str
    source: str
    data: str
    """What DATA must be: "nothing", or words for a person."""


_KATHAROPOULOS = "Katharopoulos et al. 2020"
RECIPES: dict[str, Entry] = {
    "mnist-generation": Entry(
        "subquad.lab.recipes.image_generation:mnist",
        "Digits drawn pixel by pixel: bits per dimension, and speed against softmax.",
        f"{_KATHAROPOULOS}, section 4.2.1",
        "MNIST's training and test images (IDX)",
    ),
    "cifar10-generation": Entry(
        "subquad.lab.recipes.image_generation:cifar10",
        "Coloured images drawn value by value, 3,072 each.",
        f"{_KATHAROPOULOS}, section 4.2.2",
        "two folders or .npy of 32×32 RGB images, to learn from and to test on",
    ),
    "copy-task": Entry(
        "subquad.lab.recipes.copying:recipe",
        "Sequences to be repeated: does linear attention learn it as softmax does?",
        f"{_KATHAROPOULOS}, section 4.1",
        "nothing",
    ),
    "fastformer-topic": Entry(
        "subquad.lab.recipes.fastformer_topic:recipe",
        "Topics with the settings of Fastformer's released example, and a bag of words.",
        "Wu et al. 2021, released example",
        "a training file with labels, and perhaps a test file",
    ),
    "fastformer-ablation": Entry(
        "subquad.lab.recipes.fastformer_ablation:recipe",
        "Which parts of Fastformer matter: columns, residual, value, interaction, heads.",
        "the questions that Wu et al. 2021 left open",
        "a training file with labels, and perhaps a test file",
    ),
    "fnet-ladder": Entry(
        "subquad.lab.recipes.fnet_ladder:recipe",
        "Pretrain six encoders that differ in their mixing alone.",
        "Lee-Thorp et al. 2021, table 1",
        "nothing (Python's own documentation) or a corpus",
    ),
    "fnet-glue": Entry(
        "subquad.lab.recipes.fnet_glue:recipe",
        "Tune a pretrained FNet to a GLUE task, beside the same from scratch.",
        "Lee-Thorp et al. 2021, table 1",
        "the task's training file and its dev file, named as GLUE names it; then a corpus to "
        "pretrain on, or a pretrained run",
    ),
    "fnet-speed": Entry(
        "subquad.lab.recipes.fnet_speed:recipe",
        "FNet-Base here against transformers' as shipped: training and inference.",
        "Lee-Thorp et al. 2021; transformers",
        "nothing",
    ),
}


@dataclass(frozen=True)
class Made:
    """A finished recipe and where its report is."""

    outcome: Outcome
    report: Path
    document: dict[str, Any]


def run(name: str, job: Job, command: str) -> Made:
    """Follow the recipe ``name``; write OUT/report.html and OUT/results.json.

    Raises:
        UsageError: an unknown recipe, or data that it does not take.
    """
    if name not in RECIPES:
        raise UsageError(f"recipe {name!r} is not one of {', '.join(RECIPES)}")
    entry = RECIPES[name]
    if job.out.exists() and not job.out.is_dir():
        raise UsageError(f"{job.out} is a file; a recipe needs a directory")
    module, function = entry.function.split(":")
    with alone_in(job.out):
        outcome: Outcome = getattr(importlib.import_module(module), function)(job)
        return _written(name, job, command, outcome)


def _written(name: str, job: Job, command: str, outcome: Outcome) -> Made:
    entry = RECIPES[name]
    document = {
        "recipe": name,
        "source": entry.source,
        "command": command,
        "full": job.full,
        "headline": outcome.headline,
        "conclusions": list(outcome.lead),
        "settings": outcome.settings,
        "results": outcome.results,
        "machine": machine.facts(resolve("auto", device())),
    }
    text = json.dumps(document, indent=1, ensure_ascii=False)
    write_text(job.out / "results.json", text + "\n")
    report = job.out / "report.html"
    write_text(report, page(document, outcome.tables, outcome.pictures, outcome.distance))
    return Made(outcome, report, document)
