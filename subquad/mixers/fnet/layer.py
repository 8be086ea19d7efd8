"""FNet: token mixing by a Fourier transform, without any parameters.

Lee-Thorp, Ainslie, Eckstein, Ontañón, "FNet: Mixing Tokens with Fourier Transforms", NAACL 2022
(arXiv 2105.03824). For a sequence x of n tokens, with no normalisation factor:

    Eq. (3)   y = Re(F_seq(F_hidden(x)))

With C and S the matrices cos(2πjk/n) and sin(2πjk/n), Eq. (3) is real arithmetic:
y = C_n x C_d - S_n x S_d. Cost: O(t·d·log(t·d)), and no weights. The alternatives that the paper
compares (Hartley, DCT, Hadamard, Fourier over the sequence only) are in ``fnet/transforms.py``.

Padding. The paper pads all sequences to one fixed length and transforms the padding along with the
text (``padding="fixed"``, which needs ``length`` and accepts no other). By default each sequence is
transformed at its *own* length, its real tokens taken in order, so that neither padding nor the
rest of the batch can change the result.

Precision. The output is about √(n·d) times as large as the input, and there is no FFT in half
precision, so everything here is computed in fp32 (or fp64 if given), whatever the activations are.
"""

import copy
import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from subquad.errors import UsageError
from subquad.mixers.base import Mixer, at_own_precision
from subquad.mixers.capabilities import Explanation, GraphForm, PageLayer
from subquad.mixers.fnet.transforms import TRANSFORMS, Axis, definition, full, wide
from subquad.shapes import Mask, Sequence

#: Up to this many tokens, multiplying by DFT matrices is faster than one FFT per sequence length.
PRODUCT_MAX = 512


def _mirrored(even: Float[Tensor, "b t half"], odd: Float[Tensor, "b t half"], d: int) -> Sequence:
    """All ``d`` columns from the cosine and sine parts of the half spectrum: columns j and d-j
    differ only in the sign of the sine part."""
    right = (even - odd)[..., 1 : (d + 1) // 2].flip(-1)
    return torch.cat([even + odd, right], dim=-1)


@at_own_precision
def by_products(x: Sequence, mask: Mask) -> Sequence:
    """Own-length transform with an FFT over the features and DFT matrices over time. Best for short
    sequences."""
    x = wide(x).masked_fill(~mask.unsqueeze(-1), 0)
    half = torch.fft.rfft(x, dim=2)
    time = Axis(mask.sum(1), (mask.cumsum(1) - 1).clamp(min=0), x.dtype)
    real, imaginary = half.real.contiguous(), half.imag.contiguous()  # for matrix products
    y = _mirrored(time.cos @ real, time.sin @ imaginary, x.shape[2])  # Eq. (3)
    return y.masked_fill(~mask.unsqueeze(-1), 0)


def by_groups(x: Sequence, mask: Mask, transform: str = "fourier") -> Sequence:
    """Own-length transform with one FFT for all sequences of the same length."""
    lengths = mask.sum(1)
    y = torch.zeros_like(x, dtype=torch.promote_types(x.dtype, torch.float32))
    for n in lengths.unique().tolist():
        if n == 0:
            continue
        group = mask & (lengths == n).unsqueeze(1)
        rows = x[group].unflatten(0, (-1, n))
        y = y.masked_scatter(group.unsqueeze(-1), full(rows, transform))
    return y


class FNet(Mixer):
    """Fourier mixing, Eq. (3), or one of the alternative transforms.

    Args:
        d: model width.
        padding: ``"own-length"``, or ``"fixed"`` as in the paper.
        length: the sequence length, with ``padding="fixed"`` only.
        transform: one of ``TRANSFORMS``.
        form: ``"auto"`` for the fastest, or ``"products"`` for matrix products only, without FFT.
    """

    def __init__(
        self,
        d: int,
        *,
        padding: str = "own-length",
        length: int | None = None,
        transform: str = "fourier",
        form: str = "auto",
    ) -> None:
        super().__init__(d)
        for name, value, known in (
            ("padding", padding, ("own-length", "fixed")),
            ("transform", transform, TRANSFORMS),
            ("form", form, ("auto", "products")),
        ):
            if value not in known:
                raise ValueError(f"{name}={value!r} is not one of {', '.join(known)}")
        if (length is not None) != (padding == "fixed"):
            raise ValueError(
                f"padding={padding!r} with length={length}: 'fixed' needs a length, "
                "'own-length' takes none"
            )
        self.fixed_length = length
        self.transform = transform
        self.form = form

    def forward(self, x: Sequence, mask: Mask | None = None) -> Sequence:
        """With ``padding="fixed"`` the mask is ignored: padding takes part, as in the paper.

        Raises:
            ValueError: ``padding="fixed"``, and ``x`` does not have that length.
        """
        if self.fixed_length is not None:
            # An exported graph cannot check this; there, the model has padded the sequence.
            if not torch.compiler.is_exporting() and x.shape[1] != self.fixed_length:
                raise ValueError(f"fnet is fixed to length {self.fixed_length}, found {x.shape[1]}")
            mask = None
        return self._mixed(x, mask).to(x.dtype)

    @classmethod
    def completed(cls, chosen: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        fixed = chosen.get("padding") == "fixed" and "length" in given
        return ({"length": given["length"]} if fixed else {}) | chosen

    def explain(self, x: Sequence, mask: Mask | None = None) -> Explanation:  # noqa: ARG002
        return Explanation(frequencies=True)

    def operations(self, length: int) -> float:
        """5/2 · n · log₂ n for a real FFT of n numbers; torch itself counts matrix products."""
        if self.transform != "fourier" or self.form != "auto":
            return 0.0
        n = (self.fixed_length or length) * self.d
        return 2.5 * n * math.log2(n)

    def for_graph(self, form: GraphForm) -> Mixer:  # noqa: ARG002
        """As matrix products: ONNX's DFT operator is slow, where a runtime has it at all."""
        made = copy.copy(self)
        made.form = "products"
        return made

    def page_layer(self) -> PageLayer:
        has = (
            "a web page supports only the Fourier transform at a text's own length; "
            "use --to onnx instead"
        )
        if self.fixed_length is not None:
            raise UsageError(f"fnet was trained with padding=fixed; {has}")
        if self.transform != "fourier":
            raise UsageError(f"fnet was trained with transform={self.transform}; {has}")
        return PageLayer("fnet")

    def _mixed(self, x: Sequence, mask: Mask | None) -> Sequence:
        if self.form == "products":
            return definition(x, mask, self.transform)
        # A graph cannot branch on the values of the mask.
        graph = torch.compiler.is_compiling()
        if mask is None or (not graph and bool(mask.all())):
            return full(x, self.transform)
        if graph or x.shape[1] <= PRODUCT_MAX:
            if self.transform == "fourier":
                return by_products(x, mask)
            return definition(x, mask, self.transform)
        return by_groups(x, mask, self.transform)
