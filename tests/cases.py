"""What the registry offers, as subjects for the checks: a new entry is tested without a new line
here, unless it has a required option that ``REQUIRED`` does not know."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from subquad.mixers import MIXERS, Mixer, build, options

D = 8
REQUIRED: dict[str, Any] = {"heads": 2, "length": 1024}
#: Options beside the defaults whose mathematics or code differs. "both" serves both directions.
VARIANTS: dict[str, dict[str, list[dict[str, Any]]]] = {
    "linear": {
        "both": [{"feature_map": name} for name in ("relu", "relu^2", "softmax")],
        "causal": [{"form": name} for name in ("quadratic", "recurrent")],
    },
    "fastformer": {
        "both": [
            {"columns": 1},
            {"columns": 4, "value": "own", "query_residual": False},
            {"interaction": "add", "scale": "width"},
            {"interaction": "concat", "columns": 3, "score_over": "own_head"},
            {"score_over": "own_head", "value": "own"},
        ],
    },
    "convolution": {"both": [{"width": 1}, {"width": 7}]},
    "raster": {"causal": [{"row": 5, "above": 2, "side": 2, "width": 3}, {"above": 0}]},
    "fnet": {
        "both": [{"form": "products"}]
        + [{"transform": name} for name in ("hartley", "dct", "hadamard", "sequence")]
    },
}


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
        needed = options(self.name, causal=self.causal)
        required = {n: REQUIRED[n] for n, v in needed.items() if v is inspect.Parameter.empty}
        return required | self.chosen

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
    for chosen in VARIANTS.get(case.name, {}).get(kind, [])
]
