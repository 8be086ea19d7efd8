"""The report of a conversion."""

from typing import Any

from subquad.conversion import Conversion
from subquad.lab.convert.quality import Quality
from subquad.lab.convert.speed import AFTER, BARE, BEFORE, pays_from, times_as_fast
from subquad.lab.drawing.cost import cost
from subquad.lab.drawing.document import Picture, Table
from subquad.lab.drawing.svg import MUTED, colour, figure, label_axes, to_svg
from subquad.lab.instruments.layer import Measured

#: The quality before and after.
Pair = tuple[Quality, Quality]


def headline(made: Conversion, measured: Measured | None) -> str:
    """What came out, in one sentence."""
    cosine = final(made)["cosine"] if made.stages else None
    kept = "" if cosine is None else f", cosine of row vectors to the original {cosine:.3f}"
    if measured is None:
        return f"Converted to {made.plan.mixer}{kept}"
    pays = pays_from(measured)
    when = "faster at none of the measured lengths"
    if pays is not None:
        when = f"faster from {pays:,} tokens on"
    return f"Converted to {made.plan.mixer}: {when}{kept}"


def final(made: Conversion) -> dict[str, Any]:
    """The errors and the cosine after the last stage."""
    last = list(made.stages.values())[-1]
    found: dict[str, Any] = last["after"]
    return found


def conclusions(made: Conversion, measured: Measured | None, found: Pair | None) -> list[str]:
    """Sentences that help to decide whether the conversion is worth it."""
    told = [] if measured is None else [_advice(made, measured)]
    if found is not None:
        before, after = found
        told.append(
            f"{before.what}: {before.value:.3f} before, {after.value:.3f} after "
            f"({after.rows:,} rows)."
        )
    if made.stages:
        errors = final(made)["errors"]
        worst = max(range(len(errors)), key=lambda i: errors[i])
        layer = made.student.changed[worst] + 1
        told.append(
            f"Layer {layer} was learned worst (relative error {errors[worst]:.2f})"
            + ("; --keep-softmax auto:1 would let it keep its mixer." if not made.kept else ".")
        )
    told.append(made.student.sentence() + ".")
    return [text[0].upper() + text[1:] for text in told]


def _advice(made: Conversion, measured: Measured) -> str:
    """From which length on the swap pays, and what could be gained at most."""
    pays = pays_from(measured)
    length = made.student.task.config.data.length
    bound = times_as_fast(measured, BARE)
    short = min(bound, key=lambda t: abs(t - length))
    most = (
        f"at {short:,} tokens even no mixing at all would be only {bound[short]:.1f} times as fast "
        "as the original, because the other parts of the model take the time"
    )
    if pays is None:
        return f"The swap does not pay at any measured length: {most}. Keep the original."
    if pays > length:
        return (
            f"The swap pays from {pays:,} tokens on, but the model reads {length:,} at most: keep "
            f"the original there, or raise --length; {most}."
        )
    return f"The swap pays for rows of {pays:,} tokens and more; {most}."


def tables(made: Conversion, measured: Measured | None, found: Pair | None) -> list[Table]:
    made_tables = []
    if made.stages:
        made_tables.append(_errors(made))
    if measured is not None:
        made_tables.append(_speed(measured))
    if found is not None:
        before, after = found
        cells = [(before.what, f"{before.value:.4f}", f"{after.value:.4f}", f"{after.rows:,}")]
        heads = ("figure", "before", "after", "rows")
        made_tables.append(Table("Quality on labelled rows", heads, cells))
    return made_tables


