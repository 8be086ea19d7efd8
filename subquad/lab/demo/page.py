"""The demo's numbers and images, formatted for its part of the report."""

import base64
import io
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup
from PIL import Image

from subquad.data.digits import LEVELS
from subquad.lab.compare.figures import rates
from subquad.lab.demo.result import Demo, Drawing
from subquad.lab.drawing.svg import series
from subquad.lab.instruments.generation import CACHED, RECOMPUTED, RECURRENT, Speed

#: Screen pixels per image pixel; browsers enlarge further without smoothing.
SCALE = 6
NEXT = (
    "subquad train your.csv --task classify --mixer fastformer --out runs/mine",
    "subquad compare your.csv --task classify --mixers linear,fnet,fastformer,softmax,none "
    "--seeds 3 --out report",
)


def context(demo: Demo) -> dict[str, Any]:
    """The variables of the templates ``demo.html.j2`` and ``demo_generation.html.j2``."""
    drawing, judged = demo.drawing, demo.drawing.recognition
    return {
        "generated": picture(drawing.pixels),
        "real": picture(drawing.real),
        "count": len(drawing.pixels),
        "guesses": " ".join(judged.guesses),
        "headline": f"Digits drawn pixel by pixel from {_size(drawing.state_bytes)} of memory",
        "lead": _lead(drawing),
        "figures": _figures(demo),
        "judgement": _judgement(drawing),
        "floors": "; ".join(f"{f.name} {f.held_out['bits_per_dim']:.2f}" for f in drawing.floors),
        "speeds": [_speed_block(demo, n) for n in dict.fromkeys(s.length for s in demo.speeds)],
        "next": NEXT,
        "how": _how(drawing),
    }


def _lead(drawing: Drawing) -> str:
    return (
        "Causal linear attention is a recurrent network: everything it has read is summarised in a "
        f"state of fixed size, here {_size(drawing.state_bytes)} per image, no matter how many "
        f"pixels came before. This model was trained on {drawing.rows:,} handwritten digits in "
        f"{_duration(drawing.seconds)} on this machine."
    )


def _figures(demo: Demo) -> list[tuple[str, str]]:
    judged, rows = demo.drawing.recognition, demo.speeds
    found = [
        (f"{judged.recognised:.0%}".replace("%", " %"), "of them are recognised as a digit"),
        (f"{demo.drawing.bits_per_dim:.2f}", "bits per pixel on held-out digits"),
    ]
    for length in dict.fromkeys(s.length for s in rows):
        ratio = _ratio(demo, length, CACHED)
        found.append((f"{ratio:.1f}×", f"the speed of cached softmax at {length:,} pixels"))
    return found


def _judgement(drawing: Drawing) -> str:
    j = drawing.recognition
    return (
        f"A neural network trained only on real digits ({j.accuracy:.1%} accuracy on held-out "
        f"ones) assigns one class a probability over 0.8 for {j.recognised:.1%} of the "
        f"{j.samples} generated digits. For comparison: {j.real:.1%} of held-out real digits, and "
        f"{j.noise:.1%} of images whose pixels are sampled independently. {_kinds(j.classes)}. "
        f"{_copies(j.copies)}; the median distance to the nearest training digit is "
        f"{j.nearest:.1f} grey levels (held-out real digits: {j.nearest_real:.1f})."
    ).replace("%", " %")


def _kinds(classes: int) -> str:
    return "All ten digits occur" if classes == 10 else f"{classes} of the ten digits occur"


def _copies(copies: int) -> str:
    if copies == 0:
        return "None is a copy of a training digit"
    return f"{copies} {'is a copy' if copies == 1 else 'are copies'} of training digits"


def _how(drawing: Drawing) -> list[str]:
    return [
        f"The generated digits are the first {len(drawing.pixels)} samples with seed 0 at "
        f"temperature {drawing.temperature:g} (below 1 favours likelier pixels); none were "
        "selected or discarded.",
        "Bits per pixel are measured on the held-out digits, which were also used to choose the "
        "pixel model's checkpoint.",
        "Generation was timed in fp32 with untrained models of the pixel model's shape; the three "
        "methods took turns. Beyond 64 pixels, recomputation is timed at 8 prefix lengths and the "
        "mean is multiplied by the number of pixels.",
    ]


def _speed_block(demo: Demo, length: int) -> dict[str, Any]:
    rows = [s for s in demo.speeds if s.length == length]
    numbers = series(["linear", "softmax"])
    bars = [
        (s.method, numbers[s.method.partition(",")[0]], s.median, s.slowest, s.fastest)
        for s in rows
    ]
    alt = "; ".join(f"{s.method}: {s.median:.3g} images per second" for s in rows)
    cached, again = _ratio(demo, length, CACHED), _ratio(demo, length, RECOMPUTED)
    state = {s.method: s.state_bytes for s in rows}
    return {
        "length": f"{length:,}",
        "batch": rows[0].batch,
        "drawing": Markup(rates(bars, f"rates-{length}", f"At {length} pixels. {alt}.")),
        "sentence": (
            f"The recurrent form is {_times(cached)} cached softmax and {_times(again)} "
            f"recomputation. Its state takes {_size(state[RECURRENT])} per image, the cache "
            f"{_size(state[CACHED])}."
        ),
    }


def _ratio(demo: Demo, length: int, other: str) -> float:
    of: dict[str, Speed] = {s.method: s for s in demo.speeds if s.length == length}
    return of[RECURRENT].median / of[other].median


def _times(ratio: float) -> str:
    return f"{ratio:,.2g}× as fast as" if ratio < 100 else f"{ratio:,.0f}× as fast as"


def _size(nbytes: int) -> str:
    if nbytes < 2**20:
        return f"{nbytes / 2**10:.0f} KiB"
    return f"{nbytes / 2**20:.1f} MiB"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 90 else f"{seconds / 60:.1f} minutes"


def picture(pixels: npt.NDArray[np.int64], columns: int = 8) -> str:
    """A grid of images ``[n, h, w]`` as the data URI of a PNG, in black on a transparent
    background, so that it works on a light page and (inverted by the page) on a dark one."""
    n, h, w = pixels.shape
    gap = 2
    rows = -(-n // columns)
    sheet = np.zeros((rows * (h + gap) - gap, columns * (w + gap) - gap), dtype=np.uint8)
    for i, image in enumerate(pixels):
        y, x = divmod(i, columns)
        top, left = y * (h + gap), x * (w + gap)
        sheet[top : top + h, left : left + w] = (image * 255 // (LEVELS - 1)).astype(np.uint8)
    alpha = np.kron(sheet, np.ones((SCALE, SCALE), dtype=np.uint8))
    ink = np.zeros_like(alpha)
    buffer = io.BytesIO()
    Image.fromarray(np.stack([ink, alpha], axis=-1), mode="LA").save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
