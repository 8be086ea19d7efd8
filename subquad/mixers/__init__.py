"""The registry: a name, its bidirectional and its causal class, what it costs and who made it.

A new mixer is one file, one entry here and one reference test; the command line, the tables, and
the property, gradient and equivalence tests follow from the entry.
"""

import inspect
from dataclasses import dataclass
from typing import Any

from subquad.mixers.base import CausalMixer, Mixer, State
from subquad.mixers.convolution import CausalConvolution, Convolution
from subquad.mixers.dense import Dense, Random
from subquad.mixers.fastformer import Fastformer
from subquad.mixers.fastformer_causal import CausalFastformer
from subquad.mixers.fnet import FNet
from subquad.mixers.linear import CausalLinearAttention, LinearAttention
from subquad.mixers.none import NoMixing
from subquad.mixers.raster import CausalRaster
from subquad.mixers.softmax import CausalSoftmaxAttention, SoftmaxAttention

__all__ = ["MIXERS", "CausalMixer", "Entry", "Mixer", "State", "build", "names", "options"]


@dataclass(frozen=True)
class Entry:
    """One line of the table that ``subquad mixers`` prints."""

    bidirectional: type[Mixer] | None
    causal: type[CausalMixer] | None
    cost: str
    source: str

    def cls(self, causal: bool) -> type[Mixer] | None:
        return self.causal if causal else self.bidirectional


MIXERS: dict[str, Entry] = {
    "softmax": Entry(SoftmaxAttention, CausalSoftmaxAttention, "O(t²·d)", "Vaswani et al. 2017"),
    "linear": Entry(
        LinearAttention, CausalLinearAttention, "O(t·d²/h)", "Katharopoulos et al. 2020"
    ),
    "fnet": Entry(FNet, None, "O(t·d·log(t·d))", "Lee-Thorp et al. 2021"),
    "fastformer": Entry(Fastformer, CausalFastformer, "O(t·d)", "Wu et al. 2021"),
    "none": Entry(NoMixing, NoMixing, "0", "Lee-Thorp et al. 2021 (FF-only)"),
    "convolution": Entry(Convolution, CausalConvolution, "O(t·d·w)", "Wu et al. 2019, section 2"),
    "raster": Entry(None, CausalRaster, "O(t·d·w)", "van den Oord et al. 2016 (masked)"),
    "dense": Entry(Dense, None, "O(t²·d + t·d²)", "Lee-Thorp et al. 2021 (Linear)"),
    "random": Entry(Random, None, "O(t²·d + t·d²)", "Lee-Thorp et al. 2021 (Random)"),
}


def names(*, causal: bool) -> list[str]:
    """The mixers that exist in this direction."""
    return [name for name, entry in MIXERS.items() if entry.cls(causal)]


def _class(name: str, causal: bool) -> type[Mixer]:
    kind = "causal" if causal else "bidirectional"
    if name not in MIXERS:
        raise ValueError(f"mixer {name!r} is not one of {', '.join(names(causal=causal))}")
    cls = MIXERS[name].cls(causal)
    if cls is None:
        raise ValueError(
            f"mixer {name!r} has no {kind} form; those that have: {', '.join(names(causal=causal))}"
        )
    return cls


def options(name: str, *, causal: bool) -> dict[str, Any]:
    """The keyword options of a mixer and their defaults (``inspect.Parameter.empty`` if none).

    Raises:
        ValueError: no such mixer, or it has no form in this direction; those that qualify are
            listed.
    """
    parameters = inspect.signature(_class(name, causal)).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def build(name: str, d: int, *, causal: bool, **chosen: Any) -> Mixer:
    """Make the mixer ``name`` of width ``d`` with its own keyword options.

    Raises:
        ValueError: an unknown mixer, direction or option; the right ones are listed.
    """
    cls = _class(name, causal)
    known = options(name, causal=causal)
    for option in chosen:
        if option not in known:
            raise ValueError(
                f"mixer {name!r} has no option {option!r}; it has: {', '.join(known) or 'none'}"
            )
    return cls(d, **chosen)
