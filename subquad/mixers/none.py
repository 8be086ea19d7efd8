"""No mixing at all: the control that says what the feed-forward layers can do alone.

FNet's "FF-only" encoder (Lee-Thorp et al. 2021, section 4): the mixing sublayer is the identity,
so the block's residual doubles its input. Cost: nothing.
"""

from dataclasses import dataclass
from typing import ClassVar

from subquad.mixers.base import CausalMixer, State, zero_padding
from subquad.mixers.capabilities import PageLayer
from subquad.shapes import Mask, Sequence


@dataclass(frozen=True)
class Nothing(State):
    """There is nothing to remember."""


class NoMixing(CausalMixer):
    """The identity. It looks neither back nor ahead, so it serves both ways. Args: ``d`` width."""

    mixes: ClassVar[bool] = False

    def scan(
        self, x: Sequence, state: State | None = None, mask: Mask | None = None
    ) -> tuple[Sequence, Nothing]:
        if state is not None and not isinstance(state, Nothing):
            raise TypeError(f"no mixing continues Nothing, not {type(state).__name__}")
        return zero_padding(x, mask), Nothing()

    def page_layer(self) -> PageLayer:
        return PageLayer("none")
