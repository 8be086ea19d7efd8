"""Matplotlib figures as SVG that adapts to its page: text stays text, in the page's font, and the
colours are CSS variables, so that one figure serves both light and dark mode.

Figures are drawn with placeholder colours (``INK``, ``MUTED``, …, ``colour(number)``), which
``to_svg`` replaces by the CSS variables of ``templates/report.css``.
"""

import io
import re
from collections.abc import Sequence
from html import escape
from itertools import islice
from typing import Any

from subquad.mixers import MIXERS

INK, MUTED, RULE, PAPER = "#010101", "#020202", "#030303", "#040404"
_SERIES = tuple(f"#0501{i:02x}" for i in range(10))
_VARIABLES = {INK: "--ink", MUTED: "--muted", RULE: "--rule", PAPER: "--paper"} | {
    code: f"--series-{i}" for i, code in enumerate(_SERIES)
}
#: The first mixers have the same colour in every figure; others get the remaining ones in order.
KNOWN = 5


def series(names: Sequence[str]) -> dict[str, int]:
    """The number of each name's colour."""
    known = {name: i for i, name in enumerate(islice(MIXERS, KNOWN))}
    free = iter([*range(KNOWN, len(_SERIES))] * len(names))
    return {name: known[name] if name in known else next(free) for name in names}


def colour(number: int) -> str:
    """The placeholder for the page's ``--series-number``."""
    return _SERIES[number]


def figure(width: float, height: float) -> tuple[Any, Any]:
    """An empty figure of this size in inches, and its axes: no frame, thin lines, small labels."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(width, height), layout="constrained")
    drawn.patch.set_alpha(0)
    axes = drawn.add_subplot()
    axes.patch.set_alpha(0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)
    axes.spines["bottom"].set_linewidth(0.6)
    axes.tick_params(colors=MUTED, labelsize=8.5, length=3, width=0.6, which="both")
    axes.tick_params(axis="y", length=0, which="both")
    axes.tick_params(which="minor", length=0)
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    return drawn, axes


def label_axes(axes: Any, x: str, y: str) -> None:
    """Label the axes; the y label is horizontal, above the axis, where it is easy to read."""
    axes.set_xlabel(x, color=MUTED, fontsize=8.5, loc="right")
    axes.set_title(y, color=MUTED, fontsize=8.5, loc="left", pad=10)


def end_labels(axes: Any, ends: Sequence[tuple[str, float, float, str]]) -> None:
    """Label lines at their right ends (x, y), pushing labels apart so that they do not overlap."""
    drawn = axes.figure
    drawn.canvas.draw()
    height = 9.5 * drawn.dpi / 72 * 1.15
    placed: list[tuple[str, float, float, float, str]] = []
    for name, x, y, color in sorted(ends, key=lambda e: axes.transData.transform((e[1], e[2]))[1]):
        level = axes.transData.transform((x, y))[1]
        lowest = placed[-1][3] + height if placed else -1e9
        placed.append((name, x, y, max(level, lowest), color))
    # Groups that were pushed up are moved back down, so that they are centred on their lines.
    shift = _shift([axes.transData.transform((p[1], p[2]))[1] for p in placed], placed, height)
    for (name, x, y, level, color), down in zip(placed, shift, strict=True):
        offset = level - down - axes.transData.transform((x, y))[1]
        axes.annotate(
            name,
            (x, y),
            xytext=(6, offset * 72 / drawn.dpi),
            textcoords="offset points",
            va="center",
            fontsize=9.5,
            color=color,
            annotation_clip=False,
        )


def _shift(wanted: list[float], placed: list[Any], height: float) -> list[float]:
    """How far each label can be moved back down together with the labels that it touches."""
    groups: list[list[int]] = []
    for i, p in enumerate(placed):
        touching = groups and p[3] - placed[i - 1][3] < height * 1.01
        if touching:
            groups[-1].append(i)
        else:
            groups.append([i])
    shift = [0.0] * len(placed)
    floor = -1e9
    for group in groups:
        excess = sum(placed[i][3] - wanted[i] for i in group) / len(group)
        room = placed[group[0]][3] - floor - height
        for i in group:
            shift[i] = min(excess, max(room, 0))
        floor = placed[group[-1]][3] - shift[group[-1]]
    return shift


def to_svg(drawn: Any, name: str, alt: str) -> str:
    """The figure as an ``<svg>`` element for a page; ``name`` makes its ids unique."""
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        drawn.savefig(buffer, format="svg", metadata=metadata, transparent=True)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\s(xmlns(:\w+)?|version)="[^"]*"', "", text)
    text = re.sub(r'(<svg[^>]*?)\swidth="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?)\sheight="[^"]*"', r"\1", text, count=1)
    text = text.replace("xlink:href", "href")
    text = re.sub(r"font-family:[^;\"]*;? ?", "", text)
    text = re.sub(r'id="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r'(url\(|href=")#', rf"\1#{name}-", text)
    for code, variable in _VARIABLES.items():
        text = text.replace(code, f"var({variable})")
    head = f'<svg role="img" aria-label="{escape(alt, quote=True)}"'
    return text.replace("<svg", head, 1)
