"""Linear attention by the C++ core, with the signatures of the pure-torch forms."""

import torch
from torch import Tensor

from subquad.mixers.linear.feature_maps import FeatureMap, elu_plus_one, relu
from subquad.mixers.linear.parts import LinearState
from subquad.shapes import Heads, Mask, Values


def native(
    q: Heads,
    k: Heads,
    v: Values,
    *,
    phi: FeatureMap = elu_plus_one,
    mask: Mask | None = None,
    state: LinearState | None = None,
    decay: Tensor | None = None,
) -> tuple[Values, LinearState]:
    """One pass each for forward and backward, saving only the inputs for the gradient. CPU only.

    Raises:
        RuntimeError: the core is not in use; ``subquad.kernels.status()`` says why.
    """
    from subquad.kernels import causal_linear_attention

    q, k, name = _for_core(q, k, phi)
    out, (s, z) = causal_linear_attention(
        q, k, v, feature_map=name, mask=mask, state=state, decay=decay
    )
    return out, LinearState(s=s, z=z)


def native_bidirectional(
    q: Heads, k: Heads, v: Values, *, phi: FeatureMap = elu_plus_one, mask: Mask | None = None
) -> Values:
    """Eq. (5) by the C++ core. CPU only; raises the same errors as ``native``."""
    from subquad.kernels import linear_attention

    q, k, name = _for_core(q, k, phi)
    return linear_attention(q, k, v, feature_map=name, mask=mask)


#: Maps that the core applies itself. Others are applied here, and the core is given the features.
CORE_MAPS: dict[FeatureMap, str] = {elu_plus_one: "elu+1", relu: "relu"}


def _for_core(q: Heads, k: Heads, phi: FeatureMap) -> tuple[Heads, Heads, str]:
    if phi in CORE_MAPS:
        return q, k, CORE_MAPS[phi]
    dtype = torch.promote_types(q.dtype, torch.float32)
    return phi(q.to(dtype)), phi(k.to(dtype)), "identity"