def _errors(made: Conversion) -> Table:
    stages = made.stages
    names = list(stages)
    heads = ["", "copied", *(f"after “{name}”" for name in names)]
    first = stages[names[0]]["before"]
    changed = _changed_at_start(made)
    rows = []
    for place, layer in enumerate(changed):
        cells = [_cell(first["errors"], place)]
        for name in names:
            places = changed if name == names[0] else list(made.student.changed)
            after = stages[name]["after"]["errors"]
            cells.append(_cell(after, places.index(layer)) if layer in places else "old mixer")
        rows.append([f"layer {layer + 1}", *cells])
    cosines = [f"{first['cosine']:.3f}", *(f"{stages[n]['after']['cosine']:.3f}" for n in names)]
    steps = ["", *(f"{stages[n]['steps']:,} in {stages[n]['seconds']:.0f} s" for n in names)]
    rows += [["cosine of row vectors", *cosines], ["steps", *steps]]
    note = (
        "Relative error: ‖new − old‖² / ‖old‖² of a mixer's output on the input of the old one, "
        "over held-out texts; 0 is a perfect copy, 1 knows nothing. The cosine compares the mean "
        "of the last layer's vectors, old and new, row by row."
    )
    return Table("Errors by layer", heads, rows, note)


def _changed_at_start(made: Conversion) -> list[int]:
    """The layers that took part in the first stage: those that got their mixer back as well."""
    back = made.kept if made.plan.keep_worst else ()
    return sorted({*made.student.changed, *back})


def _cell(errors: list[float], place: int) -> str:
    return f"{errors[place]:.3f}" if place < len(errors) else ""


def _speed(measured: Measured) -> Table:
    heads = ("tokens", "original, ms", "converted, ms", "times as fast", "no mixing, ms", "MiB")
    rows = []
    both = zip(measured.of(BEFORE), measured.of(AFTER), measured.of(BARE), strict=True)
    for old, new, bare in both:
        rows.append(
            (
                f"{old.length:,}",
                f"{old.seconds * 1e3:.1f}",
                f"{new.seconds * 1e3:.1f}",
                f"{old.seconds / new.seconds:.2f}",
                f"{bare.seconds * 1e3:.1f}",
                f"{old.nbytes / 2**20:.1f} → {new.nbytes / 2**20:.1f}",
            )
        )
    note = (
        "One row, one forward pass of the whole model, candidates in turn; medians. “No mixing” is "
        "the bound for any mixer. Memory: the peak of what the pass allocates."
    )
    return Table("Speed and memory by length", heads, rows, note)


def pictures(made: Conversion, measured: Measured | None) -> list[Picture]:
    found = []
    if made.stages:
        drawn = _bars(made)
        found.append(Picture("Relative error of each layer, copied and learned.", svg=drawn))
    if measured is not None:
        of = "a forward pass of the whole model"
        found.append(Picture("Time of one row against its length.", cost(measured, "seconds", of)))
        found.append(Picture("Memory of one row.", cost(measured, "nbytes", of)))
    return found


def _bars(made: Conversion) -> str:
    """Two dots per layer, joined: the error before and after learning."""
    name = next(iter(made.stages))
    before, after = (made.stages[name][k]["errors"] for k in ("before", "after"))
    drawn, axes = figure(5.0, 3.7)
    layers = [layer + 1 for layer in _changed_at_start(made)]
    for x, a, b in zip(layers, before, after, strict=True):
        axes.plot([x, x], [a, b], color=MUTED, linewidth=1.0)
    axes.plot(layers, before, "o", color=MUTED, markersize=6)
    axes.plot(layers, after, "o", color=colour(1), markersize=7)
    axes.set_ylim(0, max(*before, *after) * 1.12)
    axes.set_xticks(layers)
    for values, text, tone in ((before, "copied", MUTED), (after, "learned", colour(1))):
        axes.annotate(
            text,
            (layers[-1], values[-1]),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            fontsize=9.5,
            color=tone,
            annotation_clip=False,
        )
    label_axes(axes, "layer", "relative error")
    words = ", ".join(f"{a:.2f} to {b:.2f}" for a, b in zip(before, after, strict=True))
    return to_svg(drawn, "errors", f"Relative error of each layer, before and after: {words}.")
