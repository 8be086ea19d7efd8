"""``subquad predict``."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from subquad.cli.console import counter, json_flag, say
from subquad.cli.flags import reading_flags
from subquad.cli.rows import csv_lines
from subquad.cli.streams import as_json_line
from subquad.errors import UsageError


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("file")
@click.option(
    "--to",
    type=click.Choice(["jsonl", "csv"]),
    help="Output format: one JSON object per row, or CSV with the probability of the predicted "
    "label.  [default: jsonl]",
)
@json_flag
def command(run: Path, file: str, to: str | None, as_json: bool, **reading: Any) -> None:
    """Predict the class (or number) of each row of FILE, which is read as in `train`; - reads one
    text per line from standard input.

    Prints one JSON object per row, in order; --json prints a single document, --to csv a table.
    Rows that cannot be read get an "error" instead of a label. "cut": true marks texts that reach
    the run's --length and were truncated there.
    """
    from subquad.run import load

    if as_json and to is not None:
        raise UsageError("give --json or --to, not both")
    if file == "-":
        reading["format"] = reading["format"] or "lines"
    answers = _answers(load(run).reading(**reading), file)
    if as_json:
        click.echo(as_json_line(list(answers)))
        return
    for line in csv_lines(answers) if to == "csv" else map(as_json_line, answers):
        click.echo(line)


reading_flags(command, without="label")


def _answers(run: Any, file: str) -> Iterator[dict[str, Any]]:
    inputs = run.task.inputs(file)
    say(inputs.detected)
    began, rows, bad, cut = time.perf_counter(), 0, 0, 0
    with counter("predicting", "rows") as advance:
        for answer in run.answers(inputs):
            rows, bad, cut = rows + 1, bad + ("error" in answer), cut + ("cut" in answer)
            advance()
            yield answer
    seconds = time.perf_counter() - began
    skipped = f", {bad} of them could not be read" if bad else ""
    length = run.config.data.length
    skipped += f", {cut} reach the maximum length of {length} tokens and were truncated" * bool(cut)
    say(f"{rows} rows in {seconds:.1f} s ({rows / max(seconds, 1e-9):.0f} rows/s){skipped}")
