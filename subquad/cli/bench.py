"""``subquad bench``."""

import os
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from subquad.cli.console import json_flag, result, say
from subquad.cli.following import following


@click.command()
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Where results go.")
@click.option("--mixers", help="For the training step.  [default: all, causal linear too]")
@click.option("--lengths", help="Tokens of the attention rows.  [default: 64 to 16384]")
@click.option(
    "--seconds", type=float, default=10.0, show_default=True, help="Spent on each comparison."
)
@click.option("--images", is_flag=True, help="Also images per second at the paper's two shapes.")
@json_flag
def command(
    out: Path,
    mixers: str | None,
    lengths: str | None,
    seconds: float,
    images: bool,
    as_json: bool,
) -> None:
    """Measure every mixer and form against softmax on this machine.

    Candidates take turns in one run, threads pinned to cores; ratios are medians over rounds with
    their quartiles. Leaves OUT/bench.json, OUT/bench.txt and OUT/bench.svg, and says from which
    length on linear attention is ahead.
    """
    # Read when torch starts its threads, so before it is imported.
    os.environ.setdefault("OMP_PROC_BIND", "true")
    os.environ.setdefault("OMP_PLACES", "cores")
    from subquad.errors import UsageError
    from subquad.lab.bench.report import crossover, save, table
    from subquad.lab.bench.suite import BenchConfig, bench
    from subquad.lab.bench.targets import targets

    given: dict[str, Any] = {"seconds": seconds, "images": images}
    words = ["subquad", "bench", "--seconds", f"{seconds:g}", "--out", str(out)]
    if mixers:
        given["mixers"] = tuple(dict.fromkeys(["none", *mixers.split(",")]))
        words += ["--mixers", mixers]
    if lengths:
        try:
            given["lengths"] = tuple(int(n) for n in lengths.split(","))
        except ValueError:
            raise UsageError(f"--lengths {lengths!r}: expected numbers, as 64,1024") from None
        words += ["--lengths", lengths]
    words += ["--images"] if images else []
    with following("measuring") as watch:
        measured = bench(BenchConfig(**given), shlex.join(words), watch=watch)
    save(measured, out)
    say(table(measured))
    document = {
        "out": str(out),
        "crossover": crossover(measured),
        "targets": [asdict(target) for target in targets(measured)],
    }
    result(document, as_json=as_json, text=str(out / "bench.json"))
