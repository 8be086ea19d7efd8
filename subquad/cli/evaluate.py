"""``subquad evaluate``."""

from pathlib import Path
from typing import Any

import click

from subquad.cli.console import figures, json_flag, result, say
from subquad.cli.flags import reading_flags
from subquad.cli.rows import check_suffix, write_rows
from subquad.errors import UsageError

#: Classes up to which the table has them all.
SHOWN = 50


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("data")
@click.option(
    "--errors",
    type=click.Path(path_type=Path),
    help="Also write the rows for which another class is predicted: .csv or .jsonl.",
)
@json_flag
def command(run: Path, data: str, errors: Path | None, as_json: bool, **reading: Any) -> None:
    """Score RUN on DATA with its task's metrics.

    A table of the classes goes to stderr; --json gives everything, with the confusion matrix or, of
    many classes, the pairs that are confused most.
    """
    from subquad.run import load

    if errors is not None:
        check_suffix(errors)
        if data == "-":
            raise UsageError("--errors reads DATA a second time, and standard input is read once")
    opened = load(run).reading(**reading)
    metrics = opened.evaluate(data)
    for note in opened.task.notes:
        say(note)
    if errors is not None:
        wrong = list(opened.mistakes(data))
        write_rows(errors, wrong, ("row", "text", "truth", "guess", "probability"))
        say(f"{len(wrong)} wrong rows in {errors}")
    if "classes" in metrics and not as_json:
        say(_table(metrics["classes"]))
    told = {n: v for n, v in metrics.items() if v or n not in opened.task.counts}
    result(metrics, as_json=as_json, text=figures(told))


reading_flags(command)


def _table(classes: dict[str, dict[str, Any]]) -> str:
    shown = classes
    if len(classes) > SHOWN:
        seen = [name for name, c in classes.items() if c["examples"]]
        shown = {n: classes[n] for n in sorted(seen, key=lambda n: classes[n]["f1"])[:SHOWN]}
    width = max(5, *(len(name) for name in shown))
    lines = [f"{'class':<{width}}  examples  precision  recall      f1"]
    lines += [
        f"{name:<{width}}  {c['examples']:8}  {c['precision']:9.4f}  {c['recall']:6.4f}  "
        f"{c['f1']:6.4f}"
        for name, c in shown.items()
    ]
    if len(shown) < len(classes):
        lines.append(f"(the {len(shown)} classes of lowest F1, of {len(classes)}: --json has all)")
    return "\n".join(lines)
