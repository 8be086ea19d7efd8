"""``subquad compare``."""

from pathlib import Path
from typing import Any

import click

from subquad.cli.console import json_flag, result, say
from subquad.cli.flags import TaskCommand, configure
from subquad.cli.following import following


class _Compare(TaskCommand):
    """The mixers are those that are compared."""

    without = ("mixers",)


@click.command(cls=_Compare)
@click.argument("data")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The report's folder.")
@click.option(
    "--mixers",
    "contestants",
    help="Which, separated by commas.  [default: all that the task can use]",
)
@click.option(
    "--seeds", type=click.IntRange(1), default=3, show_default=True, help="Runs of each mixer."
)
@click.option("--test", help="A file to take the figures on, instead of the held-out rows.")
@json_flag
def command(
    data: str,
    out: Path,
    contestants: str | None,
    seeds: int,
    test: str | None,
    as_json: bool,
    task: str,
    **values: Any,
) -> None:
    """Train several mixers on DATA at equal budget and write OUT/report.html and OUT/results.json.

    The majority class and, for texts, a bag of words stand beside them; the recommendation may be
    one of those. A comparison that was broken off continues when the same command is given again.
    """
    from subquad.lab.compare.experiment import compare
    from subquad.mixers import names
    from subquad.tasks import task_class

    known = names(causal=task_class(task).causal)
    mixers = [n.strip() for n in contestants.split(",")] if contestants else known
    config = configure(task, data, values | {"mixers": ",".join(mixers)})
    with following("comparing") as watch:
        made = compare(config, mixers, seeds, out, test=test, watch=watch)
    for row in table(made):
        say(row)
    say(made.verdict.headline)
    for caution in made.verdict.cautions:
        say(caution)
    result(made.to_dict(), as_json=as_json, text=str(made.report))


def table(made: Any) -> list[str]:
    """Mean ± std of each candidate, floors first."""
    rows = made.candidates()
    width = max(len(row.name) for row in rows)
    unit = f"{made.figure.key}, {made.figure.split}"
    lines = [f"{'':<{width}}  {unit}"]
    for row in rows:
        spread = f" ± {row.std:.4f}" if len(row.values) > 1 else ""
        lines.append(f"{row.name:<{width}}  {row.mean:.4f}{spread}")
    return lines
