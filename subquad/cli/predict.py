"""``subquad predict``."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from subquad.cli.console import json_flag, say


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("file")
@click.option(
    "--format",
    "form",
    help="csv, tsv, jsonl, parquet, text or lines.  [default: by the name; lines from -]",
)
@json_flag
def command(run: Path, file: str, form: str | None, as_json: bool) -> None:
    """Predict the class of each row of FILE (as `train` reads it; `-`: a text per line of stdin).

    Prints one JSON object per row, in order; --json gathers them into one document. A row that
    cannot be read gets an "error" instead of a label, and the rest goes on.
    """
    from subquad.run import load

    answers = _answers(load(run), file, form)
    if as_json:
        click.echo(json.dumps(list(answers), ensure_ascii=False))
        return
    for answer in answers:
        click.echo(json.dumps(answer, ensure_ascii=False))
    sys.stdout.flush()


def _answers(run: Any, file: str, form: str | None) -> Iterator[dict[str, Any]]:
    from dataclasses import replace

    from subquad.data.source import open_source

    options = run.config.data.reading()
    if form or file == "-":
        options = replace(options, format=form or "lines")
    source = open_source(file, options, labelled=False)
    say(source.detected)
    began, rows, bad = time.perf_counter(), 0, 0
    for answer in run.answers(source):
        rows, bad = rows + 1, bad + ("error" in answer)
        yield answer
    seconds = time.perf_counter() - began
    skipped = f", {bad} of them could not be read" if bad else ""
    say(f"{rows} rows in {seconds:.1f} s ({rows / max(seconds, 1e-9):.0f} rows/s){skipped}")
