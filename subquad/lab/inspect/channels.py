"""What comes to each mixer of a model while it runs, and what the mixer makes of it.

A mixer's *channels* are the places where it weighs tokens: the columns of a Fastformer, what a
token writes into the state of linear attention, the attention that it gets. A mixer without weights
(FNet) has none.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from subquad.mixers import CausalMixer, Mixer
from subquad.mixers.capabilities import Explanation
from subquad.models.block import Block


@dataclass(frozen=True)
class Seen:
    """What came to the mixer of one layer."""

    mixer: Mixer
    x: Tensor
    mask: Tensor | None

    def explained(self) -> Explanation:
        """What the mixer says about it."""
        return self.mixer.explain(self.x.float(), self.mask)


@contextmanager
def watched(model: nn.Module) -> Iterator[list[Seen]]:
    """What comes to each mixer while the model runs, layer by layer, from the bottom."""
    layers = [module for module in model.modules() if isinstance(module, Block)]
    mixers: list[Any] = list(dict.fromkeys(block.mixer for block in layers))
    seen: list[Seen] = []

    def noting(mixer: Any, run: Callable[..., Any]) -> Callable[..., Any]:
        def note(x: Tensor, *rest: Any, **named: Any) -> Any:
            mask = named.get("mask", rest[-1] if rest else None)
            seen.append(Seen(mixer, x, mask))
            return run(x, *rest, **named)

        return note

    names = ["scan" if isinstance(m, CausalMixer) else "forward" for m in mixers]
    for mixer, name in zip(mixers, names, strict=True):
        setattr(mixer, name, noting(mixer, getattr(mixer, name)))
    try:
        yield seen
    finally:
        for mixer, name in zip(mixers, names, strict=True):
            delattr(mixer, name)
