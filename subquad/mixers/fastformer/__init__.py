"""Fastformer (Wu et al. 2021). Its equations stand in ``bidirectional``, the paper's layer, and
over prefixes in ``causal``; ``weights`` has what both are made of, and the switches."""

from subquad.mixers.fastformer.bidirectional import Fastformer
from subquad.mixers.fastformer.causal import CausalFastformer, PooledState

__all__ = ["CausalFastformer", "Fastformer", "PooledState"]
