"""Masked convolution: the neighbours in a picture, of which the later ones are not known yet.

Van den Oord, Kalchbrenner, Kavukcuoglu, "Pixel Recurrent Neural Networks", ICML 2016 (arXiv
1601.06759), masked convolutions, here depthwise. A picture is read in raster order, in rows of
``row`` values; the token at i is the last one known when the next is to be told. For channel c:

    y_i,c = Σ_{j<w} W_j,c x_{i-j},c  +  Σ_{r=1..a} Σ_{s=-n..n} W_r,s,c x_{i+1-r·row+s},c

the last w tokens, and from each of the a rows above those up to n to the left and to the right of
the place that comes next. A tap that leaves the picture at a side reads the row before or after.
Cost: O(t·d·(w + a(2n+1))); the state is the last a·row + n - 1 inputs.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from subquad.mixers.convolution.depthwise import DepthwiseConvolution

#: Values in a row, where no picture says it (MNIST's); rows above; to either side; in the own row.
ROW, ABOVE, SIDE, WIDTH = 28, 4, 3, 4


class MaskedConvolution(DepthwiseConvolution):
    """What is near in a picture, as far as it is known.

    Args: ``d`` width of the model; ``row`` values in a row of the picture (its width times its
    channels); ``above`` rows a; ``side`` n; ``width`` last tokens w.

    Raises:
        ValueError: a size that cannot be, or with which a tap would lie in what is not known yet.
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
        """A row as long as the picture's; in narrow ones it looks less far to the sides."""
        if "row" not in given:
            return chosen
        return {"row": given["row"], "side": min(SIDE, given["row"] - 1)} | chosen

    def taps(self) -> Float[Tensor, "d w"]:
        return self.weight

    def lags(self) -> tuple[int, ...]:
        return self._lags


def lags(row: int, above: int, side: int, width: int) -> tuple[int, ...]:
    """How many tokens back each tap reads, the least first."""
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
        raise ValueError(f"side={side} must be less than a row, row={row}: the rest is not known")
