"""Recipes: the papers' experiments, one function each.

A recipe is a function from a ``Job`` to an ``Outcome``, with an entry in ``RECIPES``. It has two
presets: the paper's settings (``--full``), and settings that an ordinary computer can finish. The
report shows the paper's result next to the measured one and says how the settings differ.

::

    OUT/
      report.html      the report to read
      results.json     every number, the command and the machine
      …                the trained runs; the same command continues an interrupted recipe
"""

import importlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from subquad.errors import UsageError
from subquad.lab.drawing.document import page
from subquad.lab.instruments import machine
from subquad.lab.recipes.job import Job, Outcome, Picture, Table
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
    """What DATA must be, in words; "nothing" if the recipe takes none."""


_KATHAROPOULOS = "Katharopoulos et al. 2020"
RECIPES: dict[str, Entry] = {
    "mnist-generation": Entry(
        "subquad.lab.recipes.image_generation:mnist",
        "Generate digits pixel by pixel: bits per dimension, and speed compared with softmax.",
        f"{_KATHAROPOULOS}, section 4.2.1",
        "MNIST's training and test images (IDX)",
    ),
    "cifar10-generation": Entry(
        "subquad.lab.recipes.image_generation:cifar10",
        "Generate colour images value by value, 3,072 values each.",
        f"{_KATHAROPOULOS}, section 4.2.2",
        "32×32 RGB images for training and for testing, as two folders or .npy files",
    ),
    "copy-task": Entry(
        "subquad.lab.recipes.copying:recipe",
        "Repeat a sequence: does linear attention learn it as well as softmax does?",
        f"{_KATHAROPOULOS}, section 4.1",
        "nothing",
    ),
    "fastformer-topic": Entry(
        "subquad.lab.recipes.fastformer_topic:recipe",
        "Topic classification with the settings of Fastformer's released example, and a bag of "
        "words.",
        "Wu et al. 2021, released example",
        "a training file with labels and, optionally, a test file",
    ),
    "fastformer-ablation": Entry(
        "subquad.lab.recipes.fastformer_ablation:recipe",
        "Which parts of Fastformer matter: columns, residual, value, interaction, heads.",
        "questions left open by Wu et al. 2021",
        "a training file with labels and, optionally, a test file",
    ),
    "fnet-ladder": Entry(
        "subquad.lab.recipes.fnet_ladder:recipe",
        "Pretrain six encoders that differ only in their mixing.",
        "Lee-Thorp et al. 2021, table 1",
        "nothing (Python's own documentation is used) or a corpus",
    ),
    "fnet-glue": Entry(
        "subquad.lab.recipes.fnet_glue:recipe",
        "Fine-tune a pretrained FNet on a GLUE task, compared with training from scratch.",
        "Lee-Thorp et al. 2021, table 1",
        "the task's training and dev files, with the names that GLUE gives them and, optionally, a "
        "corpus to pretrain on or a pretrained run",
    ),
    "convert-minilm": Entry(
        "subquad.lab.recipes.converted:minilm",
        "Replace the attention of a pretrained body: with and without teaching, and other maps.",
        "Zhang et al. 2024 (Hedgehog, LoLCATs)",
        "a folder of transformers such as all-MiniLM-L6-v2, a training and a test file with labels",
    ),
    "word-order": Entry(
        "subquad.lab.recipes.converted:word_order",
        "The same where only the order of words tells: were two neighbours exchanged?",
        "Zhang et al. 2024 (Hedgehog, LoLCATs)",
        "a folder of transformers, a training and a test file of texts",
    ),
    "long-documents": Entry(
        "subquad.lab.recipes.converted:long_documents",
        "Read long documents whole, beyond the 512 tokens of a pretrained body.",
        "Beltagy et al. 2020 (Longformer)",
        "a folder of transformers, a training and a test file with labels",
    ),
    "fnet-speed": Entry(
        "subquad.lab.recipes.fnet_speed:recipe",
        "FNet-Base against the implementation in transformers: training and inference speed.",
        "Lee-Thorp et al. 2021; transformers",
        "nothing",
    ),
}


@dataclass(frozen=True)
class Made:
    """A finished recipe, the path of its report, and the contents of ``results.json``."""

    outcome: Outcome
    report: Path
    document: dict[str, Any]


def run(name: str, job: Job, command: str) -> Made:
    """Run the recipe ``name`` and write OUT/report.html and OUT/results.json.

    ``command`` is the command line that the report shows.

    Raises:
        UsageError: an unknown recipe, or data that the recipe does not accept.
    """
    if name not in RECIPES:
        raise UsageError(f"there is no recipe {name!r}; choose one of {', '.join(RECIPES)}")
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
    text = page(
        document,
        outcome.tables,
        outcome.pictures,
        outcome.distance,
        kicker=f"subquad recipe {document['recipe']} · {document['source']}",
        how_title="How this was measured, and how it differs from the paper",
    )
    write_text(report, text)
    return Made(outcome, report, document)
