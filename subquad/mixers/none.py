"""No mixing at all: a control that shows what the feed-forward layers can do on their own.

FNet's "FF-only" encoder (Lee-Thorp et al. 2021, section 4): the mixing sublayer is the identity,
so that the block's residual connection doubles its input. Cost: nothing.
"""

from dataclasses import dataclass
from typing import ClassVar

from subquad.mixers.base import CausalMixer, State, zero_padding
from subquad.mixers.capabilities import PageLayer
from subquad.shapes import Mask, Sequence


@dataclass(frozen=True)
class Nothing(State):
    """An empty state."""


class NoMixing(CausalMixer):
    """The identity, usable as a bidirectional and as a causal mixer.

    Args:
        d: model width.
    """

    mixes: ClassVar[bool] = False

    def scan(
        self, x: Sequence, state: State | None = None, mask: Mask | None = None
    ) -> tuple[Sequence, Nothing]:
        if state is not None and not isinstance(state, Nothing):
            raise TypeError(f"NoMixing continues a Nothing state, not {type(state).__name__}")
        return zero_padding(x, mask), Nothing()

    def page_layer(self) -> PageLayer:
        return PageLayer("none")
