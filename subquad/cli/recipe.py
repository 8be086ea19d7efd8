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
@click.option("--out", type=click.Path(path_type=Path), help="Folder.  [default: runs/NAME]")
@click.option("--full", is_flag=True, help="The paper's own settings; expect days on a CPU.")
@click.option("--seeds", type=click.IntRange(1), help="Runs of each variant.")
@json_flag
def command(
    name: str, data: tuple[str, ...], out: Path | None, full: bool, seeds: int | None, as_json: bool
) -> None:
    """Repeat a paper's experiment: OUT/report.html and OUT/results.json, its figure beside ours.

    Settings are sized for an ordinary computer unless --full. A recipe that was broken off
    continues when the same command is given again.
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
