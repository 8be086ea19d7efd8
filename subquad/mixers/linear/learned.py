"""Feature maps with parameters, one for the queries and one for the keys of each head.

Hedgehog (Zhang et al. 2024, arXiv 2402.04347) imitates softmax attention: with weights W and biases
b of its own for every head,

    Eq. (H1)   φ(x) = [softmax(x W + b), softmax(-x W - b)]

has 2k features for heads of width k, all of them positive. At the start, W = I and b = 0. The map
can learn sharp weights, which elu + 1 cannot; it is meant for models that are converted from
softmax attention (``subquad.conversion``). There is no 1/√k scale in it: with k^(-1/4) on queries
and keys, it imitates softmax attention less well from the start (``LOG.md``).

T2R (Kasai et al. 2021, arXiv 2103.13076) is the simpler map, with k features for heads of width k,

    Eq. (T1)   φ(x) = relu(x W + b)

and W = I and b = 0 at the start too. All its features may be zero, which the divisor allows.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from subquad.mixers.base import at_own_precision
from subquad.mixers.linear.feature_maps import FEATURE_MAPS, FeatureMap
from subquad.shapes import Heads

#: f features for every query or key.
Mapped: TypeAlias = Float[Tensor, "b h t f"]


class Affine(nn.Module):
    """x W + b, with weights of its own for every head. W = I and b = 0 at the start.

    Args:
        heads: number of heads.
        k: width of a head.
    """

    def __init__(self, heads: int, k: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(k).repeat(heads, 1, 1))
        self.bias = nn.Parameter(torch.zeros(heads, 1, k))

    def affine(self, x: Heads) -> Heads:
        """In fp32 or wider."""
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        return x @ self.weight.to(x.dtype) + self.bias.to(x.dtype)


class Hedgehog(Affine):
    """φ of Eq. (H1)."""

    @at_own_precision
    def forward(self, x: Heads) -> Mapped:
        """``[b, h, t, k]`` → ``[b, h, t, 2k]`` in fp32 or wider."""
        y = self.affine(x)
        return torch.cat([y.softmax(-1), (-y).softmax(-1)], dim=-1)  # Eq. (H1)


class T2R(Affine):
    """φ of Eq. (T1)."""

    @at_own_precision
    def forward(self, x: Heads) -> Heads:
        """``[b, h, t, k]`` → ``[b, h, t, k]`` in fp32 or wider."""
        return torch.relu(self.affine(x))  # Eq. (T1)


#: Learned maps by name.
LEARNED_MAPS: dict[str, Callable[[int, int], nn.Module]] = {"hedgehog": Hedgehog, "t2r": T2R}
#: The one that imitates softmax attention best.
LEARNED = "hedgehog"


class Maps(nn.Module):
    """The feature map of a mixer, fixed or learned.

    Args:
        name: one of ``FEATURE_MAPS`` or ``LEARNED_MAPS``.
        heads: number of heads.
        k: width of a head.

    Raises:
        ValueError: there is no such map; the message lists the known ones.
    """

    phi: FeatureMap
    """What is left to apply to what ``forward`` returns: a fixed map, or nothing."""

    def __init__(self, name: str, heads: int, k: int) -> None:
        super().__init__()
        if name not in FEATURE_MAPS and name not in LEARNED_MAPS:
            known = ", ".join([*FEATURE_MAPS, *LEARNED_MAPS])
            raise ValueError(f"feature_map={name!r} is not one of {known}")
        self.name = name
        self.learned = name in LEARNED_MAPS
        self.phi = identity if self.learned else FEATURE_MAPS[name]
        if self.learned:
            self.q, self.k = LEARNED_MAPS[name](heads, k), LEARNED_MAPS[name](heads, k)

    def forward(self, q: Heads, k: Heads) -> tuple[Mapped, Mapped]:
        """Queries and keys, mapped if the map is learned."""
        return (self.q(q), self.k(k)) if self.learned else (q, k)

    def of_queries(self, q: Heads) -> Mapped:
        """φ(Q), whether the map is learned or fixed."""
        return self.q(q) if self.learned else self.phi(q)

    def of_keys(self, k: Heads) -> Mapped:
        """φ(K)."""
        return self.k(k) if self.learned else self.phi(k)


def identity(x: Tensor) -> Tensor:
    """Features that are mapped already."""
    return x
