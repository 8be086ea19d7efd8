"""Linear attention (Katharopoulos et al. 2020): the equations and all ways to compute them are in
``forms``, the two mixers in ``layers``."""

from subquad.mixers.linear.forms import (
    BIDIRECTIONAL_FORMS,
    CAUSAL_FORMS,
    bidirectional,
    chunked,
    empty_state,
    quadratic,
    recurrent,
)
from subquad.mixers.linear.layers import CausalLinearAttention, LinearAttention
from subquad.mixers.linear.parts import LinearState

__all__ = [
    "BIDIRECTIONAL_FORMS",
    "CAUSAL_FORMS",
    "CausalLinearAttention",
    "LinearAttention",
    "LinearState",
    "bidirectional",
    "chunked",
    "empty_state",
    "quadratic",
    "recurrent",
]
