"""Arrays → pictures for people."""

import math

import numpy as np
import numpy.typing as npt
from PIL import Image

#: Smallest side of one image on the sheet, in screen pixels.
SIDE = 48


def contact_sheet(
    pixels: npt.NDArray[np.integer], levels: int, columns: int | None = None
) -> Image.Image:
    """Images ``[n, h, w]`` with values 0..levels-1 as one grey picture, dark on light, enlarged
    without smoothing and set apart by a margin."""
    n, h, w = pixels.shape
    columns = columns or math.ceil(math.sqrt(n))
    rows = math.ceil(n / columns)
    scale = max(1, SIDE // max(h, w))
    margin = max(2, scale)
    height, width = h * scale + margin, w * scale + margin
    sheet = np.full((rows * height + margin, columns * width + margin), 255, dtype=np.uint8)
    ink = 255 - (pixels.astype(np.float64) * 255 / (levels - 1)).round().astype(np.uint8)
    for i, image in enumerate(ink):
        y, x = divmod(i, columns)
        top, left = margin + y * height, margin + x * width
        sheet[top : top + h * scale, left : left + w * scale] = np.kron(
            image, np.ones((scale, scale), dtype=np.uint8)
        )
    return Image.fromarray(sheet)
