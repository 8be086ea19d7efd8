"""The page of ``inspect``: words shaded by weight, heads' preferences, states, spectra and maps."""

import base64
import io
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from subquad.lab.drawing import svg
from subquad.lab.drawing.pages import environment, style
from subquad.lab.inspect.inspection import Head, Inspection, Text
from subquad.lab.inspect.likings import STATIC, Floats

#: Channels with more heads than this show only their mean until unfolded.
OPEN = 4


def shade(lift: float) -> float:
    """The opacity for a lift: 0 up to the average, 0.5 at twice and 0.9 at ten times it."""
    return max(0.0, 1 - 1 / max(lift, 1e-9))


def page(found: Inspection) -> str:
    """One self-contained HTML file, in which all words are escaped."""
    return (
        environment()
        .get_template("inspect.html.j2")
        .render(
            css=style(),
            found=found,
            headline=_headline(found),
            lead=_lead(found),
            cut=_cut(found.texts),
            texts=[_text(text, found.layers) for text in found.texts],
            cards=_cards(found.heads, found.layers),
            static=STATIC,
            charts=_charts(found),
            maps=_maps(found),
        )
    )


def document(found: Inspection) -> dict[str, Any]:
    """All of it as JSON-serialisable data."""
    return {
        "run": found.run,
        "task": found.task,
        "page": str(found.page),
        "layers": found.layers,
        "data": found.data,
        "rows": found.rows,
        "skipped": found.skipped,
        "notes": found.notes,
        "judgement": found.judgement and asdict(found.judgement),
        "heads": [asdict(head) for head in found.heads],
        "topics": {
            str(n): [
                {"head": t.head, "feature": t.feature, "writers": writers, "readers": readers}
                for t, writers, readers in topics
            ]
            for n, topics in found.topics.items()
        },
        "texts": [
            {
                "tokens": text.tokens,
                "unread": text.unread,
                "answer": text.answer,
                "weights": [
                    {"layer": n, "channel": name, "weights": weights.round(6).T.tolist()}
                    for (n, name), weights in text.weights.items()
                ],
                "effective_rank": {str(n): r.round(4).tolist() for n, r in text.ranks.items()},
                "spectra": {str(n): s.tolist() for n, s in text.spectra.items()},
            }
            for text in found.texts
        ],
    }


def _headline(found: Inspection) -> str:
    if found.judgement is not None:
        return found.judgement.headline
    return f"How {' and '.join(dict.fromkeys(found.layers))} processes the words"


def _lead(found: Inspection) -> list[str]:
    if found.judgement is None:
        return []
    medians = []
    for (n, name), members in _groups(found.heads).items():
        known = [h.correlation for h in members if h.correlation is not None]
        if known:
            medians.append(f"layer {n + 1}, {name} {np.median(known):.2f}")
    return [found.judgement.sentence, f"Medians: {'; '.join(medians)}."]


def _cut(texts: list[Text]) -> str:
    """A sentence about texts that are longer than the run's maximum length."""
    said = [
        f"text {i} ({len(text.tokens):,} tokens were read, {text.unread:,} were not)"
        for i, text in enumerate(texts, 1)
        if text.unread
    ]
    return f"Truncated to the run's maximum length: {'; '.join(said)}." if said else ""


def _groups(heads: list[Head]) -> dict[tuple[int, str], list[Head]]:
    groups: dict[tuple[int, str], list[Head]] = {}
    for head in heads:
        groups.setdefault((head.layer, head.channel), []).append(head)
    return groups


def _text(text: Text, layers: list[str]) -> dict[str, Any]:
    blocks = []
    for (n, name), weights in text.weights.items():
        lifts = weights * len(weights)
        heads = [_words(text.tokens, lifts[:, h]) for h in range(lifts.shape[1])]
        blocks.append(
            {
                "title": f"Layer {n + 1}, {layers[n]}: {name}",
                "mean": _words(text.tokens, lifts.mean(1)),
                "heads": heads,
                "open": len(heads) <= OPEN,
            }
        )
    return {"answer": text.answer, "plain": " ".join(text.tokens), "blocks": blocks}


def _words(tokens: list[str], lifts: Floats) -> list[dict[str, Any]]:
    return [
        {"text": token, "shade": f"{shade(x):.2f}", "lift": f"{x:.1f}×"}
        for token, x in zip(tokens, lifts.tolist(), strict=True)
    ]


def _cards(heads: list[Head], layers: list[str]) -> list[dict[str, Any]]:
    return [
        {"title": f"Layer {n + 1}, {layers[n]}: {name}", "heads": members}
        for (n, name), members in _groups(heads).items()
    ]


