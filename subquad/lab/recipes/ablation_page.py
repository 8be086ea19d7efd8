"""Tables, a figure and conclusions from the numbers of the Fastformer ablation."""

from typing import Any

from subquad.lab.compare.verdict import Candidate, Figure, differ, noise
from subquad.lab.drawing import svg
from subquad.lab.drawing.document import Picture, Table

Results = dict[str, Any]

PAPER = "2 columns"
#: Suffix of the names of variants without the query residual.
BARE = ", bare"


def _figure(results: Results) -> Figure:
    return Figure("accuracy", True, results["rows"], results["split"])


def candidates(results: Results) -> dict[str, Candidate]:
    """All variants and baselines by name."""
    found = {
        row["name"]: Candidate(row["name"], tuple(row["accuracy"]), row["seconds_per_step"])
        for row in results["variants"]
    }
    return found | {n: Candidate(n, tuple(values)) for n, values in results["floors"].items()}


def _paper(results: Results) -> Candidate:
    """The paper's variant; in a full grid, which does not name it, the best variant."""
    found = candidates(results)
    models = [c for c in found.values() if not c.floor]
    return found.get(PAPER) or max(models, key=lambda c: c.mean)


def compare(a: Candidate, b: Candidate, figure: Figure) -> str:
    """The difference ``a - b`` in words, and whether it is larger than the noise between seeds."""
    gap = (a.mean - b.mean) * 100
    if len(a.values) < 2:
        return f"{gap:+.1f} points, from a single seed, so no claim"
    if not differ(a, b, figure):
        return f"{gap:+.1f} points, within the noise of {noise(a, b, figure) * 100:.1f}"
    return f"{gap:+.1f} points, beyond the noise of {noise(a, b, figure) * 100:.1f}"


def headline(results: Results) -> str:
    """How the best variant compares with the paper's, in one sentence."""
    found, figure = candidates(results), _figure(results)
    paper = _paper(results)
    best = max((c for c in found.values() if not c.floor), key=lambda c: c.mean)
    base = f"{paper.name} (the paper's design)" if paper.name == PAPER else paper.name
    if best is paper or not differ(best, paper, figure):
        return f"Nothing tried is clearly better than {base}: {figure.show(paper.mean)}."
    return (
        f"{best.name} does better than {base}: {figure.show(best.mean)} against "
        f"{figure.show(paper.mean)}."
    )


def sentences(results: Results) -> list[str]:
    """The conclusions, one per question."""
    found, figure = candidates(results), _figure(results)
    lines = [*_residual(found, figure), *_mixing(results, found, figure)]
    if PAPER in found:
        for group, title in (
            ("columns", "Number of columns"),
            ("equal parameters", "At equal size"),
            ("switch", "Other changes"),
        ):
            names = [r["name"] for r in results["variants"] if r["group"] == group]
            names = [n for n in names if n != PAPER and not n.endswith(BARE)]
            if names:
                parts = [f"{n}: {compare(found[n], found[PAPER], figure)}" for n in names]
                lines.append(f"{title}, compared with the paper's design: {'; '.join(parts)}.")
    bag = found.get("bag of words")
    if bag is not None:
        best = max((c for c in found.values() if not c.floor), key=lambda c: c.mean)
        gap = abs(best.mean - bag.mean) * 100
        side = "below" if best.mean < bag.mean else "above"
        lines.append(
            f"The bag of words reaches {figure.show(bag.mean)}; the best variant, {best.name}, is "
            f"{gap:.1f} points {side} it."
        )
    return lines


def _residual(found: dict[str, Candidate], figure: Figure) -> list[str]:
    """The effect of the query residual, over all variants trained with and without it."""
    pairs = [(found[n], found[n + BARE]) for n in found if n + BARE in found]
    if not pairs:
        return []
    parts = [f"{full.name}: {compare(bare, full, figure)}" for full, bare in pairs]
    clear = [(bare.mean > full.mean) for full, bare in pairs if differ(full, bare, figure)]
    told = "Whether the query residual helps depends on the number of columns"
    if min(len(c.values) for pair in pairs for c in pair) < 2 or not clear:
        told = "The effect of the query residual cannot be told from these seeds"
    elif len(clear) == len(pairs) and len(set(clear)) == 1:
        told = f"Every variant does {'better' if clear[0] else 'worse'} without the query residual"
    elif len(set(clear)) == 1:
        told = (
            f"{len(clear)} of {len(pairs)} variants do clearly {'better' if clear[0] else 'worse'} "
            "without the query residual; for the others, the difference is within the noise"
        )
    return [f"{told}. The effect of leaving it out: {'; '.join(parts)}."]


