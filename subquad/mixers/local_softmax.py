"""Local softmax attention: every token reads its neighbours.

Beltagy, Peters, Cohan, "Longformer", 2020 (arXiv 2004.05150), section 3.1, without global tokens;
the local layers of ModernBERT. With w neighbours on each side, counted over real tokens:

    Eq. (2)   V'_i = softmax_j(Q_i K_jᵀ / √k) V_j over |i - j| ≤ w

Cost: O(t·w·k) time and O(t·w) memory in blocks of w tokens, each of which reads itself and its
neighbours.
"""

import copy

import torch
from jaxtyping import Bool
from torch import Tensor

from subquad.errors import UsageError
from subquad.mixers.base import Mixer, at_own_precision, zero_padding
from subquad.mixers.capabilities import Channel, Explanation, GraphForm
from subquad.mixers.linear.windowed import Blocks, compact, near_blocks, spread
from subquad.mixers.projections import Biases, Projections
from subquad.mixers.softmax import attention_map, definition
from subquad.shapes import Heads, Mask, Sequence, Values


class LocalAttention(Mixer):
    """Bidirectional local attention, Eq. (2).

    Args:
        d: model width, a multiple of ``heads``.
        heads: number of attention heads.
        width: w, neighbours on each side.
        form: ``"blocks"``; ``"quadratic"``, the definition; or ``"auto"``: blocks, and the
            definition under ``torch.export``, as blocks would fix the length of a graph.
        kv_heads, biases, rotary: as for ``Projections``.

    Raises:
        ValueError: the width is below 1, or an unknown form.
    """

    local = True

    def __init__(
        self,
        d: int,
        *,
        heads: int,
        width: int = 64,
        form: str = "auto",
        kv_heads: int | None = None,
        biases: Biases = "all",
        rotary: float | None = None,
    ) -> None:
        super().__init__(d)
        if not isinstance(width, int) or isinstance(width, bool) or width < 1:
            raise ValueError(f"width={width!r} must be a number of tokens, at least 1")
        if form not in ("auto", "blocks", "quadratic"):
            raise ValueError(f"form={form!r} is not one of auto, blocks, quadratic")
        self.width, self.form = width, form
        self.projections = Projections(d, heads, kv_heads=kv_heads, biases=biases, rotary=rotary)

    def forward(self, x: Sequence, mask: Mask | None = None) -> Sequence:
        if x.shape[1] == 0:
            return x
        if self._defines():
            q, k, v = self.projections.split(zero_padding(x, mask), mask)
            y = definition(q, k, v, _near(x, mask, self.width))  # Eq. (2)
            return zero_padding(self.projections.merge(y), mask)
        real = x.new_ones(x.shape[:2], dtype=torch.bool)
        first = x
        if mask is not None:
            first, real = compact(zero_padding(x, mask), mask)
        q, k, v = self.projections.split(first, real)
        y = self.projections.merge(in_blocks(q, k, v, real, self.width))
        return y if mask is None else zero_padding(spread(y, mask), mask)

    def _defines(self) -> bool:
        return self.form == "quadratic" or (self.form == "auto" and torch.compiler.is_exporting())

    def explain(self, x: Sequence, mask: Mask | None = None) -> Explanation:
        q, k, _ = self.projections.split(zero_padding(x, mask), mask)
        allowed = _near(x, mask, self.width)
        if mask is not None:
            allowed = allowed & mask.unsqueeze(2)
        maps = attention_map(q, k, allowed)
        return Explanation({"attention received": Channel.of(maps.sum(2).mT)}, attention=maps)

    def for_graph(self, form: GraphForm) -> Mixer:
        if form == "operator":
            raise UsageError("ONNX has no operator for local attention: omit it")
        made = copy.copy(self)
        made.form = "quadratic"
        return made


@at_own_precision
def in_blocks(q: Heads, k: Heads, v: Values, real: Mask, width: int) -> Values:
    """The fast form; the real tokens of each row come first."""
    wide = torch.promote_types(q.dtype, torch.float32)
    blocks = Blocks(q.shape[2], width, after=True)
    y, _ = near_blocks(q.to(wide), k.to(wide), v.to(wide), real, blocks, band=width)
    return y.to(v.dtype)


def _near(x: Tensor, mask: Mask | None, width: int) -> Bool[Tensor, "b t t"]:
    """Which keys each query may read: real ones that are near, padding not being counted."""
    b, t = x.shape[:2]
    real = x.new_ones(b, t, dtype=torch.bool) if mask is None else mask
    at = real.cumsum(1)
    return ((at.unsqueeze(2) - at.unsqueeze(1)).abs() <= width) & real.unsqueeze(1)
