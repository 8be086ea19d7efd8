"""What a causal mixer remembers between two calls of ``scan``."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Self

import torch
from torch import Tensor


@dataclasses.dataclass(frozen=True)
class State:
    """Named tensors, batch first. ``scan`` never changes one.

    A subclass is a frozen dataclass of tensors, known by its class name: that name stands in saved
    states, and a second class of the same name is refused.

    ``clone`` and ``copy.deepcopy`` give a state of its own memory that no gradient reaches; to
    continue with gradients, pass the state itself to ``scan``.
    """

    #: Every class of states by name, grandchildren too.
    kinds: ClassVar[dict[str, type["State"]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        """
        Raises:
            TypeError: another class has that name; both modules are named.
        """
        super().__init_subclass__(**options)
        there = State.kinds.setdefault(cls.__name__, cls)
        # A module that is loaded again brings its own class again.
        if (there.__module__, there.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(
                f"{cls.__module__} has a state {cls.__name__}, and so has {there.__module__}: "
                "saved states are told apart by that name, so give it another"
            )
        State.kinds[cls.__name__] = cls

    def tensors(self) -> dict[str, Tensor]:
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The same state with ``change`` applied to each tensor."""
        return dataclasses.replace(self, **{n: change(t) for n, t in self.tensors().items()})

    @property
    def nbytes(self) -> int:
        """Bytes held by the tensors, all rows together."""
        return sum(t.numel() * t.element_size() for t in self.tensors().values())

    def detach(self) -> Self:
        """The same memory, without gradients."""
        return self.map(Tensor.detach)

    def clone(self) -> Self:
        """A copy with memory of its own, without gradients."""
        return self.map(lambda t: t.detach().clone())

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.clone()

    def to(self, device: torch.device | str) -> Self:
        """Move to a device. Dtypes stay: sums are fp32 or wider, a KV cache holds activations."""
        return self.map(lambda t: t.to(device))

    def select(self, rows: Tensor) -> Self:
        """The state of ``rows`` (int64 ``[n]``), in that order: beams, reordering, repetition."""
        return self.map(lambda t: t.index_select(0, rows.to(t.device)))
