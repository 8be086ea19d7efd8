"""``subquad inspect``."""

from pathlib import Path

import click

from subquad.cli.console import bar, json_flag, result, say


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("texts", nargs=-1)
@click.option("--file", help="Data set over which heads are judged, read as training's was.")
@click.option(
    "--rows", type=click.IntRange(1), default=1000, show_default=True, help="Rows of it to read."
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder.  [default: RUN/inspect]")
@json_flag
def command(
    run: Path, texts: tuple[str, ...], file: str | None, rows: int, out: Path | None, as_json: bool
) -> None:
    """See which words each head of RUN weighs, what it likes, and whether context matters.

    One page: heat maps over TEXTS (or the first texts of --file), the tokens that each head likes
    most over the file, and how far its liking depends on context; states, spectra and attention
    maps for the mixers that have them.
    """
    from subquad.errors import UsageError
    from subquad.lab.inspect import inspect
    from subquad.lab.inspect.page import document
    from subquad.run import load

    if not all(text.strip() for text in texts):
        raise UsageError("a text to be inspected is empty")
    loaded = load(run)
    with bar("looking") as update:
        found = inspect(
            loaded,
            texts,
            file=file,
            rows=rows,
            out=out or run / "inspect",
            watch=lambda line, spent: update(spent, line.get("text")),
        )
    if found.judgement is not None:
        say(found.judgement.sentence)
    result(document(found), as_json=as_json, text=str(found.page))
