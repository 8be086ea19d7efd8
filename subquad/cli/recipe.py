"""``subquad recipe``."""

import shlex
from pathlib import Path

import click

from subquad.cli.console import json_flag, result, say
from subquad.cli.following import following


class _Names(click.Command):
    """Lists the recipes below the options."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        from subquad.lab.recipes import RECIPES

        with formatter.section("Recipes"):
            if not RECIPES:  # a definition list needs a row
                return
            formatter.write_dl([(n, f"{e.line} DATA: {e.data}.") for n, e in RECIPES.items()])


@click.command(cls=_Names)
@click.argument("name")
@click.argument("data", nargs=-1)
@click.option("--out", type=click.Path(path_type=Path), help="Output folder.  [default: runs/NAME]")
@click.option("--full", is_flag=True, help="Use the paper's settings; expect days on a CPU.")
@click.option("--seeds", type=click.IntRange(1), help="Training runs per variant.")
@json_flag
def command(
    name: str, data: tuple[str, ...], out: Path | None, full: bool, seeds: int | None, as_json: bool
) -> None:
    """Reproduce a paper's experiment. Writes OUT/report.html and OUT/results.json, which compare
    the paper's figures with ours.

    Experiments are scaled down to an ordinary computer unless --full is given. If a recipe is
    interrupted, run the same command again to continue it.
    """
    from subquad.lab.recipes import Job, run

    out = out or Path("runs") / name
    words = ["subquad", "recipe", name, *data, "--out", str(out)]
    words += ["--full"] if full else []
    words += ["--seeds", str(seeds)] if seeds is not None else []
    with following(name) as watch:
        made = run(name, Job(out, data, full, seeds, watch), shlex.join(words))
    say(made.outcome.headline)
    result(made.document, as_json=as_json, text=str(made.report))
