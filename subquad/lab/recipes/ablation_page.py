"""From the numbers of an ablation to tables, a picture and sentences that follow from them."""

from typing import Any

from subquad.lab.compare.verdict import Candidate, Figure, differ, noise
from subquad.lab.drawing import svg
from subquad.lab.recipes.page import Picture, Table

Results = dict[str, Any]

PAPER = "2 columns"
#: Ends the name of a chain without the query residual.
BARE = ", bare"


def _figure(results: Results) -> Figure:
    return Figure("accuracy", True, results["rows"], results["split"])


def candidates(results: Results) -> dict[str, Candidate]:
    """Every variant and floor by name."""
    found = {
        row["name"]: Candidate(row["name"], tuple(row["accuracy"]), row["seconds_per_step"])
        for row in results["variants"]
    }
    return found | {n: Candidate(n, tuple(values)) for n, values in results["floors"].items()}


def _paper(results: Results) -> Candidate:
    """The paper's form; in a grid, the best variant stands for it."""
    found = candidates(results)
    models = [c for c in found.values() if not c.floor]
    return found.get(PAPER) or max(models, key=lambda c: c.mean)


def compare(a: Candidate, b: Candidate, figure: Figure) -> str:
    """``a`` against ``b`` in words: a difference, or that the seeds cannot tell."""
    gap = (a.mean - b.mean) * 100
    if len(a.values) < 2:
        return f"{gap:+.1f} points, from one seed: no claim"
    if not differ(a, b, figure):
        return f"{gap:+.1f} points, within the noise of {noise(a, b, figure) * 100:.1f}"
    return f"{gap:+.1f} points, beyond the noise of {noise(a, b, figure) * 100:.1f}"


def headline(results: Results) -> str:
    """The best variant and the paper's form."""
    found, figure = candidates(results), _figure(results)
    paper = _paper(results)
    best = max((c for c in found.values() if not c.floor), key=lambda c: c.mean)
    base = f"{paper.name} (the paper's form)" if paper.name == PAPER else paper.name
    if best is paper or not differ(best, paper, figure):
        return f"Nothing tried is clearly better than {base}: {figure.show(paper.mean)}."
    return (
        f"{best.name} does better than {base}: {figure.show(best.mean)} against "
        f"{figure.show(paper.mean)}."
    )


def sentences(results: Results) -> list[str]:
    """What follows, question by question."""
    found, figure = candidates(results), _figure(results)
    lines = [*_residual(found, figure), *_mixing(results, found, figure)]
    if PAPER in found:
        for group, title in (
            ("columns", "Columns"),
            ("equal parameters", "At equal size"),
            ("switch", "Other switches"),
        ):
            names = [r["name"] for r in results["variants"] if r["group"] == group]
            names = [n for n in names if n != PAPER and not n.endswith(BARE)]
            if names:
                parts = [f"{n}: {compare(found[n], found[PAPER], figure)}" for n in names]
                lines.append(f"{title}, against the paper's form. {'; '.join(parts)}.")
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
    """What the query residual is worth, over all chains that were trained with and without it."""
    pairs = [(found[n], found[n + BARE]) for n in found if n + BARE in found]
    if not pairs:
        return []
    parts = [f"{full.name}: {compare(bare, full, figure)}" for full, bare in pairs]
    clear = [(bare.mean > full.mean) for full, bare in pairs if differ(full, bare, figure)]
    told = "whether the query residual helps depends on the chain"
    if min(len(c.values) for pair in pairs for c in pair) < 2 or not clear:
        told = "what the query residual is worth cannot be told from these seeds"
    elif len(clear) == len(pairs) and len(set(clear)) == 1:
        told = f"every chain does {'better' if clear[0] else 'worse'} without the query residual"
    elif len(set(clear)) == 1:
        told = (
            f"{len(clear)} of {len(pairs)} chains do clearly {'better' if clear[0] else 'worse'} "
            "without the query residual, and for the others the seeds cannot tell"
        )
    return [f"Here {told}. Without it, {'; '.join(parts)}."]


def _mixing(results: Results, found: dict[str, Candidate], figure: Figure) -> list[str]:
    """Which variants are better, and which no better, than no mixer at all."""
    none = found.get("no mixer")
    if none is None or len(none.values) < 2:
        return []
    kinds: dict[str, list[str]] = {"clearly above": [], "level": [], "clearly below": []}
    for row in results["variants"]:
        c = found[row["name"]]
        if c is not none:
            kind = "clearly above" if c.mean > none.mean else "clearly below"
            kinds[kind if differ(c, none, figure) else "level"].append(c.name)
    parts = [f"{kind}: {' · '.join(names) or 'none'}" for kind, names in kinds.items()]
    return [f"Against a model without any mixer ({figure.show(none.mean)}), {'; '.join(parts)}."]


def tables(results: Results) -> list[Table]:
    """One line for each variant, best first within its group; then the floors."""
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
                note="Bare: without the query residual." if group == "columns" else "",
            )
        )
    floor = [
        [n, figure.show(found[n].mean, 2), figure.show(found[n].std, 2)] for n in results["floors"]
    ]
    return [*made, Table("Without a network", ["method", "mean", "std"], floor)]


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
    for residual, name, number in ((True, "with the query", 3), (False, "without", 1)):
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
    svg.label_axes(axes, "columns of the chain", f"{results['split']} accuracy, %")
    svg.end_labels(axes, ends)
    alt = f"Accuracy against the number of columns. {'; '.join(words)}."
    caption = "Small points are seeds. The paper has two columns and adds the query."
    return [Picture(caption, svg=svg.to_svg(drawn, "columns", alt))]


def distance(results: Results, *, full: bool) -> list[str]:
    """How far this is from a final answer."""
    size = "the released example's size" if full else "a small model (width 32, one layer)"
    return [
        "The paper has no such ablation of columns or of the residual: no figure to repeat.",
        f"Every variant: {size}, {results['steps']:,} steps, the same rows, rates and order by "
        "seed; no variant was tuned.",
        f"{len(results['seeds'])} seeds; weights chosen on held-out rows; figures on "
        f"{results['rows']:,} {results['split']} rows.",
        "A difference counts if it is beyond Student's t (95 %) times its standard error; of many "
        "that do not exist, one in twenty counts all the same.",
        "Equal size: the width at which the whole model, embeddings included, is nearest to that "
        "of the paper's form at the common width.",
    ]
