"""Masked convolution over an image: only pixels that come before the current one are read.

Van den Oord, Kalchbrenner, Kavukcuoglu, "Pixel Recurrent Neural Networks", ICML 2016 (arXiv
1601.06759), masked convolutions, here depthwise. An image is read in raster order, in rows of
``row`` values; token i is the last one known when token i + 1 is predicted. For channel c:

    y_i,c = Σ_{j<w} W_j,c x_{i-j},c  +  Σ_{r=1..a} Σ_{s=-n..n} W_r,s,c x_{i+1-r·row+s},c

that is, the last w tokens and, in each of the a rows above, the values up to n to the left and
right of the position to be predicted. Taps that cross the left or right edge wrap into the adjacent
row. Cost: O(t·d·(w + a(2n+1))); the state is the last a·row + n - 1 inputs.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from subquad.mixers.convolution.depthwise import DepthwiseConvolution

#: Defaults: values per row (MNIST's, if the data does not say), rows above, values to either side,
#: values in the current row.
ROW, ABOVE, SIDE, WIDTH = 28, 4, 3, 4


class MaskedConvolution(DepthwiseConvolution):
    """A causal depthwise convolution over the neighbourhood of a pixel.

    Args:
        d: model width.
        row: values per row of the image (its width times its channels).
        above: rows above the current one that are read, a.
        side: values to either side in those rows, n.
        width: tokens of the current row that are read, w.

    Raises:
        ValueError: a size is out of range, or a tap would read tokens that are not known yet.
    """

    def __init__(
        self,
        d: int,
        *,
        row: int = ROW,
        above: int = ABOVE,
        side: int = SIDE,
        width: int = WIDTH,
    ) -> None:
        super().__init__(d)
        _check(row, above, side, width)
        self._lags = lags(row, above, side, width)
        self.weight = nn.Parameter(torch.randn(d, len(self._lags)) * len(self._lags) ** -0.5)

    @classmethod
    def completed(cls, chosen: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        """Takes ``row`` from the image; ``side`` is reduced if the image is narrow."""
        if "row" not in given:
            return chosen
        return {"row": given["row"], "side": min(SIDE, given["row"] - 1)} | chosen

    def taps(self) -> Float[Tensor, "d w"]:
        return self.weight

    def lags(self) -> tuple[int, ...]:
        return self._lags


def lags(row: int, above: int, side: int, width: int) -> tuple[int, ...]:
    """How many tokens back each tap reads, in increasing order."""
    rows = {r * row - 1 + s for r in range(1, above + 1) for s in range(-side, side + 1)}
    return tuple(sorted(rows | set(range(width))))


def _check(row: int, above: int, side: int, width: int) -> None:
    for name, value, least in (
        ("row", row, 1),
        ("above", above, 0),
        ("side", side, 0),
        ("width", width, 1),
    ):
        if value < least:
            raise ValueError(f"{name}={value} must be at least {least}")
    if above and side >= row:
        raise ValueError(
            f"side={side} must be less than row={row}: further taps would read the future"
        )
