"""The transforms that FNet can use, each as real matrix products and as a fast algorithm.

For a sequence x of n tokens and width d, with C and S the matrices cos(2πjk/n) and sin(2πjk/n), D
the matrix cos(π(2j+1)k/2n) and W the Walsh–Hadamard matrix (-1)^|j & k|, none of them normalised:

    Eq. (1)   fourier    y = C_n x C_d - S_n x S_d            the real part of the 2D DFT
    Eq. (2)   hartley    y = C_n x (C_d + S_d) + S_n x (C_d - S_d)     real minus imaginary part
    Eq. (3)   dct        y = D_n x D_dᵀ                       DCT-II
    Eq. (4)   hadamard   y = W_n x W_d
    Eq. (5)   sequence   y = C_n x                            the real part of the DFT over tokens

W exists for powers of two only; any other n uses the leading block of the next one, which is the
same as padding with zeros, transforming and truncating. Everything is fp32 (or fp64 if given).
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from subquad.mixers.base import at_own_precision
from subquad.mixers.fnet.native import half_spectrum
from subquad.mixers.native import core_serves_plainly
from subquad.shapes import Mask, Sequence


def wide(x: Tensor) -> Tensor:
    """``x`` in fp32 or wider: the output is about √(n·d) times as large, and there is no FFT in
    half precision."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


#: Up to this many points, four times the product of two indices is exact in fp32.
EXACT_MAX = 2048


class Axis:
    """The matrices of one axis of ``n`` points (one number, or one per sequence), restricted to the
    points ``index``. Angles are reduced modulo 2π as integers, so that they stay exact."""

    def __init__(
        self, n: Int[Tensor, "*b"], index: Int[Tensor, "*b t"], dtype: torch.dtype
    ) -> None:
        small = not torch.compiler.is_exporting() and index.shape[-1] <= EXACT_MAX
        counting = dtype if small else torch.float64  # several times as fast as integers
        self.n = n.clamp(min=1)[..., None, None].to(counting)
        self.row, self.column = index.unsqueeze(-1), index.unsqueeze(-2)
        self.places = (self.row.to(counting), self.column.to(counting))
        self.dtype = dtype

    def _turns(self, steps: Tensor, whole: Tensor) -> Tensor:
        return (torch.fmod(steps, whole) * (2 * math.pi / whole)).to(self.dtype)

    @property
    def cos(self) -> Tensor:
        return self._turns(self.places[0] * self.places[1], self.n).cos()

    @property
    def sin(self) -> Tensor:
        return self._turns(self.places[0] * self.places[1], self.n).sin()

    @property
    def dct(self) -> Tensor:
        return self._turns(self.places[0] * (2 * self.places[1] + 1), 4 * self.n).cos()

    @property
    def hadamard(self) -> Tensor:
        bits = self.row & self.column
        for shift in (32, 16, 8, 4, 2, 1):  # parity of the number of ones
            bits = bits ^ (bits >> shift)
        return (1 - 2 * (bits & 1)).to(self.dtype)


def products(x: Sequence, time: Axis, hidden: Axis, transform: str) -> Sequence:
    """The transform as real matrix products."""
    if transform == "fourier":
        return time.cos @ x @ hidden.cos - time.sin @ x @ hidden.sin  # Eq. (1)
    if transform == "hartley":
        c, s = hidden.cos, hidden.sin
        return time.cos @ x @ (c + s) + time.sin @ x @ (c - s)  # Eq. (2)
    if transform == "dct":
        return time.dct @ x @ hidden.dct.mT  # Eq. (3)
    if transform == "hadamard":
        return time.hadamard @ x @ hidden.hadamard  # Eq. (4)
    assert transform == "sequence", transform
    return time.cos @ x  # Eq. (5)


@at_own_precision
def definition(x: Sequence, mask: Mask | None = None, transform: str = "fourier") -> Sequence:
    """Each sequence at its own length, its real tokens taken in order, by real matrix products."""
    x = wide(x)
    places = torch.arange(x.shape[2], device=x.device)
    hidden = Axis(torch.tensor(x.shape[2], device=x.device), places, x.dtype)
    if mask is None:
        t = torch.arange(x.shape[1], device=x.device)
        n = torch.full((), x.shape[1], dtype=torch.int64, device=x.device)
        return products(x, Axis(n, t, x.dtype), hidden, transform)
    x = x.masked_fill(~mask.unsqueeze(-1), 0)
    time = Axis(mask.sum(1), (mask.cumsum(1) - 1).clamp(min=0), x.dtype)
    return products(x, time, hidden, transform).masked_fill(~mask.unsqueeze(-1), 0)


def whole_spectrum(x: Sequence) -> Sequence:
    """Eq. (1) by one two-dimensional FFT."""
    return torch.fft.fftn(x, dim=(1, 2)).real  # Eq. (1)


def fourier(x: Sequence) -> Sequence:
    """Eq. (1), from half of the spectrum where the native core is available, in half the time."""
    return half_spectrum(x, hartley=False) if core_serves_plainly(x) else whole_spectrum(x)


def hartley(x: Sequence) -> Sequence:
    """Eq. (2), likewise."""
    if core_serves_plainly(x):
        return half_spectrum(x, hartley=True)
    spectrum = torch.fft.fftn(x, dim=(1, 2))
    return spectrum.real - spectrum.imag  # Eq. (2)


def dct(x: Sequence) -> Sequence:
    """Eq. (3), one axis after the other."""
    return _dct(_dct(x).mT).mT  # Eq. (3)


def _dct(x: Float[Tensor, "b t n"]) -> Float[Tensor, "b t n"]:
    """DCT-II of the last axis by one FFT of the even entries followed by the odd ones in reverse
    (Makhoul, 1980)."""
    n = x.shape[-1]
    spectrum = torch.fft.fft(torch.cat([x[..., ::2], x[..., 1::2].flip(-1)], dim=-1))
    angle = torch.arange(n, device=x.device, dtype=x.dtype) * (-math.pi / (2 * n))
    return spectrum.real * angle.cos() - spectrum.imag * angle.sin()


def hadamard(x: Sequence) -> Sequence:
    """Eq. (4), one axis after the other."""
    return _hadamard(_hadamard(x).mT).mT  # Eq. (4)


def _hadamard(x: Float[Tensor, "b t n"]) -> Float[Tensor, "b t n"]:
    """Walsh–Hadamard transform of the last axis, zero-padded to a power of two and truncated."""
    n = x.shape[-1]
    size = 1 << (n - 1).bit_length()
    y = torch.nn.functional.pad(x, (0, size - n))
    half = 1
    while half < size:
        a, b = y.unflatten(-1, (-1, 2, half)).unbind(-2)
        y = torch.stack([a + b, a - b], dim=-2).flatten(-3)
        half *= 2
    return y[..., :n]


def sequence(x: Sequence) -> Sequence:
    """Eq. (5) by an FFT over the tokens only."""
    return torch.fft.fft(x, dim=1).real  # Eq. (5)


FAST: dict[str, Callable[[Sequence], Sequence]] = {
    "fourier": fourier,
    "hartley": hartley,
    "dct": dct,
    "hadamard": hadamard,
    "sequence": sequence,
}
TRANSFORMS = tuple(FAST)


@at_own_precision
def full(x: Sequence, transform: str = "fourier") -> Sequence:
    """The transform of sequences without padding, by the fast algorithm."""
    x = wide(x)
    return FAST[transform](x) if x.numel() else x  # torch raises on empty tensors
