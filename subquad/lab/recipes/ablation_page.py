"""From the numbers of an ablation to tables, a picture and sentences that follow from them."""

from collections.abc import Sequence
from typing import Any

from subquad.lab import svg
from subquad.lab.recipes.page import Picture, Table
from subquad.lab.verdict import Candidate, Figure, differ, noise

Results = dict[str, Any]

PAPER = "2 columns"


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
    lines = []
    pairs = [(n, f"{n}, bare") for n in found if f"{n}, bare" in found]
    if pairs:
        parts = [f"{n}: {compare(found[b], found[n], figure)}" for n, b in pairs]
        lines.append(f"Without the query residual. {_joined(parts)}.")
    if "no mixer" in found and PAPER in found:
        none = found["no mixer"]
        lines.append(
            f"Does it mix? Against a model without any mixer ({figure.show(none.mean)}), the "
            f"paper's form has {compare(found[PAPER], none, figure)}; without its residual "
            f"{compare(found[f'{PAPER}, bare'], none, figure)}."
        )
    if PAPER in found:
        base = found[PAPER]
        longer = [r["name"] for r in results["variants"] if r["group"] == "columns"]
        longer = [n for n in longer if n != PAPER and not n.endswith(", bare")]
        parts = [f"{n}: {compare(found[n], base, figure)}" for n in longer]
        lines.append(f"Columns, against the paper's two. {_joined(parts)}.")
        for group, title in (("equal parameters", "At equal size"), ("switch", "Other switches")):
            names = [r["name"] for r in results["variants"] if r["group"] == group]
            if names:
                parts = [f"{n}: {compare(found[n], base, figure)}" for n in names]
                lines.append(f"{title}, against the paper's form. {_joined(parts)}.")
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


def _joined(parts: Sequence[str]) -> str:
    return "; ".join(parts)


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
