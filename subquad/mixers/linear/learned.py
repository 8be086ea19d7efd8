"""Feature maps with parameters, one for the queries and one for the keys of each head.

Hedgehog (Zhang et al. 2024, arXiv 2402.04347) imitates softmax attention: with weights W and biases
b of its own for every head,

    Eq. (H1)   φ(x) = [softmax(x W + b), softmax(-x W - b)]

has 2k features for heads of width k, all of them positive. At the start, W = I and b = 0. The map
can learn sharp weights, which elu + 1 cannot; it is meant for models that are converted from
softmax attention (``subquad.conversion``).
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from subquad.mixers.base import at_own_precision
from subquad.mixers.linear.feature_maps import FEATURE_MAPS, FeatureMap
from subquad.shapes import Heads


class Hedgehog(nn.Module):
    """φ of Eq. (H1).

    Args:
        heads: number of heads.
        k: width of a head.
    """

    def __init__(self, heads: int, k: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(k).repeat(heads, 1, 1))
        self.bias = nn.Parameter(torch.zeros(heads, 1, k))

    @at_own_precision
    def forward(self, x: Heads) -> Float[Tensor, "b h t f"]:
        """``[b, h, t, k]`` → ``[b, h, t, 2k]`` in fp32 or wider."""
        x = x.to(torch.promote_types(x.dtype, self.weight.dtype))
        y = x @ self.weight.to(x.dtype) + self.bias.to(x.dtype)
        return torch.cat([y.softmax(-1), (-y).softmax(-1)], dim=-1)  # Eq. (H1)


#: Learned maps by name.
LEARNED_MAPS: dict[str, Callable[[int, int], nn.Module]] = {"hedgehog": Hedgehog}
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

    def forward(self, q: Heads, k: Heads) -> tuple[Tensor, Tensor]:
        """Queries and keys, mapped if the map is learned."""
        return (self.q(q), self.k(k)) if self.learned else (q, k)


def identity(x: Tensor) -> Tensor:
    """Features that are mapped already."""
    return x
