"""Linear attention (Katharopoulos et al. 2020): ``forms`` has the equations and every way to
compute them, ``layers`` the two mixers."""

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
