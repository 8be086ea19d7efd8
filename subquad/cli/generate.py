"""``subquad generate``."""

import time
from pathlib import Path
from typing import Any

import click

from subquad.cli.console import bar, json_flag, result, say
from subquad.errors import UsageError


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--prompt", help="Text to continue.  [default: none]")
@click.option(
    "--length",
    type=click.IntRange(1),
    help="Most tokens of each text.  [default: 200, or what fits]",
)
@click.option(
    "--samples",
    type=click.IntRange(1),
    help="How many.  [default: 64 images or 1 text]",
)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--temperature", type=click.FloatRange(0), default=1.0, show_default=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Where images go, or texts.  [default: RUN/samples.png; texts: standard output]",
)
@json_flag
def command(run: Path, as_json: bool, **values: Any) -> None:
    """Draw images with a `pixels` run, or continue a text with a `language` run."""
    from subquad.run import load
    from subquad.tasks.language import Language

    loaded = load(run)
    write = _texts if isinstance(loaded.task, Language) else _images
    document, text = write(loaded, **values)
    result(document, as_json=as_json, text=text)


def _images(run: Any, **values: Any) -> tuple[dict[str, Any], str]:
    from subquad.checkpoint import write_atomically
    from subquad.generation import Sampling, images
    from subquad.tasks.pictures import contact_sheet

    for option in ("prompt", "length"):
        if values[option] is not None:
            raise UsageError(f"--{option} is for texts; {run.path} draws images")
    samples, out = values["samples"] or 64, values["out"] or run.path / "samples.png"
    if out.suffix.lower() != ".png":
        raise UsageError(f"--out {out}: images are written as PNG; name it {out.stem}.png")
    sampling = Sampling(temperature=values["temperature"], seed=values["seed"])
    began = time.perf_counter()
    with bar("drawing") as update:
        drawn = images(run, samples, sampling, watch=lambda done, of: update(done / of))
    seconds = time.perf_counter() - began
    sheet = contact_sheet(drawn.pixels, drawn.levels)
    write_atomically(out, lambda path: sheet.save(path, format="PNG"))
    say(f"{samples} images in {seconds:.2f} s ({samples / seconds:.1f} images/s)")
    document = {
        "out": str(out),
        "samples": samples,
        "seconds": seconds,
        "images_per_second": samples / seconds,
        "state_bytes_per_image": drawn.state_bytes // samples,
    }
    return document, str(out)


def _texts(run: Any, **values: Any) -> tuple[dict[str, Any], str]:
    from subquad.checkpoint import write_text
    from subquad.generation import Sampling, texts

    samples = values["samples"] or 1
    sampling = Sampling(temperature=values["temperature"], seed=values["seed"])
    began = time.perf_counter()
    with bar("writing") as update:
        made = texts(
            run,
            values["prompt"] or "",
            samples,
            values["length"],
            sampling,
            watch=lambda done, of: update(done / of),
        )
    seconds = time.perf_counter() - began
    say(f"{made.tokens} tokens in {seconds:.2f} s ({made.tokens / seconds:.0f} tokens/s)")
    joined = "\n\n".join(made.texts)
    if values["out"] is not None:
        write_text(values["out"], joined + "\n")
    document = {
        "texts": made.texts,
        "tokens": made.tokens,
        "seconds": seconds,
        "tokens_per_second": made.tokens / seconds,
        "state_bytes_per_text": made.state_bytes // samples,
    }
    return document, joined if values["out"] is None else str(values["out"])
