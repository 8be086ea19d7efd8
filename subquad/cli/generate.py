"""``subquad generate``."""

import time
from pathlib import Path

import click

from subquad.cli.console import bar, json_flag, result, say


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--samples", type=click.IntRange(1), default=64, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--temperature", type=click.FloatRange(0), default=1.0, show_default=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Where the picture goes.  [default: RUN/samples.png]",
)
@json_flag
def command(
    run: Path, samples: int, seed: int, temperature: float, out: Path | None, as_json: bool
) -> None:
    """Draw images with RUN, a causal run of the task `pixels`, onto one contact sheet."""
    from subquad.generation import Sampling, images
    from subquad.run import load
    from subquad.tasks.pictures import contact_sheet

    loaded = load(run)
    out = out or run / "samples.png"
    sampling = Sampling(temperature=temperature, seed=seed)
    began = time.perf_counter()
    with bar("drawing") as update:
        drawn = images(loaded, samples, sampling, watch=lambda done, of: update(done / of))
    seconds = time.perf_counter() - began
    contact_sheet(drawn.pixels, drawn.levels).save(out)
    say(f"{samples} images in {seconds:.2f} s ({samples / seconds:.1f} images/s)")
    document = {
        "out": str(out),
        "samples": samples,
        "seconds": seconds,
        "images_per_second": samples / seconds,
        "state_bytes_per_image": drawn.state_bytes // samples,
    }
    result(document, as_json=as_json, text=str(out))
