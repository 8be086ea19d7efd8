"""Linear attention as a mixer, bidirectional and causal. Equations are in ``linear/forms.py``."""

import copy
from collections.abc import Iterable
from typing import Any, ClassVar

import torch

from subquad.errors import UsageError
from subquad.mixers.base import CausalMixer, Mixer, State, zero_padding
from subquad.mixers.capabilities import (
    Channel,
    EngineLayer,
    Explanation,
    Features,
    GraphForm,
    PageLayer,
)
from subquad.mixers.linear import windowed, windowed_causal
from subquad.mixers.linear.engine import Attention
from subquad.mixers.linear.forms import BIDIRECTIONAL_FORMS, CAUSAL_FORMS
from subquad.mixers.linear.learned import LEARNED, Maps
from subquad.mixers.linear.operator import NAME, ByOperator
from subquad.mixers.linear.parts import LinearState, features
from subquad.mixers.linear.window import Window, continued
from subquad.mixers.native import core_serves
from subquad.mixers.projections import Biases, Projections
from subquad.shapes import Mask, Sequence


def _known(form: str, forms: Iterable[str], windowed: Iterable[str], window: int) -> str:
    known = ["auto", *(windowed if window else forms)]
    if form not in known:
        of = f" with window={window}" if window else ""
        raise ValueError(f"form={form!r} is not one of {', '.join(known)}{of}")
    return form


