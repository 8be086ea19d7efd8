"""Feature maps φ of linear attention, which define the similarity sim(q, k) = φ(q)·φ(k).

Eq. (3) of Katharopoulos et al. 2020 requires only that sim ≥ 0. With a map that can be negative the
normaliser could cross zero, so no such maps are offered.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

FeatureMap: TypeAlias = Callable[[Tensor], Tensor]


def elu_plus_one(x: Tensor) -> Tensor:
    """φ(x) = elu(x) + 1, Eq. (7), computed as exp(x) on the negative side.

    Computed literally, ``elu(x) + 1`` rounds to zero in bf16 for x ≤ -6; ``exp(x)`` keeps its
    precision wherever the dtype can represent it. Value and gradient at zero are both 1.
    """
    return torch.relu(x) + torch.exp(x.clamp(max=0))


def relu(x: Tensor) -> Tensor:
    """φ(x) = max(x, 0): sparse features; a token whose features are all zero has no effect."""
    return torch.relu(x)


def squared_relu(x: Tensor) -> Tensor:
    """φ(x) = max(x, 0)²: sharper than ReLU, and smooth at zero."""
    return torch.relu(x).square()


def softmax(x: Tensor) -> Tensor:
    """φ(x) = softmax over the features: each token distributes a weight of 1 over the state's
    rows."""
    return torch.softmax(x, dim=-1)


FEATURE_MAPS: dict[str, FeatureMap] = {
    "elu+1": elu_plus_one,
    "relu": relu,
    "relu^2": squared_relu,
    "softmax": softmax,
}
