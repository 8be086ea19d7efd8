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
    help="Folder for the report.",
)
@json_flag
def command(out: Path, as_json: bool) -> None:
    """Compare five mixers on handwritten digits, generate new digits and measure the speed of
    generation, all in one report."""
    from subquad.lab.demo.stages import demo
    from subquad.locking import alone_in

    say("this takes a few minutes on two cores; stop with Ctrl-C, run again to continue")
    with alone_in(out), following("demo") as watch:
        made = demo(out, watch=watch)
    for row in table(made.comparison):
        say(row)
    say(made.comparison.verdict.headline)
    say(
        "\nnext, with your own file that has a text and a label in each row:\n"
        "  subquad train FILE.csv --task classify --mixer fastformer --out runs/mine\n"
        "  subquad compare FILE.csv --task classify --out runs/report\n"
    )
    say("open the report in a browser:")
    result(made.to_dict(), as_json=as_json, text=str(made.report))
