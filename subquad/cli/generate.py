"""``subquad generate``."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import click

from subquad.cli.console import bar, json_flag, result, say
from subquad.cli.streams import as_json_line
from subquad.errors import SubquadError, UsageError

_TEXTS = ("prompt", "prompts", "length", "stop", "beams", "state", "save_state")
_IMAGES = ("prompt_image", "keep")


def _sampling(command: Any) -> Any:
    """The fields of ``Sampling`` as options."""
    for option in reversed(
        (
            click.option(
                "--seed",
                type=int,
                default=0,
                show_default=True,
                help="Random seed. A prompt gives the same text for the same seed, whatever other "
                "prompts are in the batch.",
            ),
            click.option(
                "--temperature",
                type=click.FloatRange(0),
                default=1.0,
                show_default=True,
                help="Sampling temperature; 0 for greedy decoding.",
            ),
            click.option(
                "--top-k",
                type=click.IntRange(0),
                default=0,
                help="Sample from the K most likely tokens only.  [default: all]",
            ),
            click.option(
                "--top-p",
                type=float,
                default=1.0,
                help="Nucleus sampling: the most likely tokens with this total probability.  "
                "[default: all]",
            ),
            click.option(
                "--min-p",
                type=float,
                default=0.0,
                help="Only tokens with at least this fraction of the highest probability.  "
                "[default: all]",
            ),
            click.option(
                "--repetition-penalty",
                type=float,
                default=1.0,
                help="Penalise tokens that are already in the text; above 1 for less repetition.  "
                "[default: 1, off]",
            ),
        )
    ):
        command = option(command)
    return command


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--prompt", help="Text to continue.  [default: none]")
@click.option("--prompts", help="File with one prompt per line, or - for standard input.")
@click.option(
    "--length",
    type=click.IntRange(1),
    help="Maximum number of new tokens per text.  [default: 200, or as many as the model allows]",
)
@click.option(
    "--samples",
    type=click.IntRange(1),
    help="Number of samples (per prompt).  [default: 64 images without a prompt, otherwise 1]",
)
@_sampling
@click.option(
    "--stop", multiple=True, help="Stop sequence: a text ends before it; may be repeated."
)
@click.option("--beams", type=click.IntRange(2), help="Beam search with this many beams.")
@click.option(
    "--weights",
    type=click.Choice(["fp32", "bf16", "int8"]),
    default="fp32",
    show_default=True,
    help="Precision of the step engine's weights: lower is faster, but slightly less exact.",
)
@click.option(
    "--state", type=click.Path(path_type=Path), help="Continue from this saved decoder state."
)
@click.option(
    "--save-state", type=click.Path(path_type=Path), help="Save the final decoder state here."
)
@click.option("--prompt-image", help="Images to complete: an image file, .npy, IDX file or folder.")
@click.option(
    "--keep",
    type=float,
    help="Fraction of a prompt image's rows that is kept, from the top.  [default: 0.5]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Output file: .png for images; for texts .jsonl (one object per line, with its prompt) or "
    "plain text.  [default: RUN/samples.png; texts: standard output]",
)
@json_flag
def command(run: Path, as_json: bool, **values: Any) -> None:
    """Generate images with a `pixels` run, or continue texts with a `language` run.

    Models with linear attention run in the C++ step engine, with a state of fixed size and constant
    time per token. Other causal models run in torch.
    """
    from subquad.models.foreign.hub import folder_of
    from subquad.run import load
    from subquad.tasks.outputs import TextOutput

    loaded = load(folder_of(str(run)))
    if isinstance(loaded.task.generates(), TextOutput):
        _refuse(values, _IMAGES, f"is for images, but {run} generates texts")
        document, text = _texts(loaded, as_json, **values)
    else:
        _refuse(values, _TEXTS, f"is for texts, but {run} generates images")
        document, text = _images(loaded, **values)
    if as_json or text is not None:
        result(document, as_json=as_json, text=text or "")


def _refuse(values: dict[str, Any], names: tuple[str, ...], why: str) -> None:
    for name in names:
        if values[name] not in (None, ()):
            raise UsageError(f"--{name.replace('_', '-')} {why}")


def _how(values: dict[str, Any]) -> Any:
    from subquad.generation import Sampling

    names = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")
    return Sampling(**{name: values[name] for name in names})


def _images(run: Any, **values: Any) -> tuple[dict[str, Any], str]:
    from subquad.data.images import open_images
    from subquad.generation import images
    from subquad.storage import write_atomically
    from subquad.tasks.pictures import contact_sheet

    out = values["out"] or run.path / "samples.png"
    if out.suffix.lower() != ".png":
        raise UsageError(f"--out {out}: images are written as PNG; use {out.stem}.png")
    given = None
    if values["prompt_image"] is not None:
        given = open_images(values["prompt_image"]).pixels
    elif values["keep"] is not None:
        raise UsageError("--keep needs a --prompt-image")
    samples = values["samples"] or (64 if given is None else 1)
    began = time.perf_counter()
    with bar("drawing") as update:
        drawn = images(
            run,
            samples,
            _how(values),
            given=given,
            keep=0.5 if values["keep"] is None else values["keep"],
            weights=values["weights"],
            watch=lambda done, of: update(done / of),
        )
    seconds, count = time.perf_counter() - began, len(drawn.pixels)
    sheet = contact_sheet(drawn.pixels, drawn.levels)
    write_atomically(out, lambda path: sheet.save(path, format="PNG"))
    say(
        f"{count} images in {seconds:.2f} s ({count / seconds:.1f} images/s) by "
        f"{drawn.served_by}, state {drawn.state_bytes // count:,} bytes each"
    )
    document = {
        "out": str(out),
        "samples": count,
        "seconds": seconds,
        "images_per_second": count / seconds,
        "state_bytes_per_image": drawn.state_bytes // count,
        "served_by": drawn.served_by,
    }
    return document, str(out)


def _texts(run: Any, as_json: bool, **values: Any) -> tuple[dict[str, Any], str | None]:
    from subquad.generation import write

    request = _request(values)
    alone = len(request.prompts) * request.samples == 1 and values["prompts"] is None
    live = alone and not as_json and values["out"] is None and request.beams == 1
    listen = None
    if live:
        click.echo(request.prompts[0], nl=False)
        listen = _echo
    began = time.perf_counter()
    with bar("" if live else "writing") as update:
        made = write(
            run,
            request,
            _how(values),
            watch=lambda done, of: None if live else update(done / of),
            listen=listen,
        )
    seconds = time.perf_counter() - began
    if live:
        click.echo()
    if values["save_state"] is not None and made.saved is not None:
        made.saved.save(values["save_state"])
    say(
        f"{made.tokens} tokens in {seconds:.2f} s ({made.tokens / seconds:.0f} tokens/s) by "
        f"{made.served_by}, state {made.state_bytes:,} bytes"
    )
    document = {
        "texts": [text.text for text in made.texts],
        "details": [_line(text) for text in made.texts],
        "tokens": made.tokens,
        "seconds": seconds,
        "tokens_per_second": made.tokens / seconds,
        "state_bytes_per_text": made.state_bytes,
        "served_by": made.served_by,
    }
    return document, None if live else _written(made, values)


def _written(made: Any, values: dict[str, Any]) -> str:
    """What to print on standard output: the texts, or the file they were written to."""
    from subquad.storage import write_text

    out = values["out"]
    if out is not None:
        lines = "\n".join(json.dumps(_line(text), ensure_ascii=False) for text in made.texts)
        joined = "\n\n".join(text.text for text in made.texts)
        write_text(out, (lines if out.suffix == ".jsonl" else joined) + "\n")
        return str(out)
    if values["prompts"] is not None:
        return "\n".join(as_json_line(_line(text)) for text in made.texts)
    return "\n\n".join(text.text for text in made.texts)


def _line(text: Any) -> dict[str, Any]:
    line = {"prompt": text.prompt, "text": text.text, "tokens": text.tokens, "ended": text.ended}
    return line if text.score is None else line | {"score": text.score}


def _request(values: dict[str, Any]) -> Any:
    from subquad.data.standard_input import CLOSED
    from subquad.generation import Request, Saved, read_prompts

    if values["prompt"] is not None and values["prompts"] is not None:
        raise UsageError("give --prompt or --prompts, not both")
    if values["prompts"] == "-":
        if sys.stdin is None:
            raise SubquadError(CLOSED)
        prompts = sys.stdin.read().splitlines()
        if not prompts:
            raise UsageError("standard input is empty; expected one prompt per line")
    elif values["prompts"] is not None:
        prompts = read_prompts(values["prompts"])
    else:
        prompts = [values["prompt"] or ""]
    return Request(
        prompts=prompts,
        samples=values["samples"] or 1,
        length=values["length"],
        stop=values["stop"],
        beams=values["beams"] or 1,
        weights=values["weights"],
        state=None if values["state"] is None else Saved.load(values["state"]),
        save=values["save_state"] is not None,
    )


def _echo(_: int, piece: str) -> None:
    click.echo(piece, nl=False)
    sys.stdout.flush()
