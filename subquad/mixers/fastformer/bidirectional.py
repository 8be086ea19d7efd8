"""Fastformer: additive attention. The sequence is pooled into one global query, then into one
global key, and tokens interact only with these two vectors, by element-wise products.

Wu, Wu, Qi, Huang, Xie, "Fastformer: Additive attention can be all you need", 2021 (arXiv
2108.09084), as released by its authors. With the paper's numbering, per head:

    Eq. (3)   α_i = softmax_i(w_qᵀ q_i / √d_head)
    Eq. (4)   q = Σ_i α_i q_i                      global query
    Eq. (5)   p_i = q ∗ k_i; β_i = softmax_i(w_kᵀ p_i / √d_head)
    Eq. (6)   k = Σ_i β_i p_i                      global key
    Eq. (7)   u_i = k ∗ v_i,  with v_i = q_i; output_i = W u_i + q_i

The defaults follow the released layer: values are the queries, the score vectors read the features
of *all* heads, the scale is √d_head, and the query is added to the output. The score projections
have no bias, since adding a constant to all scores does not change a softmax. Masked tokens get a
weight of exactly zero (the released code adds -10000, which large scores can outweigh).

Not in the paper: Eq. (5) and (6) can be omitted (``columns=1``) or repeated with further keys
(``columns=n``), and every other choice is an option (``fastformer/weights.py``). If ∗ is ``"add"``,
w_kᵀ q is the same for all tokens, so that β cannot depend on the global query.

Cost: O(t·d) besides the projections (three of d×d by default). The layer is bidirectional, because
α pools over the whole sequence; ``fastformer/causal.py`` is a different model.
"""

import math

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from subquad.errors import UsageError
from subquad.mixers.base import at_own_precision, zero_padding
from subquad.mixers.capabilities import PageLayer
from subquad.mixers.fastformer.native import additive_pool
from subquad.mixers.fastformer.weights import AdditiveAttention, Chain, meet
from subquad.mixers.native import core_serves_plainly
from subquad.mixers.pooling import pool, softmax_over_time
from subquad.shapes import Mask, Sequence


def additive_attention(chain: Chain, mask: Mask | None = None) -> Float[Tensor, "b t e"]:
    """The definition: u_i of Eq. (7), for any options (twice as wide with ``"concat"``)."""
    return meet(chain.interaction, pool(*scored(chain, mask)[-1], mask), chain.v)  # Eq. (7)


def scored(chain: Chain, mask: Mask | None = None) -> list[tuple[Sequence, Tensor]]:
    """What each column pools, ``[b, t, d]``, and its scores, ``[b, t, h]``: q and the scores of α,
    then p and the scores of β for every further column."""
    (q, *keys), (w_q, *w_keys) = chain.columns, chain.scores
    found = [(q, nn.functional.linear(q, w_q) / chain.scale)]  # Eq. (3)
    for c, (k, w_k) in enumerate(zip(keys, w_keys, strict=True), 1):
        global_vector = pool(*found[-1], mask)  # Eq. (4) # Eq. (6)
        p = meet(chain.interaction, global_vector, k, chain.joined(c))  # Eq. (5)
        found.append((p, nn.functional.linear(p, w_k) / chain.scale))  # Eq. (5)
    return found


@at_own_precision
def weighted_sum(weights: Float[Tensor, "b t h"], x: Sequence) -> Float[Tensor, "b 1 d"]:
    """Σ_i weights_i x_i, where each head weights its own features: one matrix product of all heads
    with all features, of which only the block diagonal is kept. This takes h times as many
    multiplications as necessary, but avoids a transposed copy of ``x``."""
    x = x.to(weights.dtype)
    h = weights.shape[-1]
    blocks = rearrange(weights.mT @ x, "b h (g k) -> b h g k", g=h)
    return rearrange(blocks.diagonal(dim1=1, dim2=2), "b k h -> b 1 (h k)")


