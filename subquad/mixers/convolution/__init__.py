"""Depthwise convolutions: the two mixers are in ``layers``, what they share in ``depthwise``."""

from subquad.mixers.convolution.layers import CausalConvolution, Convolution

__all__ = ["CausalConvolution", "Convolution"]