class LinearAttention(Mixer):
    """Bidirectional linear attention, Eq. (5).

    Args:
        d: model width, a multiple of ``heads``.
        heads: number of attention heads.
        feature_map: one of ``feature_maps.FEATURE_MAPS``, or ``learned.LEARNED_MAPS``.
        window: tokens per block of a window of softmax attention (``windowed``); 0 for none.
        form: one of ``BIDIRECTIONAL_FORMS``, or ``"auto"``: ``native`` if the C++ core is in use
            and the tensors are on the CPU, otherwise ``sums``. With a window, one of
            ``windowed.FORMS``, or ``"auto"``: ``sums``, and ``quadratic`` under ``torch.export``.
        kv_heads, biases, rotary: as for ``Projections``.
    """

    imitates: ClassVar[dict[str, Any]] = {"feature_map": LEARNED}

    def __init__(
        self,
        d: int,
        *,
        heads: int,
        feature_map: str = "elu+1",
        window: int = 0,
        form: str = "auto",
        kv_heads: int | None = None,
        biases: Biases = "all",
        rotary: float | None = None,
    ) -> None:
        super().__init__(d)
        self.form = _known(form, BIDIRECTIONAL_FORMS, windowed.FORMS, window)
        self.projections = Projections(d, heads, kv_heads=kv_heads, biases=biases, rotary=rotary)
        self.maps = Maps(feature_map, heads, d // heads)
        self.window = Window(heads, window) if window else None

    def forward(self, x: Sequence, mask: Mask | None = None) -> Sequence:
        if self.window is not None:
            y = self.window.bidirectional(self.projections, self.maps, x, mask, self.form)
            return zero_padding(y, mask)
        q, k, v = self.projections.split(zero_padding(x, mask), mask)
        q, k = self.maps(q, k)
        name = self.form
        if name == "auto":
            name = "native" if core_serves(q) else "sums"
        y = BIDIRECTIONAL_FORMS[name](q, k, v, phi=self.maps.phi, mask=mask)
        return zero_padding(self.projections.merge(y), mask)

    def explain(self, x: Sequence, mask: Mask | None = None) -> Explanation:
        if self.window is not None:
            return self.window.explain(self.projections, self.maps, x, mask, causal=False)
        return _explained(self.projections, self.maps, x, mask)

    def for_graph(self, form: GraphForm) -> Mixer:  # noqa: ARG002
        made = copy.copy(self)
        made.form = "sums" if self.window is None else "quadratic"
        return made

    def page_layer(self) -> PageLayer:
        if self.window is not None:
            raise UsageError(f"a page has no code for window={self.window.size}: use --to onnx")
        if not self.projections.plain:
            raise UsageError("a page has no code for kv_heads, biases and rotary: use --to onnx")
        options = {"heads": self.projections.heads, "map": self.maps.name}
        parts = {"qkv": "projections.qkv", "out": "projections.out"}
        parts |= {"phi_q": "maps.q", "phi_k": "maps.k"} if self.maps.learned else {}
        return PageLayer("linear", options, parts)


class CausalLinearAttention(CausalMixer):
    """Causal linear attention, Eq. (9): the Transformer that is an RNN.

    Args:
        d: model width, a multiple of ``heads``.
        heads: number of attention heads.
        feature_map: one of ``feature_maps.FEATURE_MAPS``, or ``learned.LEARNED_MAPS``.
        window: tokens per block of a window of softmax attention (``windowed_causal``); 0 for none.
        form: one of ``CAUSAL_FORMS``, or ``"auto"``: ``native`` if the C++ core is in use and the
            tensors are on the CPU, otherwise ``chunked``; ``recurrent`` for a single token (the
            same result with less work), and ``quadratic`` under ``torch.export`` (chunks would fix
            the length of the graph). With a window, one of ``windowed_causal.FORMS``.
        kv_heads, biases, rotary: as for ``Projections``; rotary positions need a window.
    """

    onnx_operator: ClassVar[str | None] = NAME
    #: The window is what keeps recall (Zhang et al. 2024, table 13: 64 tokens suffice).
    imitates: ClassVar[dict[str, Any]] = {"feature_map": LEARNED, "window": 64}

    def __init__(
        self,
        d: int,
        *,
        heads: int,
        feature_map: str = "elu+1",
        window: int = 0,
        form: str = "auto",
        kv_heads: int | None = None,
        biases: Biases = "all",
        rotary: float | None = None,
    ) -> None:
        super().__init__(d)
        if rotary is not None and not window:
            raise ValueError(
                f"rotary={rotary:g} needs a window in causal linear attention, such as window=64: "
                "without one, its state does not count tokens"
            )
        self.form = _known(form, CAUSAL_FORMS, windowed_causal.FORMS, window)
        self.projections = Projections(d, heads, kv_heads=kv_heads, biases=biases, rotary=rotary)
        self.maps = Maps(feature_map, heads, d // heads)
        self.window = Window(heads, window) if window else None

    def scan(
        self, x: Sequence, state: State | None = None, mask: Mask | None = None
    ) -> tuple[Sequence, State]:
        if self.window is not None:
            held = continued(state)
            y, end = self.window.causal(self.projections, self.maps, x, mask, held, self.form)
            return zero_padding(y, mask), end
        if state is not None and not isinstance(state, LinearState):
            raise TypeError(f"linear attention continues a LinearState, not {type(state).__name__}")
        q, k, v = self.projections.split(zero_padding(x, mask), mask)
        q, k = self.maps(q, k)
        name = self.form
        if name == "auto":
            many = "quadratic" if torch.compiler.is_exporting() else "chunked"
            torch_form = "recurrent" if x.shape[1] == 1 else many
            name = "native" if core_serves(q) else torch_form
        y, after = CAUSAL_FORMS[name](q, k, v, phi=self.maps.phi, mask=mask, state=state)
        return zero_padding(self.projections.merge(y), mask), after

    def explain(self, x: Sequence, mask: Mask | None = None) -> Explanation:
        if self.window is not None:
            return self.window.explain(self.projections, self.maps, x, mask, causal=True)
        return _explained(self.projections, self.maps, x, mask)

    def for_graph(self, form: GraphForm) -> Mixer:
        if form == "operator":
            if self.window is not None:
                raise UsageError(
                    f"ONNX's operator {NAME} has no window (window={self.window.size}): omit it"
                )
            return ByOperator(self.projections, self.maps)
        made = copy.copy(self)
        made.form = "recurrent" if form == "one" and self.window is None else "quadratic"
        return made

    def engine_layer(self) -> EngineLayer:
        if self.window is not None:
            raise UsageError(f"the engine has no code for window={self.window.size}")
        if not self.projections.plain:
            raise UsageError("the engine has no code for kv_heads, biases and rotary")
        if self.maps.learned:
            raise UsageError(f"the engine has no code for the feature map {self.maps.name}")
        return Attention(self.projections, self.maps.name)


def _explained(projections: Projections, maps: Maps, x: Sequence, mask: Mask | None) -> Explanation:
    """What each token writes to the state, and the features that are read from it."""
    q, k, v = projections.split(zero_padding(x, mask), mask)
    q, k = maps(q, k)
    phi_q, phi_k, v = features(q, k, v, maps.phi, mask)
    written = Channel.of(phi_k.sum(-1).mT)
    return Explanation({"written to the state": written}, features=Features(phi_q, phi_k, v))
