"""FNet: mixing by a Fourier transform, without any parameter.

Lee-Thorp, Ainslie, Eckstein, Ontañón, "FNet: Mixing Tokens with Fourier Transforms", NAACL 2022
(arXiv 2105.03824). For a row x of n tokens, with no normalisation factor:

    Eq. (1)   X_k = Σ_j x_j exp(-2πi·jk/n)                    the DFT
    Eq. (3)   y = Re(F_seq(F_hidden(x)))

With C and S the matrices cos(2πjk/n) and sin(2πjk/n), Eq. (3) is real arithmetic:
y = C_n x C_d - S_n x S_d. Cost: O(t·d·log(t·d)), and no weights.

Padding. The paper pads every row to one fixed length and transforms the padding with the text
(``padding="fixed"``, which therefore needs ``length`` and refuses any other). By default each row
is transformed at its *own* length, the real tokens taken in order, so that neither padding nor
batch-mates can change a result.

Numbers. The output is about √(n·d) times the input, and half precision has no FFT: everything
here is fp32 (fp64 stays), whatever the activations are.
"""

import math
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from subquad.mixers.base import Mixer, at_own_precision
from subquad.shapes import Mask, Sequence

#: Up to this many tokens a product with DFT matrices beats transforming group by group.
PRODUCT_MAX = 512


def _angles(n: Int[Tensor, "*b"], index: Int[Tensor, "*b t"], dtype: torch.dtype) -> Tensor:
    """2π·jk/n for all pairs of ``index``, reduced modulo n in integers so that it stays exact."""
    jk = index.unsqueeze(-1) * index.unsqueeze(-2) % n[..., None, None].clamp(min=1)
    return jk.to(dtype) * (2 * math.pi / n.clamp(min=1).to(dtype))[..., None, None]


@at_own_precision
def definition(x: Sequence, mask: Mask | None = None) -> Sequence:
    """Eq. (3) as four real matrix products, each row at its own length."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    real = torch.ones_like(x[..., 0], dtype=torch.bool) if mask is None else mask
    wide = wide.masked_fill(~real.unsqueeze(-1), 0)
    time = _angles(real.sum(1), real.cumsum(1) - 1, wide.dtype)
    d = torch.tensor(x.shape[2], device=x.device)
    hidden = _angles(d, torch.arange(x.shape[2], device=x.device), wide.dtype)
    y = time.cos() @ wide @ hidden.cos() - time.sin() @ wide @ hidden.sin()  # Eq. (1) # Eq. (3)
    return y.masked_fill(~real.unsqueeze(-1), 0)


#: From this many tokens on, half a spectrum is faster than all of it (results/bench.json).
HALF_FROM = 16384


@at_own_precision
def full(x: Sequence) -> Sequence:
    """Eq. (3) over rows without padding, by the fast transform that is fastest at this shape."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    if wide.numel() == 0:
        return wide  # torch refuses to transform nothing
    return half_spectrum(wide) if x.shape[1] >= HALF_FROM else whole_spectrum(wide)


def whole_spectrum(x: Sequence) -> Sequence:
    """Eq. (3) by one two-dimensional transform."""
    return torch.fft.fftn(x, dim=(1, 2)).real  # Eq. (3)


def half_spectrum(x: Sequence) -> Sequence:
    """Eq. (3) from half of the hidden spectrum: X[-i, -j] is the conjugate of X[i, j]."""
    d = x.shape[2]
    left = torch.fft.fft(torch.fft.rfft(x, dim=2), dim=1).real  # Eq. (3)
    mirrored = left[:, :, 1 : (d + 1) // 2].flip(2)
    right = torch.cat([mirrored[:, :1], mirrored[:, 1:].flip(1)], dim=1)
    return torch.cat([left, right], dim=2)


def _mirrored(even: Float[Tensor, "b t half"], odd: Float[Tensor, "b t half"], d: int) -> Sequence:
    """All ``d`` columns from the half spectrum's cosine part and sine part: columns j and d-j
    differ in the sign of the sine part only."""
    right = (even - odd)[..., 1 : (d + 1) // 2].flip(-1)
    return torch.cat([even + odd, right], dim=-1)


@at_own_precision
def by_products(x: Sequence, mask: Mask) -> Sequence:
    """Own-length transform: fast over hidden, DFT matrices over time. Best for short rows."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32)).masked_fill(~mask.unsqueeze(-1), 0)
    half = torch.fft.rfft(wide, dim=2)
    angle = _angles(mask.sum(1), mask.cumsum(1) - 1, wide.dtype)
    y = _mirrored(angle.cos() @ half.real, angle.sin() @ half.imag, x.shape[2])  # Eq. (3)
    return y.masked_fill(~mask.unsqueeze(-1), 0)


def by_groups(x: Sequence, mask: Mask) -> Sequence:
    """Own-length transform: rows of equal length go through the fast transform together."""
    lengths = mask.sum(1)
    y = torch.zeros_like(x, dtype=torch.promote_types(x.dtype, torch.float32))
    for n in lengths.unique().tolist():
        if n == 0:
            continue
        group = mask & (lengths == n).unsqueeze(1)
        rows = x[group].unflatten(0, (-1, n))
        y = y.masked_scatter(group.unsqueeze(-1), full(rows))
    return y


class FNet(Mixer):
    """Fourier mixing, Eq. (3).

    Args: ``d`` width; ``padding`` ``"own-length"`` or the paper's ``"fixed"``; ``length`` the one
    length that ``"fixed"`` is made for.
    """

    def __init__(
        self,
        d: int,
        *,
        padding: Literal["own-length", "fixed"] = "own-length",
        length: int | None = None,
    ) -> None:
        super().__init__()
        self.d = d
        if padding not in ("own-length", "fixed"):
            raise ValueError(f"padding={padding!r} is not one of own-length, fixed")
        if (length is not None) != (padding == "fixed"):
            raise ValueError(
                f"padding={padding!r} with length={length}: fixed needs a length, "
                "own-length has none"
            )
        self.fixed_length = length

    def forward(self, x: Sequence, mask: Mask | None = None) -> Sequence:
        """Under ``padding="fixed"`` the mask is not needed: padding takes part, as in the paper.

        Raises:
            ValueError: ``padding="fixed"`` and another length than the mixer was made for.
        """
        if self.fixed_length is not None:
            if x.shape[1] != self.fixed_length:
                raise ValueError(f"fnet is fixed to length {self.fixed_length}, found {x.shape[1]}")
            return full(x).to(x.dtype)
        if mask is None:
            return full(x).to(x.dtype)
        if torch.compiler.is_exporting():  # a graph cannot choose by what the mask holds
            return by_products(x, mask).to(x.dtype)
        if bool(mask.all()):
            return full(x).to(x.dtype)
        form = by_products if x.shape[1] <= PRODUCT_MAX else by_groups
        return form(x, mask).to(x.dtype)
