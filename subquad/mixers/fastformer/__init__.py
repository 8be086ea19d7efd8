"""Fastformer (Wu et al. 2021). The paper's layer and its equations are in ``bidirectional``, their
causal counterpart over prefixes in ``causal``; the weights and options of both are in
``weights``."""

from subquad.mixers.fastformer.bidirectional import Fastformer
from subquad.mixers.fastformer.causal import CausalFastformer, PooledState

__all__ = ["CausalFastformer", "Fastformer", "PooledState"]
