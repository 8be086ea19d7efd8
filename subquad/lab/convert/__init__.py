"""Convert a model, measure what it cost and what it gains, and write the report.

::

    OUT/                 the converted run, as ``subquad.conversion`` writes it
      report.html        the report to read
      results.json       every number, the settings and the machine
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from subquad.conversion import Conversion, Plan, Watch
from subquad.conversion import convert as learn
from subquad.lab.convert import page
from subquad.lab.convert.page import Pair
from subquad.lab.convert.quality import quality
from subquad.lab.convert.speed import LENGTHS, measure, pays_from
from subquad.lab.drawing.document import page as document_page
from subquad.lab.instruments import machine
from subquad.lab.instruments.layer import Measured
from subquad.lab.progress import Progress
from subquad.models.precision import resolve
from subquad.run import Run, load
from subquad.storage import write_text

__all__ = ["convert"]

REPORT, RESULTS = "report.html", "results.json"
HOW = (
    "Everything that both models have is copied. Then each new mixer learns the old one's output "
    "on the old one's input (“transfer”), and the layers learn together (“together”); the texts' "
    "labels are not used.",
    "Errors and cosines are measured on texts that were held out from learning.",
    "What is learned from short texts does not carry to long ones: the texts should be as long as "
    "those of use.",
)


def convert(
    teacher: Run,
    plan: Plan,
    out: str | Path,
    *,
    test: str | None = None,
    lengths: Sequence[int] | None = None,
    watch: Watch,
) -> dict[str, Any]:
    """Convert ``teacher`` as ``plan`` says, and write the report into ``out``.

    Args:
        teacher: the model to convert.
        plan: the settings.
        out: the new run directory.
        test: a labelled file to compare the quality before and after on.
        lengths: tokens at which speed and memory are measured (``LENGTHS``); ``()`` skips this.
        watch: called with notes, with each measurement during learning, and with the fraction of
            the budget spent.

    Returns:
        What ``results.json`` holds.

    Raises:
        UsageError, SubquadError, Interrupted: as for ``subquad.conversion.convert``, and as for
            ``quality`` for the file ``test``.
    """
    before = None if test is None else quality(teacher, test)
    made = learn(teacher, plan, out, watch)
    after = None if test is None else quality(load(made.out), test)
    found = None if before is None or after is None else (before, after)

    def note(progress: Progress) -> None:
        watch({"kind": "progress", "text": progress.stage}, 1.0)

    lengths = LENGTHS if lengths is None else lengths
    measured = measure(made, lengths, note) if lengths else None
    document = _document(made, measured, found, test)
    write_text(made.out / RESULTS, json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    html = document_page(
        document,
        page.tables(made, measured, found),
        page.pictures(made, measured),
        [*HOW, _texts(made)],
        kicker=f"subquad convert · {plan.source}",
    )
    write_text(made.out / REPORT, html)
    return document


def _texts(made: Conversion) -> str:
    shortest, middle, long, longest = made.lengths
    return (
        f"The texts of {made.plan.texts} have {shortest:,} to {longest:,} tokens, half of them at "
        f"most {middle:,}, nine in ten at most {long:,}."
    )


def _document(
    made: Conversion, measured: Measured | None, found: Pair | None, test: str | None
) -> dict[str, Any]:
    return {
        "headline": page.headline(made, measured),
        "conclusions": page.conclusions(made, measured, found),
        "out": str(made.out),
        "stages": made.stages,
        "layers": [i + 1 for i in made.student.changed],
        "kept": [i + 1 for i in made.kept],
        "lengths": made.lengths,
        "quality": found and [asdict(one) for one in found],
        "cost": None if measured is None else measured.to_dict(),
        "pays_from": None if measured is None else pays_from(measured),
        "settings": asdict(made.plan),
        "command": command(made.plan, made.out, test),
        "machine": machine.facts(resolve("auto", made.teacher.device)),
    }


def command(plan: Plan, out: Path, test: str | None) -> str:
    """The command line of a conversion."""
    from shlex import quote

    parts = ["subquad", "convert", quote(plan.source), "--mixer", plan.mixer]
    for name, value in plan.options.items():
        parts += ["--mixer-option", quote(f"{name}={value}")]
    parts += ["--texts", quote(plan.texts), "--minutes", f"{plan.minutes:g}"]
    if plan.keep:
        parts += ["--keep-softmax", ",".join(str(i + 1) for i in plan.keep)]
    elif plan.keep_worst:
        parts += ["--keep-softmax", f"auto:{plan.keep_worst}"]
    if plan.layers is not None:
        parts += ["--layers", str(plan.layers)]
    if plan.length is not None:
        parts += ["--length", str(plan.length)]
    if test is not None:
        parts += ["--test", quote(test)]
    return " ".join([*parts, "--seed", str(plan.seed), "--out", quote(str(out))])
