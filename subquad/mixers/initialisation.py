"""Weight initialisation that several packages share."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


def lecun_normal(n: int) -> Float[Tensor, "n n"]:
    """A normal distribution of variance 1/n, truncated at two standard deviations, as in flax."""
    drawn = torch.empty(n, n)
    nn.init.trunc_normal_(drawn, std=1.0, a=-2.0, b=2.0)
    return drawn / (0.87962566103423978 * math.sqrt(n))
