"""The table of mixers: a name, its bidirectional and its causal class, what it costs and who made
it.

A new mixer is one file or folder, one entry here and one reference test; the command line, the
tables, and the property, gradient and equivalence tests follow from the entry. A mixer of another
package is registered in Python, or declared as an entry point (``registry``).
"""

import inspect
from typing import Any

from subquad.mixers.base import CausalMixer, Mixer, State
from subquad.mixers.convolution import CausalConvolution, Convolution
from subquad.mixers.dense import Dense, Random
from subquad.mixers.fastformer import CausalFastformer, Fastformer
from subquad.mixers.fnet import FNet
from subquad.mixers.linear import CausalLinearAttention, LinearAttention
from subquad.mixers.masked_convolution import MaskedConvolution
from subquad.mixers.none import NoMixing
from subquad.mixers.registry import Entry, Registry
from subquad.mixers.softmax import CausalSoftmaxAttention, SoftmaxAttention

__all__ = [
    "ATTENTION",
    "CONTROL",
    "MIXERS",
    "CausalMixer",
    "Entry",
    "Mixer",
    "State",
    "build",
    "class_of",
    "names",
    "options",
    "register",
]

MIXERS = Registry(
    {
        "softmax": Entry(
            SoftmaxAttention, CausalSoftmaxAttention, "O(t²·d)", "Vaswani et al. 2017"
        ),
        "linear": Entry(
            LinearAttention, CausalLinearAttention, "O(t·d²/h)", "Katharopoulos et al. 2020"
        ),
        "fnet": Entry(FNet, None, "O(t·d·log(t·d))", "Lee-Thorp et al. 2021"),
        "fastformer": Entry(Fastformer, CausalFastformer, "O(t·d)", "Wu et al. 2021"),
        "none": Entry(NoMixing, NoMixing, "0", "Lee-Thorp et al. 2021 (FF-only)"),
        "convolution": Entry(
            Convolution, CausalConvolution, "O(t·d·w)", "Wu et al. 2019, section 2"
        ),
        "masked_convolution": Entry(
            None,
            MaskedConvolution,
            "O(t·d·w)",
            "van den Oord et al. 2016 (masked)",
            aliases=("raster",),
        ),
        "dense": Entry(Dense, None, "O(t²·d + t·d²)", "Lee-Thorp et al. 2021 (Linear)"),
        "random": Entry(Random, None, "O(t²·d + t·d²)", "Lee-Thorp et al. 2021 (Random)"),
    }
)

#: The quadratic attention that others are measured against, and that hybrids have in some layers.
ATTENTION = "softmax"
#: The mixer that does not mix.
CONTROL = "none"


def register(name: str, entry: Entry) -> None:
    """Add a mixer for this process, as if it had come with the package.

    Raises:
        SubquadError: the entry holds no mixer, or the name is taken.
    """
    MIXERS.register(name, entry)


def names(*, causal: bool) -> list[str]:
    """The mixers that exist in this direction."""
    return [name for name, entry in MIXERS.items() if entry.cls(causal)]


def class_of(name: str, *, causal: bool) -> type[Mixer]:
    """The class behind ``name`` in this direction.

    Raises:
        ValueError: no such mixer, or it has no form in this direction; those that qualify are
            listed.
    """
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
        ValueError: as ``class_of``.
    """
    parameters = inspect.signature(class_of(name, causal=causal)).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def build(name: str, d: int, *, causal: bool, **chosen: Any) -> Mixer:
    """Make the mixer ``name`` of width ``d`` with its own keyword options.

    Raises:
        ValueError: an unknown mixer, direction or option; the right ones are listed.
    """
    known = options(name, causal=causal)
    for option in chosen:
        if option not in known:
            raise ValueError(
                f"mixer {name!r} has no option {option!r}; it has: {', '.join(known) or 'none'}"
            )
    return class_of(name, causal=causal)(d, **chosen)
