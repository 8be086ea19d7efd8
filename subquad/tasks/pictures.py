"""Contact sheets of images."""

import math

import numpy as np
import numpy.typing as npt
from PIL import Image

#: Smallest side of one image on the sheet, in screen pixels.
SIDE = 48


def contact_sheet(
    pixels: npt.NDArray[np.integer], levels: int, columns: int | None = None
) -> Image.Image:
    """Images ``[n, h, w]`` or ``[n, h, w, c]`` with values 0..levels-1 as a grid in one image,
    enlarged without smoothing. Grey images are drawn dark on light, like ink."""
    if pixels.ndim == 3:
        pixels = (levels - 1) - pixels[..., None]
    n, h, w, channels = pixels.shape
    shown = (pixels[..., :3] if channels >= 3 else pixels[..., :1]).astype(np.float64)
    shown = (shown * 255 / (levels - 1)).round().astype(np.uint8)
    columns = columns or math.ceil(math.sqrt(n))
    rows = math.ceil(n / columns)
    scale = max(1, SIDE // max(h, w))
    margin = max(2, scale)
    height, width = h * scale + margin, w * scale + margin
    size = (rows * height + margin, columns * width + margin, shown.shape[-1])
    sheet = np.full(size, 255, dtype=np.uint8)
    for i, image in enumerate(shown):
        y, x = divmod(i, columns)
        top, left = margin + y * height, margin + x * width
        enlarged = image.repeat(scale, axis=0).repeat(scale, axis=1)
        sheet[top : top + h * scale, left : left + w * scale] = enlarged
    return Image.fromarray(sheet if shown.shape[-1] == 3 else sheet[..., 0])
