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
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Output folder.")
@click.option(
    "--mixers",
    help="Mixers whose training step is timed, separated by commas.  [default: all, including "
    "causal linear]",
)
@click.option(
    "--lengths",
    help="Sequence lengths at which attention is timed, separated by commas.  [default: 64 to "
    "16384]",
)
@click.option(
    "--seconds", type=float, default=10.0, show_default=True, help="Time for each comparison."
)
@click.option(
    "--images",
    is_flag=True,
    help="Also measure images generated per second, at the two sizes of the paper.",
)
@json_flag
def command(
    out: Path,
    mixers: str | None,
    lengths: str | None,
    seconds: float,
    images: bool,
    as_json: bool,
) -> None:
    """Benchmark every mixer, and every implementation of it, against softmax attention.

    Candidates take turns within one run, with threads pinned to cores; speed-ups are medians over
    all rounds, with quartiles. Writes OUT/bench.json, OUT/bench.txt and OUT/bench.svg, and reports
    the length from which linear attention is faster.
    """
    # torch reads these when it starts its threads, so they must be set before it is imported.
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
            raise UsageError(f"--lengths {lengths!r}: expected numbers such as 64,1024") from None
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
