"""The plot of ``bench``: time of causal attention against sequence length, on log-log axes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from subquad.lab.bench.result import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: For each implementation: its label in the plot, its colour and its line style.
LOOKS = {
    "softmax": ("softmax attention", "#b3261e", "-"),
    "chunked": ("linear, chunked in torch", "#7a8aa0", "-"),
    "native": ("linear, native core", "#1f5fbf", "-"),
    "native bf16": ("the same, bf16", "#1f5fbf", ":"),
}
KINDS = {"forward": "forward", "forward+backward": "forward and backward"}


def plot(rows: list[Row], path: Path) -> None:
    """Write the plot as an SVG file."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"font.family": "sans-serif", "svg.fonttype": "none", "font.size": 10}):
        figure = Figure(figsize=(10, 4.2), layout="constrained")
        ratios = [_octaves(rows, kind) for kind in KINDS]
        both = figure.subplots(1, 2, sharey=True, width_ratios=ratios)
        for axes, (kind, title) in zip(both, KINDS.items(), strict=True):
            _draw(axes, [row for row in rows if row.kind == kind])
            axes.set_title(title, loc="left", fontsize=11)
        both[0].set_ylabel("milliseconds")
        both[0].legend(frameon=False, loc="upper left", fontsize=9)
        figure.savefig(path, format="svg")


def _octaves(rows: list[Row], kind: str) -> float:
    """The width of a panel, in octaves of sequence length, so that both panels share one scale."""
    lengths = [row.t for row in rows if row.kind == kind] or [1]
    return max(max(lengths).bit_length() - min(lengths).bit_length(), 1)


def _draw(axes: Axes, rows: list[Row]) -> None:
    for name, (label, colour, line) in LOOKS.items():
        points = [(row.t, row.seconds * 1e3) for row in rows if row.name == name]
        if points:
            style = {"color": colour, "linestyle": line, "marker": "o", "markersize": 3.5}
            axes.loglog(*zip(*points, strict=True), label=label, **style)
    lengths = sorted({row.t for row in rows})
    axes.set_xticks(lengths, [f"{t:,}" if t < 10_000 else f"{t // 1024}k" for t in lengths])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("tokens")
    axes.yaxis.set_major_formatter(lambda ms, _: f"{ms:,g}")
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
