"""``subquad convert``."""

from pathlib import Path
from typing import Any

import click

from subquad.cli.console import bar, json_flag, result, say


@click.command()
@click.argument("source", type=click.Path(path_type=Path), metavar="FOLDER|RUN")
@click.option("--mixer", required=True, help="Mixer that replaces attention, such as linear.")
@click.option(
    "--mixer-option",
    "mixer_options",
    multiple=True,
    metavar="KEY=VALUE",
    help="Option of the mixer, such as feature_map=hedgehog or window=64.",
)
@click.option(
    "--texts",
    required=True,
    help="File of texts to learn from; labels are not used. Texts should be as long as those that "
    "the model will read.",
)
@click.option("--minutes", type=float, default=5.0, show_default=True, help="Budget for learning.")
@click.option(
    "--keep-softmax",
    "keep",
    help="Layers that keep their mixer: numbers from 1, such as 2,3, or auto:N for the N layers "
    "whose mixer is learned worst.",
)
@click.option("--layers", type=click.IntRange(1), help="Keep only this many layers, evenly spaced.")
@click.option(
    "--length",
    type=click.IntRange(1),
    help="Maximum length in tokens, if another than the model's; learned positions beyond its own "
    "are copies of the first ones.",
)
@click.option("--test", help="Labelled file to compare the quality before and after on.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Random seed.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Run directory.")
@json_flag
def command(
    source: Path,
    mixer: str,
    mixer_options: tuple[str, ...],
    texts: str,
    minutes: float,
    keep: str | None,
    layers: int | None,
    length: int | None,
    test: str | None,
    seed: int,
    out: Path,
    as_json: bool,
) -> None:
    """Convert a softmax model into one of linear cost: replace attention in FOLDER (of
    transformers) or RUN by another mixer, and teach it from the old one on unlabelled texts.

    The result is a run: tune it with `subquad train --from OUT`, or use its vectors with `subquad
    embed`. OUT/report.html says what was lost, layer by layer, and from which length on the result
    is faster. If a conversion is interrupted, run the same command again to continue it.
    """
    from subquad.configuring import options_of
    from subquad.conversion import Plan
    from subquad.lab.convert import convert
    from subquad.models.foreign.hub import folder_of
    from subquad.run import load

    teacher = load(folder_of(str(source)))
    kept, worst = _kept(keep)
    plan = Plan(
        source=str(source),
        texts=texts,
        mixer=mixer,
        options=options_of(mixer, mixer_options, causal=teacher.task.causal),
        minutes=minutes,
        keep=kept,
        keep_worst=worst,
        layers=layers,
        length=length,
        seed=seed,
    )
    with bar(f"converting to {mixer}") as update:

        def watch(line: dict[str, Any], spent: float) -> None:
            update(spent)
            say(line["text"] if "text" in line else _line(line))

        made = convert(teacher, plan, out, test=test, watch=watch)
    say(made["headline"])
    result(made, as_json=as_json, text=str(out / "report.html"))


def _kept(given: str | None) -> tuple[tuple[int, ...], int]:
    """Layers from 0, and how many are chosen automatically."""
    if given is None:
        return (), 0
    way, _, number = given.partition(":")
    if way == "auto" and number.isdecimal() and int(number) > 0:
        return (), int(number)
    parts = [part.strip() for part in given.split(",")]
    if all(part.isdecimal() and int(part) > 0 for part in parts):
        return tuple(sorted({int(part) - 1 for part in parts})), 0
    raise click.UsageError(
        f"--keep-softmax {given!r} is neither auto:N nor a list of layers such as 2,3"
    )


def _line(line: dict[str, Any]) -> str:
    errors = " ".join(f"{error:.3f}" for error in line["errors"])
    return (
        f"{line['seconds']:7.1f} s  {line['kind']}: relative error per layer {errors}; cosine of "
        f"row vectors {line['cosine']:.3f}"
    )
