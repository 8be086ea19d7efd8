"""The interface of a token mixer, and the guarantees that every mixer must give.

A mixer moves information between the tokens of a sequence ("row") and does nothing else: no
residual connection, no normalisation, no positional encoding, no dropout on the residual path.
Those belong to the block (``subquad.models.block``).

* ``Mixer`` reads a whole sequence at once (bidirectional).
* ``CausalMixer`` can stream: it is defined by ``scan``, which consumes any number of tokens and
  carries a ``State``. Training, prefill, continuation and one-token decoding are that one method.

The *type* says whether a mixer can generate; there is no separate flag.

Anything else that models, exports or reports need to know, they ask the mixer itself, through
methods with a default (``explain``, ``operations``, ``for_graph``, ``page_layer``,
``engine_layer``, …).

For every mixer, dtype and length, the result must not depend on padding, on the other sequences in
the batch, on how a sequence is split over several ``scan`` calls, on whether the module has been
used before, or on saving and reloading a state.
"""

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, ParamSpec, TypeVar, final

import torch
from torch import Tensor, nn

from subquad.mixers import checking
from subquad.mixers.capabilities import EngineLayer, Explanation, GraphForm, PageLayer
from subquad.mixers.state import State
from subquad.shapes import Mask, Sequence

P = ParamSpec("P")
R = TypeVar("R")


class Mixer(nn.Module, ABC):
    """A bidirectional token mixer: each output may depend on every real token of its sequence.

    Args:
        d: model width. Subclasses add their own keyword-only options.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        checking.guard(cls)

    #: False for the control, which leaves every token as it is.
    mixes: ClassVar[bool] = True
    #: True if a token reads only its neighbours, however long the sequence is.
    local: ClassVar[bool] = False
    #: The standard ONNX operator that the mixer can be exported as, if there is one.
    onnx_operator: ClassVar[str | None] = None
    #: The options with which the mixer can imitate softmax attention best, for conversions.
    imitates: ClassVar[dict[str, Any]] = {}
    #: The only sequence length that the mixer accepts; None for any length.
    fixed_length: int | None = None

    def __init__(self, d: int) -> None:
        super().__init__()
        self.d = d

    @abstractmethod
    def forward(self, x: Sequence, mask: Mask | None = None) -> Sequence:
        """Mix the tokens of each sequence.

        Args:
            x: ``[b, t, d]``.
            mask: ``[b, t]``, True at real tokens; None if there is no padding.

        Returns:
            ``[b, t, d]``, zero at padding. Padding never affects the output at real tokens.
        """

    @classmethod
    def completed(cls, chosen: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        """The ``chosen`` options, completed with those the mixer takes from the model and its data.

        ``given`` may hold ``heads``, ``length`` (of the longest sequence) and ``row`` (values per
        row of an image). By default, a mixer takes those of its options that have no default.
        """
        own = inspect.signature(cls).parameters.values()
        required = {p.name for p in own if p.kind is p.KEYWORD_ONLY and p.default is p.empty}
        return {name: given[name] for name in given if name in required} | chosen

    def explain(self, x: Sequence, mask: Mask | None = None) -> Explanation:  # noqa: ARG002
        """What can be shown of how the mixer treats ``x`` (fp32 or wider). By default, nothing."""
        return Explanation()

    def operations(self, length: int) -> float:  # noqa: ARG002
        """Floating-point operations for a sequence of ``length`` tokens that torch's FLOP counter
        misses (it counts matrix products only)."""
        return 0.0

    def for_graph(self, form: GraphForm) -> "Mixer":  # noqa: ARG002
        """The module to trace for export: same weights and results, only operations that ONNX has,
        and no branches that depend on the values in a tensor. By default, the mixer itself.

        Raises:
            UsageError: it cannot be exported in this form; the message says why.
        """
        return self

    def page_layer(self) -> PageLayer | None:
        """How an exported web page computes this mixer; None if the page has no code for it.

        Raises:
            UsageError: the page supports the mixer, but not with these options; they are named.
        """
        return None

    def scan(self, *_: Any, **__: Any) -> Any:
        """Only causal mixers can stream (``CausalMixer.scan``).

        Raises:
            TypeError: always.
        """
        raise TypeError(f"{type(self).__name__} reads whole rows and has no scan: it cannot stream")


class CausalMixer(Mixer):
    """A mixer whose output at position i depends only on tokens up to i, so that it can stream."""

    @abstractmethod
    def scan(
        self, x: Sequence, state: State | None = None, mask: Mask | None = None
    ) -> tuple[Sequence, State]:
        """Read more tokens, continuing from ``state``.

        Args:
            x: ``[b, t, d]``, any number of tokens.
            state: what an earlier call returned; None at the start of the sequence.
            mask: ``[b, t]``, True at real tokens. Masked tokens leave the state unchanged.

        Returns:
            The outputs ``[b, t, d]``, and the state after the last token.

        Raises:
            TypeError: the state belongs to another kind of mixer.
        """

    @final  # type: ignore[misc]  # torch declares forward as an attribute
    def forward(self, x: Sequence, mask: Mask | None = None) -> Sequence:
        return self.scan(x, mask=mask)[0]

    @torch.no_grad()
    def empty_state(
        self,
        rows: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> State:
        """The initial state of ``rows`` sequences, before any token has been read, for activations
        of ``dtype``. Device and dtype default to those of the weights."""
        like = next(self.parameters(), torch.empty(0))
        nothing = torch.zeros(
            rows, 0, self.d, device=device or like.device, dtype=dtype or like.dtype
        )
        return self.scan(nothing)[1]

    def engine_layer(self) -> EngineLayer | None:
        """The mixer as a layer of the C++ step engine; None if the engine cannot run it.

        Raises:
            UsageError: the engine runs the mixer, but not with these options; they are named.
        """
        return None


def zero_padding(y: Sequence, mask: Mask | None) -> Sequence:
    """``y`` with zeros at masked positions, even where it holds NaN or infinity.

    Applied to inputs, this protects the gradients as well: multiplying padding by zero would not be
    enough, because 0 · NaN is NaN.
    """
    return y if mask is None else y.masked_fill(~mask.unsqueeze(-1), 0)


def divide(numerator: Tensor, denominator: Tensor) -> Tensor:
    """numerator / denominator, or zero where the denominator is zero (no token seen yet)."""
    empty = denominator == 0
    return (numerator / denominator.masked_fill(empty, 1)).masked_fill(empty, 0)


def at_own_precision(form: Callable[P, R]) -> Callable[P, R]:
    """Run ``form`` with autocast disabled, which would compute the matrix products of its fp32 sums
    in half precision."""

    @functools.wraps(form)
    def without_autocast(*args: P.args, **kwargs: P.kwargs) -> R:
        found = (a for a in (*args, *kwargs.values()) if isinstance(a, Tensor))
        device = next(found).device.type
        if not torch.is_autocast_enabled(device):
            return form(*args, **kwargs)
        with torch.autocast(device, enabled=False):
            return form(*args, **kwargs)

    return without_autocast


def head_width(d: int, heads: int) -> int:
    """Width of one head.

    Raises:
        ValueError: ``d`` is not a multiple of ``heads``; the message names both.
    """
    if not isinstance(heads, int) or isinstance(heads, bool) or heads < 1 or d % heads:
        raise ValueError(f"width d={d} is not divisible by heads={heads}")
    return d // heads
