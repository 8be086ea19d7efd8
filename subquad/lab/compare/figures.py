"""The plots of a report. Each function returns an ``<svg>`` element, or "" if there is no data."""

from collections.abc import Sequence
from typing import Any

from subquad.lab.compare.comparison import Comparison
from subquad.lab.compare.verdict import Candidate, Figure
from subquad.lab.drawing.svg import (
    INK,
    MUTED,
    PAPER,
    colour,
    end_labels,
    figure,
    label_axes,
    series,
    to_svg,
)


def _scale(value: float, shown: Figure) -> float:
    return value * 100 if shown.percent else value


def _title(shown: Figure) -> str:
    unit = ", %" if shown.percent else ""
    better = "higher" if shown.higher_is_better else "lower"
    return f"{shown.title}{unit} ({better} is better)"


def quality_speed(comparison: Comparison) -> str:
    """Quality against time per training step: mixers as points, baselines as dashed lines."""
    shown = comparison.figure
    rows = [c for c in comparison.candidates() if not c.floor]
    lines = floors_in_view(comparison)
    drawn, axes = figure(5.0, 3.5)
    colours = series(comparison.mixers)
    milliseconds = [1e3 * (c.seconds or 0) for c in rows]
    for c, x in zip(rows, milliseconds, strict=True):
        color = colour(colours[c.name])
        values = [_scale(v, shown) for v in c.values]
        axes.plot([x, x], [min(values), max(values)], color=color, linewidth=1.2, alpha=0.5)
        axes.plot([x] * len(values), values, "o", color=color, markersize=3, alpha=0.5, mew=0)
        axes.plot(x, _scale(c.mean, shown), "o", color=color, markersize=8, mec=PAPER, mew=1.2)
    low, high = 0.0, max(milliseconds) * 1.32
    axes.set_xlim(low, high)
    for c in lines:
        level = _scale(c.mean, shown)
        axes.axhline(level, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
        axes.annotate(
            c.name,
            (low, level),
            xytext=(2, 3),
            textcoords="offset points",
            fontsize=8.5,
            color=MUTED,
        )
    _pad(axes, [_scale(v, shown) for c in (*rows, *lines) for v in c.values])
    ends = [
        (c.name, x, _scale(c.mean, shown), colour(colours[c.name]))
        for c, x in zip(rows, milliseconds, strict=True)
    ]
    label_axes(axes, "milliseconds per training step", _title(shown))
    _point_labels(axes, ends)
    words = "; ".join(
        f"{c.name}: {shown.show(c.mean)} at {x:.1f} ms"
        for c, x in zip(rows, milliseconds, strict=True)
    )
    return to_svg(drawn, "quality", f"{shown.title} against time per training step. {words}.")


def _point_labels(axes: Any, points: list[tuple[str, float, float, str]]) -> None:
    """Label the points alternately below and above, from left to right, so that neighbours do not
    overlap."""
    for i, (name, x, y, color) in enumerate(sorted(points, key=lambda p: p[1])):
        axes.annotate(
            name,
            (x, y),
            xytext=(0, 11 if i % 2 else -12),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=9.5,
            color=color,
        )


def floors_in_view(comparison: Comparison) -> list[Candidate]:
    """The baselines close enough to the mixers to be plotted on the same scale."""
    rows = comparison.candidates()
    values = [v for c in rows if not c.floor for v in c.values]
    reach = max(1.5 * (max(values) - min(values)), 0.03 * abs(max(values)))
    return [c for c in rows if c.floor and min(values) - reach <= c.mean <= max(values) + reach]


def _pad(axes: Any, values: Sequence[float]) -> None:
    low, high = min(values), max(values)
    room = max(0.15 * (high - low), 0.002 * abs(high), 1e-6)
    axes.set_ylim(low - room, high + room)


def learning(comparison: Comparison) -> str:
    """The metric on the held-out set during training."""
    shown = comparison.figure
    key = shown.key if shown.key in comparison.runs[0].curve[-1] else "loss"
    times = 100 if shown.percent and key == shown.key else 1
    lines = {
        name: [[(p["step"], p[key] * times) for p in r.curve] for r in comparison.of(name)]
        for name in comparison.mixers
    }
    return curves(lines, y=_title(shown) if key == shown.key else "loss", name="learning")


def curves(lines: dict[str, list[list[tuple[int, float]]]], *, y: str, name: str) -> str:
    """``y`` over training steps: a thick line for the mean over seeds, a thin one for each seed."""
    drawn, axes = figure(5.0, 3.5)
    colours, ends, words = series(list(lines)), [], []
    for method, runs in lines.items():
        color = colour(colours[method])
        for run in runs:
            axes.plot(*zip(*run, strict=True), color=color, linewidth=0.6, alpha=0.35)
        n = min(map(len, runs))
        x = [sum(run[i][0] for run in runs) / len(runs) for i in range(n)]
        mean = [sum(run[i][1] for run in runs) / len(runs) for i in range(n)]
        single = {"marker": "o", "markersize": 4} if n == 1 else {}
        axes.plot(x, mean, color=color, linewidth=1.8, **single)
        ends.append((method, x[-1], mean[-1], color))
        words.append(f"{method} ends at {mean[-1]:.4g}")
    last = max(point[0] for runs in lines.values() for run in runs for point in run)
    axes.set_xlim(0, last * 1.3)
    ticks = [t for t in axes.get_xticks() if t <= last * 1.01]
    axes.set_xticks(ticks, [f"{t:,g}" for t in ticks])
    label_axes(axes, "training steps", y)
    end_labels(axes, ends)
    return to_svg(drawn, name, f"{y} during training. {'; '.join(words)}.")


def rates(rows: Sequence[tuple[str, int, float, float, float]], name: str, alt: str) -> str:
    """A horizontal bar chart; each row is (label, series, median, slowest, fastest), in images per
    second."""
    drawn, axes = figure(5.0, 0.47 * len(rows) + 0.5)
    axes.grid(visible=False)
    axes.set_xlim(0, max(r[4] for r in rows) * 1.16)
    for i, (label, number, value, slow, fast) in enumerate(rows):
        y = len(rows) - i
        axes.barh(y, value, height=0.36, color=colour(number), linewidth=0)
        axes.plot([slow, fast], [y, y], color=INK, linewidth=0.9)
        words = {"textcoords": "offset points", "va": "center", "color": INK}
        axes.annotate(f"{value:,.3g}", (max(fast, value), y), xytext=(5, 0), fontsize=9.5, **words)
        axes.annotate(label, (0, y), xytext=(0, 13), fontsize=9, **words)
    axes.set_yticks([])
    axes.set_ylim(0.65, len(rows) + 0.75)
    axes.set_xlabel("images per second", color=MUTED, fontsize=8.5, loc="right")
    return to_svg(drawn, name, alt)
