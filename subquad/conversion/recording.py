"""Records what every layer of a model reads and returns during a forward pass."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from subquad.mixers import CausalMixer
from subquad.models.block import Block
from subquad.shapes import Mask, Sequence


@dataclass(frozen=True)
class Mixed:
    """One call of a mixer: its input, the mask of real tokens, and its output."""

    x: Sequence
    mask: Mask | None
    y: Sequence


@dataclass
class Record:
    """What the layers of a model have read and returned, from bottom to top."""

    mixed: list[Mixed] = field(default_factory=list)
    """Every mixer's call."""
    blocks: list[Sequence] = field(default_factory=list)
    """Every block's output."""


def blocks_of(model: nn.Module) -> list[Block]:
    """The blocks of a model, from bottom to top."""
    return [module for module in model.modules() if isinstance(module, Block)]


@contextmanager
def recorded(model: nn.Module) -> Iterator[Record]:
    """Record every forward pass of ``model`` within this context; use one ``Record`` per pass."""
    record = Record()
    with ExitStack() as stack:
        seen: set[int] = set()
        for block in blocks_of(model):
            mixer = block.mixer
            causal = isinstance(mixer, CausalMixer)
            stack.enter_context(_watched(block, causal, lambda _, y: record.blocks.append(y)))
            if id(mixer) not in seen:  # layers may share one
                seen.add(id(mixer))
                stack.enter_context(_watched(mixer, causal, _note(record)))
        yield record


def _note(record: Record) -> Callable[[tuple[Any, Any], Sequence], None]:
    def note(given: tuple[Any, Any], y: Sequence) -> None:
        record.mixed.append(Mixed(*given, y))

    return note


@contextmanager
def _watched(
    module: nn.Module, causal: bool, note: Callable[[tuple[Any, Any], Sequence], None]
) -> Iterator[None]:
    """Call ``note`` with the input, the mask and the output of each call of a mixer or block."""
    name = "scan" if causal else "forward"
    original = getattr(module, name)

    def forward(x: Sequence, mask: Mask | None = None) -> Sequence:
        y: Sequence = original(x, mask)
        note((x, mask), y)
        return y

    def scan(x: Sequence, state: Any = None, mask: Mask | None = None) -> tuple[Sequence, Any]:
        y, after = original(x, state, mask)
        note((x, mask), y)
        return y, after

    module.__dict__[name] = scan if causal else forward
    try:
        yield
    finally:
        del module.__dict__[name]
