"""What the registry offers, as subjects for the checks: a new entry is tested without a new line
here."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from subquad.mixers import MIXERS, Mixer, build

D = 8
#: What a mixer may take from the model.
GIVEN: dict[str, Any] = {"heads": 2, "length": 1024}


def variants(name: str, kind: str) -> list[dict[str, Any]]:
    """The options whose mathematics or code differs, as the mixer's reference lists them."""
    reference = importlib.import_module(f"tests.reference.{name}")
    found: dict[str, list[dict[str, Any]]] = getattr(reference, "VARIANTS", {})
    return found.get(kind, [])


@dataclass(frozen=True)
class Case:
    """A mixer in one direction. Calling it makes the same module each time."""

    name: str
    causal: bool
    chosen: dict[str, Any] = field(default_factory=dict)
    dtype: torch.dtype = torch.float64
    seed: int = 0

    @property
    def options(self) -> dict[str, Any]:
        return self.cls.completed(self.chosen, GIVEN)

    @property
    def cls(self) -> type[Mixer]:
        cls = MIXERS[self.name].cls(self.causal)
        assert cls is not None
        return cls

    def __call__(self) -> Mixer:
        torch.manual_seed(self.seed)
        return build(self.name, D, causal=self.causal, **self.options).to(self.dtype)

    def __str__(self) -> str:
        chosen = "".join(f"-{v}" for v in self.chosen.values())
        return f"{self.name}-{'causal' if self.causal else 'both-ways'}{chosen}"


Make = Callable[[], Mixer]

CASES = [
    Case(name, causal)
    for name, entry in MIXERS.items()
    for causal in (False, True)
    if entry.cls(causal)
]
CAUSAL = [case for case in CASES if case.causal]
#: Those whose every token reads the whole row, or all of it up to itself.
MIXING = [case for case in CASES if case.cls.mixes and not case.cls.local]
#: Every case, and every variant of it.
ALL = CASES + [
    Case(case.name, case.causal, chosen)
    for case in CASES
    for kind in ("both", "causal" if case.causal else "bidirectional")
    for chosen in variants(case.name, kind)
]
