"""What a causal mixer carries from one call of ``scan`` to the next."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Self

import torch
from torch import Tensor


@dataclasses.dataclass(frozen=True)
class State:
    """Named tensors, batch dimension first. ``scan`` never modifies one in place.

    A subclass is a frozen dataclass of tensors. Saved states identify it by its class name, so two
    classes of the same name are not allowed.

    ``clone`` and ``copy.deepcopy`` give an independent copy, detached from the graph; to continue
    with gradients, pass the state itself to ``scan``.
    """

    #: All subclasses by name, direct or not.
    kinds: ClassVar[dict[str, type["State"]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        """
        Raises:
            TypeError: another class already has that name; the message names both modules.
        """
        super().__init_subclass__(**options)
        there = State.kinds.setdefault(cls.__name__, cls)
        # A module that is reloaded defines its own class again.
        if (there.__module__, there.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(
                f"{cls.__module__} defines a state {cls.__name__}, and so does {there.__module__}: "
                "saved states are identified by that name, so choose another"
            )
        State.kinds[cls.__name__] = cls

    def tensors(self) -> dict[str, Tensor]:
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """A state with ``change`` applied to each tensor."""
        return dataclasses.replace(self, **{n: change(t) for n, t in self.tensors().items()})

    @property
    def nbytes(self) -> int:
        """Size of all tensors in bytes, for the whole batch."""
        return sum(t.numel() * t.element_size() for t in self.tensors().values())

    def detach(self) -> Self:
        """The same tensors, detached from the graph (memory is shared)."""
        return self.map(Tensor.detach)

    def clone(self) -> Self:
        """An independent copy, detached from the graph."""
        return self.map(lambda t: t.detach().clone())

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.clone()

    def to(self, device: torch.device | str) -> Self:
        """The state on another device. Dtypes stay: sums are fp32 or wider, a KV cache holds
        activations."""
        return self.map(lambda t: t.to(device))

    def select(self, rows: Tensor) -> Self:
        """The state of the batch entries ``rows`` (int64 ``[n]``), in that order; entries may be
        repeated, as in beam search."""
        return self.map(lambda t: t.index_select(0, rows.to(t.device)))
