"""The contract of a token mixer: what a model may ask of one, and what it must promise.

A mixer moves information between the tokens of a row and does nothing else: no residual, no norm,
no position code, no dropout on the residual path. Those belong to the block
(``subquad.models.block``).

* ``Mixer`` reads a whole row at once (bidirectional).
* ``CausalMixer`` can stream: it is defined by ``scan``, which consumes any number of tokens and
  carries a ``State``. Training, prefill, continuation and one-token decoding are that one method.

The *type* says whether a mixer can generate; there is no flag.

What else a model, an export or a page of figures asks, the mixer answers itself, by methods that
have a default (``explain``, ``operations``, ``for_graph``, ``page_layer``, ``engine_layer``, …).

Five equalities hold for every mixer, dtype and length: padded = unpadded; alone = in a batch;
one pass = any split = token by token; fresh = reused; saved and loaded = kept.
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
    """A bidirectional token mixer: every output may depend on every real token of its row.

    Args: ``d`` width of the model; further options are keywords of the subclass.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        checking.guard(cls)

    #: False for the control that leaves every token alone.
    mixes: ClassVar[bool] = True
    #: True where a token reads its neighbours only, however long the row is.
    local: ClassVar[bool] = False
    #: The standard ONNX operator that it can be exported as; None = it has none.
    onnx_operator: ClassVar[str | None] = None
    #: The one length that the mixer is made for; None = any.
    fixed_length: int | None = None

    def __init__(self, d: int) -> None:
        super().__init__()
        self.d = d

    @abstractmethod
    def forward(self, x: Sequence, mask: Mask | None = None) -> Sequence:
        """Mix ``x`` ``[b, t, d]``; ``mask`` ``[b, t]`` is True at real tokens.

        Masked positions neither give nor receive: their output is zero, and a row without any
        real token is zero throughout.
        """

    @classmethod
    def completed(cls, chosen: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        """``chosen`` options and, of those that were not chosen, what the mixer takes from the
        model and its data: ``given`` may hold ``heads``, ``length`` of the longest row, and
        ``row``, the values in a row of a picture. By default the options that have no default."""
        own = inspect.signature(cls).parameters.values()
        required = {p.name for p in own if p.kind is p.KEYWORD_ONLY and p.default is p.empty}
        return {name: given[name] for name in given if name in required} | chosen

    def explain(self, x: Sequence, mask: Mask | None = None) -> Explanation:  # noqa: ARG002
        """What it makes of ``x`` (fp32 or wider), for people to look at. By default nothing."""
        return Explanation()

    def operations(self, length: int) -> float:  # noqa: ARG002
        """Floating-point operations for a row of ``length`` tokens that torch's counter does not
        see (it sees matrix products)."""
        return 0.0

    def for_graph(self, form: GraphForm) -> "Mixer":  # noqa: ARG002
        """The mixer that a graph is traced from: same weights, same results, operations that ONNX
        knows, and nothing chosen by what a tensor holds. By default itself.

        Raises:
            UsageError: there is none; the reason is given.
        """
        return self

    def page_layer(self) -> PageLayer | None:
        """The mixer as a page computes it; None where a page has no code for it.

        Raises:
            UsageError: a page has the mixer, but not with these options; they are named.
        """
        return None

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

    @torch.no_grad()
    def empty_state(
        self,
        rows: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> State:
        """The state of ``rows`` rows of which nothing has been read, for activations of ``dtype``;
        device and dtype are those of the weights unless given."""
        like = next(self.parameters(), torch.empty(0))
        nothing = torch.zeros(
            rows, 0, self.d, device=device or like.device, dtype=dtype or like.dtype
        )
        return self.scan(nothing)[1]

    def engine_layer(self) -> EngineLayer | None:
        """The mixer as a layer of the step engine; None where the engine cannot run it."""
        return None


def zero_padding(y: Sequence, mask: Mask | None) -> Sequence:
    """Zeros at masked positions (also where ``y`` holds NaN or infinity). On the way in it keeps
    padding from spoiling gradients: a weight of zero does not silence a NaN, 0 · NaN is NaN."""
    return y if mask is None else y.masked_fill(~mask.unsqueeze(-1), 0)


def divide(numerator: Tensor, denominator: Tensor) -> Tensor:
    """numerator / denominator, and zero where the denominator is (nothing has been seen)."""
    empty = denominator == 0
    return (numerator / denominator.masked_fill(empty, 1)).masked_fill(empty, 0)


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
