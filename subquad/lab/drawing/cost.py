"""The plot of what mixers cost against length."""

import math
from collections.abc import Sequence
from typing import Any

from subquad.lab.drawing.svg import colour, end_labels, figure, label_axes, series, to_svg
from subquad.lab.instruments.layer import Measured


def cost(measured: Measured, what: str, of: str = "one layer, forward and backward") -> str:
    """Time (``seconds``) or memory (``nbytes``) per sequence against length, on log-log axes.
    ``of`` says what was measured, for the alternative text."""
    mixers = list(dict.fromkeys(p.mixer for p in measured.points))
    if not mixers:
        return ""
    unit = 1e3 if what == "seconds" else 1 / 2**20
    drawn, axes = figure(5.0, 3.7)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    colours, ends, words = series(mixers), [], []
    for name in mixers:
        points = measured.of(name)
        x, y = [p.length for p in points], [getattr(p, what) * unit for p in points]
        color = colour(colours[name])
        if what == "seconds":
            low, high = [p.fastest * unit for p in points], [p.slowest * unit for p in points]
            axes.fill_between(x, low, high, color=color, alpha=0.13, linewidth=0)
        axes.plot(x, y, color=color, linewidth=1.6, marker="o", markersize=3)
        ends.append((name, x[-1], y[-1], color))
        slope = measured.slope(name, what)
        grows = "" if slope is None else f", growing with length to the power {slope:.2f}"
        words.append(f"{name}: {y[-1]:.3g} at {x[-1]}{grows}")
    lengths = sorted({p.length for p in measured.points})
    _log_ticks(axes, lengths)
    axes.set_xlim(lengths[0] * 0.9, lengths[-1] * (lengths[-1] / lengths[0]) ** 0.27)
    per = "milliseconds" if what == "seconds" else "MiB"
    label_axes(axes, "sequence length, tokens", f"{per} per sequence")
    end_labels(axes, ends)
    name = "Time" if what == "seconds" else "Peak memory"
    return to_svg(drawn, what, f"{name} of {of}. {'; '.join(words)}.")


def _log_ticks(axes: Any, lengths: Sequence[int]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    step = 2 if len(lengths) > 5 else 1
    axes.set_xticks(lengths[::step], [f"{t:,}" for t in lengths[::step]])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1.0,)))
    low, high = axes.get_ylim()
    if math.log10(high / low) < 2:
        axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
