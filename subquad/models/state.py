"""The state of a causal model: one mixer state per layer, and the position of each sequence."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from jaxtyping import Int
from safetensors import SafetensorError, safe_open
from torch import Tensor

from subquad.errors import SubquadError
from subquad.mixers import State
from subquad.storage import refuse_no_numbers, write_tensors


@dataclass(frozen=True)
class ModelState:
    """What is carried from token to token in generation. ``position`` is the number of real tokens
    read so far."""

    position: Int[Tensor, "b"]
    layers: tuple[State, ...]

    @property
    def nbytes(self) -> int:
        """Size in bytes, for the whole batch and all layers."""
        return self.position.nbytes + sum(layer.nbytes for layer in self.layers)

    def detach(self) -> Self:
        """The same tensors, detached from the graph (memory is shared)."""
        return type(self)(self.position, tuple(s.detach() for s in self.layers))

    def clone(self) -> Self:
        """An independent copy, detached from the graph."""
        return type(self)(self.position.clone(), tuple(s.clone() for s in self.layers))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.clone()

    def to(self, device: torch.device | str) -> Self:
        return type(self)(self.position.to(device), tuple(s.to(device) for s in self.layers))

    def select(self, rows: Tensor) -> Self:
        """The states of the batch entries ``rows`` (int64 ``[n]``), in that order."""
        return type(self)(
            self.position.index_select(0, rows), tuple(s.select(rows) for s in self.layers)
        )

    def save(self, path: Path | str, about: dict[str, Any] | None = None) -> None:
        """Write one safetensors file, atomically; ``about`` is stored in its header as JSON."""
        tensors = {"position": self.position}
        for i, layer in enumerate(self.layers):
            tensors |= {f"layers.{i}.{name}": t for name, t in layer.tensors().items()}
        kinds = json.dumps([type(layer).__name__ for layer in self.layers])
        contiguous = {name: t.contiguous().clone() for name, t in tensors.items()}
        header = {"layers": kinds} | ({} if about is None else {"about": json.dumps(about)})
        write_tensors(Path(path), contiguous, header)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read what ``save`` wrote.

        Raises:
            SubquadError: the file is not a saved state, or is damaged.
        """
        try:
            with safe_open(path, framework="pt") as f:
                names = json.loads((f.metadata() or {}).get("layers", "null"))
                if names is None or any(name not in State.kinds for name in names):
                    raise SubquadError(f"{path} is not a saved state (layers: {names})")
                tensors = {name: f.get_tensor(name) for name in f.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise SubquadError(f"{path} cannot be read as a saved state: {error}") from error
        refuse_no_numbers(Path(path), tensors)
        layers = []
        for i, name in enumerate(names):
            mine = f"layers.{i}."
            held = {k[len(mine) :]: t for k, t in tensors.items() if k.startswith(mine)}
            try:
                layers.append(State.kinds[name](**held))
            except TypeError:
                found = ", ".join(held) or "nothing"
                raise SubquadError(f"{path} is damaged: layer {i}, {name}, has {found}") from None
        if "position" not in tensors:
            raise SubquadError(f"{path} is damaged: it has no position")
        return cls(tensors["position"], tuple(layers))