def attend(
    x: Sequence, w: Float[Tensor, "rows h d"], mask: Mask | None = None
) -> Float[Tensor, "b 1 d"]:
    """Σ_i softmax_i(w x_i) x_i, where each head weights its own features, in fp32 or wider. ``w``
    is one per sequence, or one for all. One pass of the native core, where it is available."""
    w = w.expand(x.shape[0], -1, -1)
    if core_serves_plainly(x):
        return additive_pool(x, w, mask, attend_by_torch)
    return attend_by_torch(x, w, mask)


def attend_by_torch(
    x: Sequence, w: Float[Tensor, "b h d"], mask: Mask | None = None
) -> Float[Tensor, "b 1 d"]:
    x = zero_padding(x, mask)
    weights = softmax_over_time(x @ w.mT.to(x.dtype), mask)
    return weighted_sum(weights, x)


def fused(chain: Chain, w: Float[Tensor, "d d"], mask: Mask | None = None) -> Sequence:
    """W u_i of Eq. (7) where ∗ is the product, the fast form: columns and values are read once
    (columns twice without the native core) and nothing of their size is written but the result,
    because the global vectors are multiplied into the small matrices instead of the sequences.

    p is never computed: w_kᵀ p_i = (w_k ∗ q)ᵀ k_i, and Σ β_i p_i = q ∗ Σ β_i k_i. Nor is u: W u_i =
    (W diag(k)) v_i, or W (k ∗ v_i) where the sequence is shorter than W is wide.
    """
    assert chain.interaction == "product"
    q, *keys = chain.columns
    w_q, *w_keys = chain.scores
    w_q = w_q.unsqueeze(0) / chain.scale  # Eq. (3)
    global_vector = attend(q, w_q, mask)  # Eq. (4)
    for k, w_k in zip(keys, w_keys, strict=True):
        w_p = w_k * global_vector / chain.scale  # Eq. (5)
        global_vector = global_vector * attend(k, w_p, mask)  # Eq. (6)
    v = zero_padding(chain.v, mask)
    # A sequence may be smaller than the matrix; a graph, which takes any length, cannot branch.
    if not torch.compiler.is_compiling() and v.shape[1] < len(w):
        return nn.functional.linear(v * global_vector.to(v.dtype), w)  # Eq. (7)
    return v @ (w * global_vector).mT.to(v.dtype)  # Eq. (7)


class Fastformer(AdditiveAttention):
    """Additive attention over whole sequences, by default as released. Options are described in
    ``AdditiveAttention``."""

    def forward(self, x: Sequence, mask: Mask | None = None) -> Sequence:
        chain, w = self.chain(zero_padding(x, mask)), self.transform
        if self.interaction == "product":
            y = fused(chain, w.weight, mask)
            y = y + w.bias.to(y.dtype)
        else:
            y = w(additive_attention(chain, mask))
        if self.query_residual:
            y = y + chain.columns[0]
        return zero_padding(y, mask)  # Eq. (7)

    def scores(self, x: Sequence, mask: Mask | None = None) -> list[Float[Tensor, "b t h"]]:
        chain = self.chain(zero_padding(x, mask)).wide()
        return [scores for _, scores in scored(chain, mask)]

    def page_layer(self) -> PageLayer:
        switches = {
            "columns": self.columns == 2,
            "query_residual": self.query_residual,
            "value": not self.own_value,
            "interaction": self.interaction == "product",
            "score_over": not self.own_head,
            "scale": self.scale == math.sqrt(self.d // self.score_q.out_features),
        }
        changed = [name for name, usual in switches.items() if not usual]
        if changed:
            raise UsageError(
                f"fastformer has a non-default {' and '.join(changed)}; a web page supports only "
                "the defaults; use --to onnx instead"
            )
        parts = ("qk", "score_q", "score_k", "transform")
        return PageLayer(
            "fastformer", {"heads": self.score_q.out_features}, {part: part for part in parts}
        )
