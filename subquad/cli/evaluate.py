"""``subquad evaluate``."""

from pathlib import Path
from typing import Any

import click

from subquad.cli.console import figures, json_flag, result, say
from subquad.cli.flags import reading_flags
from subquad.cli.rows import check_suffix, write_rows
from subquad.errors import UsageError

#: The largest number of classes in the table.
SHOWN = 50


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("data")
@click.option(
    "--errors",
    type=click.Path(path_type=Path),
    help="Also write the misclassified rows to this file (.csv or .jsonl).",
)
@json_flag
def command(run: Path, data: str, errors: Path | None, as_json: bool, **reading: Any) -> None:
    """Evaluate RUN on DATA with the metrics of its task.

    For classification, a table of all classes is printed on stderr. --json prints all metrics,
    including the confusion matrix or, if there are many classes, the most confused pairs.
    """
    from subquad.run import load

    if errors is not None:
        check_suffix(errors)
        if data == "-":
            raise UsageError(
                "--errors reads DATA twice, which standard input does not allow; give a file"
            )
    opened = load(run).reading(**reading)
    metrics = opened.evaluate(data)
    for note in opened.task.notes:
        say(note)
    if errors is not None:
        wrong = list(opened.mistakes(data))
        write_rows(errors, wrong, ("row", "text", "truth", "guess", "probability"))
        say(f"{len(wrong)} misclassified rows written to {errors}")
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
        lines.append(f"({len(shown)} of {len(classes)} classes, lowest F1 first; --json has all)")
    return "\n".join(lines)
