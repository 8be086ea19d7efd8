"""``subquad demo``."""

from pathlib import Path

import click

from subquad.cli.compare import table
from subquad.cli.console import json_flag, result, say
from subquad.cli.following import following


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("runs/demo"),
    show_default=True,
    help="Where the report goes.",
)
@json_flag
def command(out: Path, as_json: bool) -> None:
    """Compare five mixers on digits, draw new digits, measure generation: one report."""
    from subquad.lab.demo.stages import demo
    from subquad.locking import alone_in

    say("a few minutes on two cores; Ctrl-C stops it, and the same command continues it")
    with alone_in(out), following("demo") as watch:
        made = demo(out, watch=watch)
    for row in table(made.comparison):
        say(row)
    say(made.comparison.verdict.headline)
    say(
        "\nnext, on a file of yours with a text and a label in each row:\n"
        "  subquad train FILE.csv --task classify --mixer fastformer --out runs/mine\n"
        "  subquad compare FILE.csv --task classify --out runs/report\n"
    )
    say("the report to look at:")
    result(made.to_dict(), as_json=as_json, text=str(made.report))