def _mixing(results: Results, found: dict[str, Candidate], figure: Figure) -> list[str]:
    """Which variants are better than no mixer at all, and which are not."""
    none = found.get("no mixer")
    if none is None or len(none.values) < 2:
        return []
    level = "within the noise"
    kinds: dict[str, list[str]] = {"clearly above": [], level: [], "clearly below": []}
    for row in results["variants"]:
        c = found[row["name"]]
        if c is not none:
            kind = "clearly above" if c.mean > none.mean else "clearly below"
            kinds[kind if differ(c, none, figure) else level].append(c.name)
    parts = [f"{kind}: {' · '.join(names) or 'none'}" for kind, names in kinds.items()]
    shown = figure.show(none.mean)
    return [f"Compared with a model without a mixer ({shown}), {'; '.join(parts)}."]


def tables(results: Results) -> list[Table]:
    """A table for each group of variants, and one for the baselines."""
    figure, found, made = _figure(results), candidates(results), []
    groups = dict.fromkeys(row["group"] for row in results["variants"])
    for group in groups:
        rows = [r for r in results["variants"] if r["group"] == group]
        made.append(
            Table(
                f"{group[0].upper()}{group[1:]}: {results['split']} accuracy over "
                f"{len(results['seeds'])} seeds",
                ["variant", "mean", "std", "macro F1", "width", "parameters", "ms per step"],
                [_row(found[r["name"]], r, figure) for r in rows],
                note="“bare”: without the query residual." if group == "columns" else "",
            )
        )
    floor = [
        [n, figure.show(found[n].mean, 2), figure.show(found[n].std, 2)] for n in results["floors"]
    ]
    return [*made, Table("Baselines without a network", ["method", "mean", "std"], floor)]


def _row(c: Candidate, row: dict[str, Any], figure: Figure) -> list[str]:
    f1 = sum(row["macro_f1"]) / len(row["macro_f1"])
    return [
        c.name,
        figure.show(c.mean, 2),
        figure.show(c.std, 2),
        figure.show(f1, 2),
        str(row["d"]),
        f"{row['parameters']:,}",
        f"{1e3 * row['seconds_per_step']:.0f}",
    ]


def picture(results: Results) -> list[Picture]:
    """Accuracy against the number of columns, with and without the residual."""
    rows = [r for r in results["variants"] if r["group"] == "columns"]
    if not rows:
        return []
    drawn, axes = svg.figure(6.4, 3.6)
    axes.set_xscale("log")
    ends, words = [], []
    for residual, name, number in ((True, "with residual", 3), (False, "without", 1)):
        mine = [r for r in rows if r["options"]["query_residual"] == residual]
        x = [r["options"]["columns"] for r in mine]
        mean = [100 * sum(r["accuracy"]) / len(r["accuracy"]) for r in mine]
        color = svg.colour(number)
        axes.plot(x, mean, color=color, linewidth=1.6, marker="o", markersize=5)
        for r, at in zip(mine, x, strict=True):
            values = [100 * v for v in r["accuracy"]]
            axes.plot([at] * len(values), values, "o", color=color, alpha=0.45, markersize=3, mew=0)
        ends.append((name, x[-1], mean[-1], color))
        pairs = zip(x, mean, strict=True)
        words.append(f"{name}: " + ", ".join(f"{a} columns {m:.1f} %" for a, m in pairs))
    columns = sorted({r["options"]["columns"] for r in rows})
    axes.set_xticks(columns, [str(c) for c in columns])
    axes.set_xticks([], minor=True)
    lines = {n: c for n, c in candidates(results).items() if n in ("no mixer", "bag of words")}
    for name, c in lines.items():
        axes.axhline(100 * c.mean, color=svg.MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
        axes.annotate(
            name,
            (columns[0], 100 * c.mean),
            xytext=(0, 3),
            textcoords="offset points",
            fontsize=8.5,
            color=svg.MUTED,
        )
    svg.label_axes(axes, "number of columns", f"{results['split']} accuracy, %")
    svg.end_labels(axes, ends)
    alt = f"Accuracy against the number of columns. {'; '.join(words)}."
    caption = (
        "Accuracy against the number of columns, with and without the query residual. Small points "
        "are single seeds. The paper uses two columns and the residual."
    )
    return [Picture(caption, svg=svg.to_svg(drawn, "columns", alt))]


def distance(results: Results, *, full: bool) -> list[str]:
    """The limits of this experiment."""
    size = "the size of the released example" if full else "a small model (width 32, one layer)"
    return [
        "The paper does not ablate the columns or the residual, so there is no published result to "
        "compare with.",
        f"Every variant: {size}, {results['steps']:,} steps; for each seed, the same examples, "
        "learning rates and data order. No variant was tuned.",
        f"{len(results['seeds'])} seeds; checkpoints were chosen on the held-out set; results are "
        f"on {results['rows']:,} {results['split']} examples.",
        "A difference counts if it exceeds Student's t (95 %) times its standard error, so about "
        "one in twenty comparisons without a real difference will count by chance.",
        "Equal size: the width at which the whole model, embeddings included, is closest in size "
        "to the paper's design at the common width.",
    ]