def _charts(found: Inspection) -> list[dict[str, Any]]:
    charts = []
    for i, text in enumerate(found.texts):
        lines = {
            f"layer {n + 1}": (np.arange(1, ranks.shape[1] + 1), ranks.mean(0))
            for n, ranks in text.ranks.items()
        }
        if lines:
            drawn = _lines(lines, "tokens read", "effective rank of the state, mean over heads")
            caption = f"Text {i + 1}: how many directions of the state are in use."
            charts.append({"caption": caption, "svg": _svg(drawn, f"rank{i}", caption)})
        lines = {
            f"layer {n + 1}": (np.linspace(0, 0.5, len(power)), power)
            for n, power in text.spectra.items()
            if len(power) > 1
        }
        if lines:
            drawn = _lines(lines, "cycles per token", "share of the power", log=True)
            caption = f"Text {i + 1}: power spectrum, along the sequence, of each layer's input."
            charts.append({"caption": caption, "svg": _svg(drawn, f"spectrum{i}", caption)})
    return charts


def _svg(drawn: Any, name: str, alt: str) -> Markup:
    return Markup(svg.to_svg(drawn, name, alt))  # safe: it contains no text from the user


def _lines(lines: dict[str, tuple[Any, Floats]], x: str, y: str, *, log: bool = False) -> Any:
    drawn, axes = svg.figure(5.0, 3.2)
    if log:
        axes.set_yscale("log")
    ends = []
    for i, (name, (at, values)) in enumerate(lines.items()):
        color = svg.colour((1, 3, 5, 6, 7, 8, 9, 2)[i % 8])
        axes.plot(at, values, color=color, linewidth=1.6)
        ends.append((name, float(at[-1]), float(values[-1]), color))
    svg.label_axes(axes, x, y)
    svg.end_labels(axes, ends)
    return drawn


def _maps(found: Inspection) -> list[dict[str, Any]]:
    """Attention maps as small masks: the data is their opacity, the page supplies the colour."""
    maps = []
    for i, text in enumerate(found.texts):
        for n, heads in text.maps.items():
            read = np.count_nonzero(heads[0], axis=1)[:, None]
            pictures = [_mask(np.vectorize(shade)(head * read)) for head in heads]
            maps.append({"title": f"Text {i + 1}, layer {n + 1}", "heads": pictures})
    return maps


def _mask(values: Floats) -> str:
    """The data URI of a black PNG whose opacity is ``values``."""
    from PIL import Image

    alpha = (values.clip(0, 1) * 255).round().astype(np.uint8)
    pixels = np.zeros((*alpha.shape, 4), dtype=np.uint8)
    pixels[..., 3] = alpha
    buffer = io.BytesIO()
    Image.fromarray(pixels, "RGBA").save(buffer, format="PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def picture(text: Text, layers: list[str]) -> Any:
    """A function that writes a text's heat maps to a PNG: one row per head, one column per word."""
    from matplotlib.figure import Figure

    tokens = [t if len(t) <= 14 else t[:13] + "…" for t in text.tokens]
    heights = [weights.shape[1] for weights in text.weights.values()]
    width = max(4.0, 0.24 * len(tokens) + 1.2)
    height = 0.2 * sum(heights) + 0.45 * len(heights) + 1.2
    drawn = Figure(figsize=(width, height), layout="constrained", dpi=150)
    axes = np.atleast_1d(drawn.subplots(len(heights), 1, gridspec_kw={"height_ratios": heights}))
    for i, (ax, ((n, name), weights)) in enumerate(zip(axes, text.weights.items(), strict=True)):
        shades = np.vectorize(shade)(weights.T * len(weights))
        ax.imshow(shades, aspect="auto", cmap="OrRd", vmin=0, vmax=1, interpolation="nearest")
        ax.set_title(f"layer {n + 1}, {layers[n]}: {name}", fontsize=8, loc="left")
        ax.set_yticks([0, len(shades) - 1] if len(shades) > 1 else [0])
        ax.set_yticklabels([f"head {h + 1}" for h in ax.get_yticks()], fontsize=6)
        last = i == len(axes) - 1
        ax.set_xticks(range(len(tokens)), tokens if last else [""] * len(tokens), rotation=90)
        ax.tick_params(axis="x", labelsize=7, length=0, pad=2)
        ax.tick_params(axis="y", length=0)
        for side in ax.spines.values():
            side.set_visible(False)
        for label in ax.get_xticklabels():
            label.set_parse_math(False)  # a word may contain a dollar sign

    def write(path: Path) -> None:
        drawn.savefig(path, format="png")

    return write
