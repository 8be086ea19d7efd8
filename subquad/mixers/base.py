"""The contract of a token mixer: what a model may ask of one, and what it must promise.

A mixer moves information between the tokens of a row and does nothing else: no residual, no norm,
no position code, no dropout on the residual path. Those belong to the block
(``subquad.models.block``).

* ``Mixer`` reads a whole row at once (bidirectional).
* ``CausalMixer`` can stream: it is defined by ``scan``, which consumes any number of tokens and
  carries a ``State``. Training, prefill, continuation and one-token decoding are that one method.

The *type* says whether a mixer can generate; there is no flag.

Five equalities hold for every mixer, dtype and length: padded = unpadded; alone = in a batch;
one pass = any split = token by token; fresh = reused; saved and loaded = kept.
"""

import dataclasses
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, ParamSpec, Self, TypeVar, final

import torch
from torch import Tensor, nn

from subquad.mixers import checking
from subquad.shapes import Mask, Sequence

P = ParamSpec("P")
R = TypeVar("R")


@dataclasses.dataclass(frozen=True)
class State:
    """What a causal mixer remembers: named tensors, batch first. ``scan`` never changes one."""

    def tensors(self) -> dict[str, Tensor]:
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The same state with ``change`` applied to each tensor."""
        return dataclasses.replace(self, **{n: change(t) for n, t in self.tensors().items()})

    @property
    def nbytes(self) -> int:
        """Bytes held by the tensors, all rows together."""
        return sum(t.numel() * t.element_size() for t in self.tensors().values())

    def clone(self) -> Self:
        return self.map(Tensor.clone)

    def detach(self) -> Self:
        return self.map(Tensor.detach)

    def to(self, device: torch.device | str) -> Self:
        """Move to a device. Dtypes stay: sums are fp32 or wider, a KV cache holds activations."""
        return self.map(lambda t: t.to(device))

    def select(self, rows: Tensor) -> Self:
        """The state of ``rows`` (int64 ``[n]``), in that order: beams, reordering, repetition."""
        return self.map(lambda t: t.index_select(0, rows.to(t.device)))


class Mixer(nn.Module, ABC):
    """A bidirectional token mixer: every output may depend on every real token of its row."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        checking.guard(cls)

    #: False for the control that leaves every token alone.
    mixes: ClassVar[bool] = True
    #: True where a token reads its neighbours only, however long the row is.
    local: ClassVar[bool] = False
    #: The one length that the mixer is made for; None = any.
    fixed_length: int | None = None

    @abstractmethod
    def forward(self, x: Sequence, mask: Mask | None = None) -> Sequence:
        """Mix ``x`` ``[b, t, d]``; ``mask`` ``[b, t]`` is True at real tokens.

        Masked positions neither give nor receive: their output is zero, and a row without any
        real token is zero throughout.
        """

    def scan(self, *_: Any, **__: Any) -> Any:
        """Only causal mixers stream.

        Raises:
            TypeError: always.
        """
        raise TypeError(f"{type(self).__name__} reads whole rows and has no scan: it cannot stream")


class CausalMixer(Mixer):
    """A mixer whose output at i depends on tokens up to i only, and can therefore stream."""

    @abstractmethod
    def scan(
        self, x: Sequence, state: State | None = None, mask: Mask | None = None
    ) -> tuple[Sequence, State]:
        """Consume ``x`` ``[b, t, d]`` after what ``state`` has seen; return outputs and new state.

        ``state=None`` is the beginning. A state of another mixer is refused. Masked tokens leave
        the state as it was.
        """

    @final  # type: ignore[misc]  # torch declares forward as an attribute
    def forward(self, x: Sequence, mask: Mask | None = None) -> Sequence:
        return self.scan(x, mask=mask)[0]


def zero_padding(y: Sequence, mask: Mask | None) -> Sequence:
    """Zeros at masked positions (also where ``y`` holds NaN or infinity). On the way in it keeps
    padding from spoiling gradients: a weight of zero does not silence a NaN, 0 · NaN is NaN."""
    return y if mask is None else y.masked_fill(~mask.unsqueeze(-1), 0)


def at_own_precision(form: Callable[P, R]) -> Callable[P, R]:
    """Compute ``form`` in the dtypes it is written in. Autocast would take the products of its
    fp32 sums to half precision."""

    @functools.wraps(form)
    def wide(*args: P.args, **kwargs: P.kwargs) -> R:
        found = (a for a in (*args, *kwargs.values()) if isinstance(a, Tensor))
        device = next(found).device.type
        if not torch.is_autocast_enabled(device):
            return form(*args, **kwargs)
        with torch.autocast(device, enabled=False):
            return form(*args, **kwargs)

    return wide


def head_width(d: int, heads: int) -> int:
    """Width of one head.

    Raises:
        ValueError: ``d`` is not a multiple of ``heads``; both numbers are named.
    """
    if not isinstance(heads, int) or isinstance(heads, bool) or heads < 1 or d % heads:
        raise ValueError(f"width d={d} does not divide into heads={heads}")
    return d // heads
