"""``subquad compare``."""

from pathlib import Path
from typing import Any

import click

from subquad.cli.console import json_flag, result, say
from subquad.cli.flags import TaskCommand, configure
from subquad.cli.following import following
from subquad.lab.compare import TEACHING


class _Compare(TaskCommand):
    """Without ``--mixer``: ``--mixers`` names those to compare."""

    without = ("mixers",)


@click.command(cls=_Compare)
@click.argument("data")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="Folder for the report."
)
@click.option(
    "--mixers",
    "contestants",
    help="Mixers to compare, separated by commas.  [default: all that the task can use]",
)
@click.option(
    "--seeds",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Training runs per mixer, each with its own seed.",
)
@click.option(
    "--teach",
    type=click.FloatRange(0),
    default=TEACHING,
    show_default=True,
    help="With --from: minutes for teaching each mixer from the start's own, on the texts of DATA, "
    "before training; 0 for none. A budget in --minutes pays for both.",
)
@click.option("--test", help="Evaluate on this file instead of the held-out set.")
@json_flag
def command(
    data: str,
    out: Path,
    contestants: str | None,
    seeds: int,
    teach: float,
    test: str | None,
    as_json: bool,
    task: str,
    **values: Any,
) -> None:
    """Train several mixers on DATA with the same budget, and write OUT/report.html and
    OUT/results.json.

    The report also has simple baselines, such as the majority class and, for texts, a bag of words,
    and recommends one of them if it does best. If a comparison is interrupted, run the same command
    again to continue it.
    """
    from subquad.lab.compare.experiment import compare
    from subquad.mixers import names
    from subquad.tasks import task_class

    known = names(causal=task_class(task).causal)
    mixers = [n.strip() for n in contestants.split(",")] if contestants else known
    config = configure(task, data, values | {"mixers": ",".join(mixers)})
    with following("comparing") as watch:
        made = compare(config, mixers, seeds, out, test=test, teach=teach, watch=watch)
    for row in table(made):
        say(row)
    say(made.verdict.headline)
    for caution in made.verdict.cautions:
        say(caution)
    result(made.to_dict(), as_json=as_json, text=str(made.report))


def table(made: Any) -> list[str]:
    """Mean ± standard deviation of each candidate, baselines first."""
    rows = made.candidates()
    width = max(len(row.name) for row in rows)
    unit = f"{made.figure.key}, {made.figure.split}"
    lines = [f"{'':<{width}}  {unit}"]
    for row in rows:
        spread = f" ± {row.std:.4f}" if len(row.values) > 1 else ""
        lines.append(f"{row.name:<{width}}  {row.mean:.4f}{spread}")
    return lines
