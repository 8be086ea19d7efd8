"""The table of mixers: name, bidirectional class, causal class, cost and source.

A new mixer is one file or folder, one entry here and one reference test. The command line, the
tables, and the property, gradient and equivalence tests pick it up from the entry. A mixer from
another package is registered in Python or declared as an entry point (``registry``).
"""

import inspect
from typing import Any

from subquad.mixers.base import CausalMixer, Mixer, State
from subquad.mixers.convolution import CausalConvolution, Convolution
from subquad.mixers.dense import Dense, Random
from subquad.mixers.fastformer import CausalFastformer, Fastformer
from subquad.mixers.fnet import FNet
from subquad.mixers.linear import CausalLinearAttention, LinearAttention
from subquad.mixers.local_softmax import LocalAttention
from subquad.mixers.masked_convolution import MaskedConvolution
from subquad.mixers.none import NoMixing
from subquad.mixers.registry import Entry, Registry
from subquad.mixers.softmax import CausalSoftmaxAttention, SoftmaxAttention

__all__ = [
    "ATTENTION",
    "CONTROL",
    "LOCAL_ATTENTION",
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
        "local_softmax": Entry(
            LocalAttention, None, "O(t·d·w)", "Beltagy et al. 2020 (Longformer)"
        ),
    }
)

#: Softmax attention among neighbours, in some layers of ModernBERT.
LOCAL_ATTENTION = "local_softmax"
#: The quadratic baseline that other mixers are compared with, also used in some layers of hybrids.
ATTENTION = "softmax"
#: The control that does not mix tokens at all.
CONTROL = "none"


def register(name: str, entry: Entry) -> None:
    """Register a mixer in this process, as if it were built in.

    Args:
        name: what to call it, as in ``--mixer name``.
        entry: its classes, cost and source.

    Raises:
        SubquadError: the entry has no valid mixer class, or the name is already taken.

    Example::

        register("mine", Entry(None, MyCausalMixer, "O(t·d)", "this paper"))
    """
    MIXERS.register(name, entry)


def names(*, causal: bool) -> list[str]:
    """Names of all mixers that have a causal (or bidirectional) form."""
    return [name for name, entry in MIXERS.items() if entry.cls(causal)]


def class_of(name: str, *, causal: bool) -> type[Mixer]:
    """The class that implements ``name`` in the causal (or bidirectional) direction.

    Raises:
        ValueError: there is no such mixer, or it has no such form; the message lists those that do.
    """
    kind = "causal" if causal else "bidirectional"
    if name not in MIXERS:
        raise ValueError(f"mixer {name!r} is not one of {', '.join(names(causal=causal))}")
    cls = MIXERS[name].cls(causal)
    if cls is None:
        raise ValueError(
            f"mixer {name!r} has no {kind} form; mixers with one: {', '.join(names(causal=causal))}"
        )
    return cls


def options(name: str, *, causal: bool) -> dict[str, Any]:
    """A mixer's keyword options and their defaults (``inspect.Parameter.empty`` where required).

    Raises:
        ValueError: as for ``class_of``.
    """
    parameters = inspect.signature(class_of(name, causal=causal)).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def build(name: str, d: int, *, causal: bool, **chosen: Any) -> Mixer:
    """Build the mixer ``name`` for model width ``d``.

    Args:
        name: one of ``names(causal=causal)``.
        d: model width.
        causal: the causal form, or the bidirectional one.
        **chosen: the mixer's own keyword options (see ``options``).

    Returns:
        A module that maps ``[b, t, d]`` to ``[b, t, d]``.

    Raises:
        ValueError: unknown mixer or option, or no such form; the message lists the valid ones.

    Example::

        mixer = build("linear", 64, causal=True, heads=4)
        y, state = mixer.scan(torch.randn(2, 10, 64))
    """
    known = options(name, causal=causal)
    for option in chosen:
        if option not in known:
            raise ValueError(
                f"mixer {name!r} has no option {option!r}; it has: {', '.join(known) or 'none'}"
            )
    return class_of(name, causal=causal)(d, **chosen)
