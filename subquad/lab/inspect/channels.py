"""Records the input of each mixer while a model runs, and asks the mixer to explain its weights.

A mixer's *channels* are the places where it weights tokens: the columns of Fastformer, how much a
token writes into the state of linear attention, or how much softmax attention it receives. A mixer
that does not weight tokens (FNet) has none.
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
    """The input of one layer's mixer."""

    mixer: Mixer
    x: Tensor
    mask: Tensor | None

    def explained(self) -> Explanation:
        """The mixer's own explanation of what it does with this input."""
        return self.mixer.explain(self.x.float(), self.mask)


@contextmanager
def watched(model: nn.Module) -> Iterator[list[Seen]]:
    """Record the input of every mixer while the model runs, layer by layer from the bottom."""
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
