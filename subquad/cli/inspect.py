"""``subquad inspect``."""

from pathlib import Path
from typing import Any

import click

from subquad.cli.console import bar, json_flag, result, say
from subquad.cli.flags import reading_flags


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("texts", nargs=-1)
@click.option("--file", help="Data for statistics over many texts.")
@click.option(
    "--rows", type=click.IntRange(1), help="Number of rows of --file to read.  [default: 1000]"
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder for the page.  [default: RUN/inspect]"
)
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
    """Show which words each head of RUN attends to, and whether context matters.

    Writes one HTML page with heat maps over TEXTS (or the first texts of --file), the tokens to
    which each head gives the highest weights over the whole file, and how much these weights depend
    on context; also states, spectra and attention maps, depending on the mixer.
    """
    from subquad.errors import UsageError
    from subquad.lab.inspect import ROWS, inspect
    from subquad.lab.inspect.page import document
    from subquad.run import load

    if not all(text.strip() for text in texts):
        raise UsageError("one of the TEXTS to inspect is empty")
    for name, value in {"rows": rows, **reading}.items():
        if value is not None and file is None:
            flag = ("no-" if value is False else "") + name.replace("_", "-")
            raise UsageError(f"--{flag} applies to --file only, which was not given")
    loaded = load(run).reading(**reading)
    with bar("inspecting") as update:
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
