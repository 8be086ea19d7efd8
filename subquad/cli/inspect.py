"""``subquad inspect``."""

from pathlib import Path
from typing import Any

import click

from subquad.cli.console import bar, json_flag, result, say
from subquad.cli.flags import reading_flags


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("texts", nargs=-1)
@click.option("--file", help="Data set over which heads are judged.")
@click.option("--rows", type=click.IntRange(1), help="Rows of it to read.  [default: 1000]")
@click.option("--out", type=click.Path(path_type=Path), help="Folder.  [default: RUN/inspect]")
@json_flag
def command(
    run: Path,
    texts: tuple[str, ...],
    file: str | None,
    rows: int | None,
    out: Path | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """See which words each head of RUN weighs, what it likes, and whether context matters.

    One page: heat maps over TEXTS (or the first texts of --file), the tokens that each head likes
    most over the file, and how far its liking depends on context; states, spectra and attention
    maps for the mixers that have them.
    """
    from subquad.errors import UsageError
    from subquad.lab.inspect import ROWS, inspect
    from subquad.lab.inspect.page import document
    from subquad.run import load

    if not all(text.strip() for text in texts):
        raise UsageError("a text to be inspected is empty")
    for name, value in {"rows": rows, **reading}.items():
        if value is not None and file is None:
            flag = ("no-" if value is False else "") + name.replace("_", "-")
            raise UsageError(f"--{flag} says how a file is read, and there is no --file")
    loaded = load(run).reading(**reading)
    with bar("looking") as update:
        found = inspect(
            loaded,
            texts,
            file=file,
            rows=rows or ROWS,
            out=out or run / "inspect",
            watch=lambda progress: update(progress.spent, progress.stage),
        )
    for note in found.notes:
        say(note)
    if found.skipped:
        say(found.skipped)
    if found.judgement is not None:
        say(found.judgement.sentence)
    result(document(found), as_json=as_json, text=str(found.page))


reading_flags(command, without="label")
