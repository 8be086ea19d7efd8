"""Dense mixing: one matrix over the tokens and one over the features, learned or random.

FNet's controls (Lee-Thorp et al. 2021, section 4; https://github.com/google-research/f_net): the
"Linear" encoder learns both matrices, the "Random" encoder keeps them as initialised. For a
sequence x of n tokens, with S sized for the longest sequence:

    Eq. (1)   y_i = Σ_{j ≤ n} S_ij x_j H

A shorter sequence uses the leading block of S for its real tokens, in order, so that padding cannot
change the result. Cost: O(t²·d + t·d²).
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from subquad.mixers.base import Mixer, zero_padding
from subquad.mixers.initialisation import lecun_normal
from subquad.shapes import Mask, Sequence


def definition(x: Sequence, time: Float[Tensor, "n n"], mask: Mask | None = None) -> Sequence:
    """S x over the real tokens: rows and columns of S are indexed by rank among the real tokens."""
    real = torch.ones_like(x[..., 0], dtype=torch.bool) if mask is None else mask
    rank = (real.cumsum(1) - 1).clamp(min=0)
    s = time[rank.unsqueeze(2), rank.unsqueeze(1)]
    return zero_padding(s @ zero_padding(x, mask), mask)


def packed(x: Sequence, time: Float[Tensor, "n n"], mask: Mask | None = None) -> Sequence:
    """The same with one block of S for the whole batch: real tokens are moved to the front of their
    sequence, and back afterwards."""
    t = x.shape[1] if x.shape[1] <= len(time) else len(time)  # not min: it cannot be exported
    if mask is None:
        return time[:t, :t] @ x
    rank = (mask.cumsum(1) - 1).clamp(min=0)
    # Padding is zero, so it does not matter which position it is added to.
    places = rank.unsqueeze(-1).expand_as(x)
    front = torch.zeros_like(x[:, :t]).scatter_add(1, places, zero_padding(x, mask))
    y = time[:t, :t] @ front
    return zero_padding(y.gather(1, places), mask)


class _Dense(Mixer):
    """S ``[length, length]`` and H ``[d, d]``, which the subclass creates."""

    time: Tensor
    hidden: Tensor

    def __init__(self, d: int, length: int) -> None:
        super().__init__(d)
        if not isinstance(length, int) or isinstance(length, bool) or length < 1:
            raise ValueError(f"length={length!r} must be a positive number of tokens")
        self.length = length

    def forward(self, x: Sequence, mask: Mask | None = None) -> Sequence:
        """
        Raises:
            ValueError: a sequence has more real tokens than ``length``; the message names both.
        """
        if x.shape[1] > self.length:
            found = x.shape[1] if mask is None else int(mask.sum(1).max()) if len(mask) else 0
            if found > self.length:
                raise ValueError(f"takes up to {self.length} tokens, found {found}")
        return packed(x, self.time, mask) @ self.hidden  # Eq. (1)


class Dense(_Dense):
    """Both matrices are learned, initialised from N(0, 0.02²).

    Args:
        d: model width.
        length: length of the longest sequence, in tokens.
    """

    def __init__(self, d: int, *, length: int) -> None:
        super().__init__(d, length)
        self.time = nn.Parameter(0.02 * torch.randn(length, length))
        self.hidden = nn.Parameter(0.02 * torch.randn(d, d))


class Random(_Dense):
    """Both matrices are random and never trained. Like initial weights they depend on the run's
    seed, and they are saved with the model.

    Args:
        d: model width.
        length: length of the longest sequence, in tokens.
    """

    def __init__(self, d: int, *, length: int) -> None:
        super().__init__(d, length)
        self.register_buffer("time", lecun_normal(length))
        self.register_buffer("hidden", lecun_normal(d))
