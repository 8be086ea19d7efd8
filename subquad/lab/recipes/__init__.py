"""Recipes: the papers' experiments, each one function of its own file.

A recipe has the paper's settings as its full preset (``--full``) and a preset that an ordinary
computer ends; it prints the paper's figure beside the measured one and says how far its preset is
from the paper's. Adding one is a module with ``recipe(job) -> Outcome`` and an entry here.

::

    OUT/
      report.html      for people
      results.json     every number, the command and the machine
      …                what the recipe trained; the same command continues it
"""

import importlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from subquad.checkpoint import write_text
from subquad.errors import UsageError
from subquad.lab import machine
from subquad.lab.recipes.page import Picture, Table, page
from subquad.models.precision import device, resolve

__all__ = ["RECIPES", "Entry", "Job", "Made", "Outcome", "Picture", "Table", "run"]

#: Called with a line about what is going on and the part of all work done.
Watch = Callable[[dict[str, Any], float], None]


def _ignore(line: dict[str, Any], spent: float) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class Entry:
    """One line of ``subquad recipe --help``."""

    module: str
    line: str
    source: str
    data: str
    """What DATA must be: "nothing", or words for a person."""


RECIPES: dict[str, Entry] = {
    "fnet-ladder": Entry(
        "subquad.lab.recipes.fnet_ladder",
        "Pretrain six encoders that differ in their mixing alone.",
        "Lee-Thorp et al. 2021, table 1",
        "nothing (Python's own documentation) or a corpus",
    ),
    "fnet-glue": Entry(
        "subquad.lab.recipes.fnet_glue",
        "Tune a pretrained FNet to a GLUE task, beside the same from scratch.",
        "Lee-Thorp et al. 2021, table 1",
        "the task's training file and its dev file, named as GLUE names it; then a corpus to "
        "pretrain on, or a pretrained run",
    ),
    "fnet-speed": Entry(
        "subquad.lab.recipes.fnet_speed",
        "FNet-Base here against transformers' as shipped: training and inference.",
        "Lee-Thorp et al. 2021; transformers",
        "nothing",
    ),
}


@dataclass(frozen=True)
class Job:
    """What a person asked for."""

    out: Path
    data: Sequence[str] = ()
    full: bool = False
    """The paper's own settings instead of the CPU-sized preset."""
    seeds: int | None = None
    """Runs of each variant; None = the recipe's own number."""
    watch: Watch = _ignore

    def part(self, done: int, of: int) -> Watch:
        """The watch of one piece of work, of which ``done`` are done and there are ``of``."""
        return lambda line, spent: self.watch(line, (done + spent) / of)


@dataclass(frozen=True)
class Outcome:
    """What a recipe found."""

    headline: str
    """The result, as a sentence."""
    lead: Sequence[str]
    """What follows from the numbers, one paragraph each."""
    tables: Sequence[Table]
    results: dict[str, Any]
    """All numbers, for JSON."""
    pictures: Sequence[Picture] = ()
    distance: Sequence[str] = ()
    """How far the settings are from the paper's, and how it was measured: a line each."""
    settings: dict[str, Any] = field(default_factory=dict)


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
    outcome: Outcome = importlib.import_module(entry.module).recipe(job)
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
    job.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, indent=1, ensure_ascii=False)
    write_text(job.out / "results.json", text + "\n")
    report = job.out / "report.html"
    write_text(report, page(document, outcome.tables, outcome.pictures, outcome.distance))
    return Made(outcome, report, document)
