"""``subquad predict``."""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from subquad.cli.console import json_flag


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("file")
@json_flag
def command(run: Path, file: str, as_json: bool) -> None:
    """Predict the class of each row of FILE (CSV, TSV, JSONL; or `-`: a text per line of stdin).

    Prints one JSON object per input, in order; --json gathers them into one document.
    """
    from subquad.run import load

    loaded = load(run)
    found = loaded.predict(_texts(file, loaded.config.data.text))
    if as_json:
        click.echo(json.dumps(list(found), ensure_ascii=False))
        return
    for item in found:
        click.echo(json.dumps(item, ensure_ascii=False))


def _texts(file: str, column: str | None) -> Iterator[str]:
    """The texts of a file, or the lines of standard input."""
    if file == "-":
        stream = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8")
        return (line.rstrip("\r\n") for line in stream)
    from subquad.data.source import ReadOptions, open_source

    source = open_source(file, ReadOptions(text=column), labelled=False)
    return (record.text for record in source.records())
