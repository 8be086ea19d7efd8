"""``subquad train``."""

from pathlib import Path
from typing import Any

import click

from subquad.cli.console import bar, figures, json_flag, result, say
from subquad.cli.flags import TaskCommand, configure


@click.command(cls=TaskCommand)
@click.argument("data")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Run directory.")
@click.option(
    "--resume", is_flag=True, help="Resume from the latest complete checkpoint, if there is one."
)
@json_flag
def command(data: str, out: Path, resume: bool, as_json: bool, task: str, **values: Any) -> None:
    """Train a model on DATA: a CSV, TSV, JSONL or Parquet file (also compressed as .gz or .zst), a
    folder with one subfolder per class, or plain text; for pixels an IDX, .npy or .npz file or a
    folder of images; or the built-in data set `digits`.

    Options that are not given have defaults that depend on the task. All settings are recorded in
    OUT/config.json.
    """
    from subquad.training import train

    config = configure(task, data, values)
    with bar(f"training {','.join(config.model.mixers)}") as update:

        def watch(line: dict[str, Any], spent: float) -> None:
            update(spent)
            if line["kind"] == "note":
                say(line["text"])
            if line["kind"] == "validation":
                shown = {k: v for k, v in line.items() if k not in ("kind", "seconds", "examples")}
                say(f"{line['seconds']:7.1f} s  {figures(shown)}")

        run = train(config, out, resume=resume, watch=watch)
    say(f"the best weights are in {run.path}; next: subquad evaluate {run.path} OTHER_FILE")
    document = {"run": str(run.path), **run.best()}
    result(document, as_json=as_json, text=figures(document))
