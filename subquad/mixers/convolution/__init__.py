"""Depthwise convolutions: ``layers`` has both mixers, ``depthwise`` what they are made of."""

from subquad.mixers.convolution.layers import CausalConvolution, Convolution

__all__ = ["CausalConvolution", "Convolution"]
