"""The shape of a model: every choice that is not the data's, with its default in the field."""

from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch

from subquad.mixers import ATTENTION, MIXERS, Mixer, build, class_of


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """What a model is made of. Tasks override some defaults (``subquad.tasks``)."""

    mixers: tuple[str, ...] = ("linear",)
    """Mixer of each layer, bottom first; the last one named serves all layers above it."""
    mixer_options: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Options of a mixer beside ``heads``: ``{"linear": {"feature_map": "relu"}}``."""
    hybrid: str | None = None
    """Softmax attention in N of the layers: top:N, bottom:N, middle:N or mixed:N."""
    layers: int = 2
    """Blocks, each a mixer and a feed-forward network."""
    d: int = 256
    """Width of the model."""
    heads: int = 4
    """Heads of the mixers that have any."""
    ff: int = 512
    """Width inside the feed-forward layer."""
    norm: Literal["pre", "post"] = "post"
    """Layer norm before each sublayer, or after each residual (as in all three papers)."""
    norm_eps: float = 1e-5
    """Added to the variance in layer norms."""
    share_mixers: bool = False
    """Layers with the same mixer share its weights (as Fastformer's paper does, not its code)."""
    mixer_dense: bool = False
    """A linear map after each mixer, as in Fastformer's released encoder."""
    gelu: Literal["tanh", "exact"] = "tanh"
    """Form of GELU in the feed-forward layers; FNet's code has tanh, Fastformer's exact."""
    positions: Literal["learned", "sinusoidal", "none"] | None = field(
        default="learned", metadata={"omitted": "by the mixers"}
    )
    """How a token's place is known; only learned positions limit the length. Where the mixers
    choose, there are none above a convolution, which tells neighbours apart, and else learned ones;
    a note says which."""
    types: int = 0
    """Kinds of segments with an embedding of their own (BERT's token types); 0 = none."""
    projection: bool = False
    """A linear layer after the embedding's norm, as FNet has it."""
    initialisation: Literal["plain", "fnet"] = "plain"
    """First values of the weights: plain, or those of FNet's official code."""
    pad: int = 0
    """Token id that fills rows up; only mixers that let padding take part ever see its vector."""
    dropout: float = 0.1
    """Part of the values dropped in training, after the embedding and each sublayer."""
    tied: bool = False
    """The head shares its weights with the embedding."""

    def __post_init__(self) -> None:
        """Former names of mixers become their present ones."""
        options = {MIXERS.canonical(name): chosen for name, chosen in self.mixer_options.items()}
        object.__setattr__(self, "mixers", tuple(map(MIXERS.canonical, self.mixers)))
        object.__setattr__(self, "mixer_options", options)

    def layer_mixers(self) -> tuple[str, ...]:
        """One mixer name per layer, bottom first.

        Raises:
            ValueError: more names than layers; a hybrid that cannot be.
        """
        if self.hybrid is not None:
            if len(self.mixers) != 1:
                raise ValueError(f"hybrid={self.hybrid!r} takes one mixer, not {self.mixers}")
            attention = attention_layers(self.hybrid, self.layers)
            return tuple(
                ATTENTION if i in attention else self.mixers[0] for i in range(self.layers)
            )
        if not 0 < len(self.mixers) <= self.layers:
            raise ValueError(
                f"{len(self.mixers)} mixers ({','.join(self.mixers)}) for layers={self.layers}: "
                "give one, or up to one per layer"
            )
        return self.mixers + self.mixers[-1:] * (self.layers - len(self.mixers))

    def placed(self) -> "ModelConfig":
        """``positions`` settled: what None stands for with these mixers."""
        if self.positions is not None:
            return self
        lowest = MIXERS[self.layer_mixers()[0]].cls(True)
        local = lowest is not None and lowest.local
        return replace(self, positions="none" if local else "learned")

    def build_mixer(self, name: str, *, causal: bool, length: int) -> Mixer:
        """The mixer ``name`` with this model's width and options, completed by what the model
        has: its heads, its longest row."""
        given = {"heads": self.heads, "length": length}
        return build(name, self.d, causal=causal, **self._completed(name, causal, given))

    def _completed(self, name: str, causal: bool, given: dict[str, Any]) -> dict[str, Any]:
        chosen = self.mixer_options.get(name, {})
        return class_of(name, causal=causal).completed(chosen, given)

    def with_data(self, *, causal: bool, **given: Any) -> "ModelConfig":
        """Mixers' options completed by what the data have: ``row``, the values in a row of a
        picture."""
        made = {name: self._completed(name, causal, given) for name in self.layer_mixers()}
        made = {name: chosen for name, chosen in made.items() if chosen}
        return replace(self, mixer_options=self.mixer_options | made)

    def check(self, *, causal: bool, length: int = 1) -> None:
        """Refuse a configuration that no model of rows up to ``length`` can have, before any work
        is done.

        Raises:
            ValueError: naming the field, what was found and what would be right.
        """
        for name in ("layers", "d", "heads", "ff"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if not self.norm_eps > 0:
            raise ValueError(f"norm_eps={self.norm_eps} must be above zero")
        check_choices(self)
        for name in ("types", "pad"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 0")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout={self.dropout} must be at least 0 and below 1")
        used = self.layer_mixers()
        if self.share_mixers and len(set(used)) == len(used):
            raise ValueError(f"share_mixers: no two layers have the same mixer ({','.join(used)})")
        for name in self.mixer_options:
            if name not in used:
                raise ValueError(f"options for mixer {name!r}, which no layer uses ({used})")
        for name in dict.fromkeys(used):
            try:
                with torch.device("meta"):  # nothing is allocated
                    self.build_mixer(name, causal=causal, length=length)
            except TypeError as error:
                raise ValueError(f"mixer {name!r}: {error}") from None


def attention_layers(hybrid: str, layers: int) -> frozenset[int]:
    """Which of the ``layers`` (0 = bottom) hold attention: exactly N of them. ``mixed`` spreads
    them from the bottom; where N divides the layers it is the official code's ``i % (L/N) == 0``,
    which gives more than N elsewhere.

    Raises:
        ValueError: not LAYOUT:N, or more than there are layers.
    """
    layout, _, number = hybrid.partition(":")
    n = int(number) if number.isdecimal() else -1
    if layout not in ("top", "bottom", "middle", "mixed") or not 0 <= n <= layers:
        raise ValueError(
            f"hybrid={hybrid!r} is not top:N, bottom:N, middle:N or mixed:N with N up to "
            f"layers={layers}"
        )
    if layout == "mixed":
        return frozenset(i * layers // n for i in range(n))
    first = {"bottom": 0, "middle": (layers - n + 1) // 2, "top": layers - n}[layout]
    return frozenset(range(first, first + n))


def literals(annotation: Any) -> tuple[Any, ...]:
    """The values that ``Literal[…]`` or ``Literal[…] | None`` allows; () for other types."""
    for part in (annotation, *get_args(annotation)):
        if get_origin(part) is Literal:
            return get_args(part)
    return ()


def check_choices(config: Any) -> None:
    """Refuse a value that the ``Literal`` of its field does not list.

    Raises:
        ValueError: naming the field, what was found and what would be right.
    """
    hints = get_type_hints(type(config))
    for one in fields(config):
        known, value = literals(hints[one.name]), getattr(config, one.name)
        optional = type(None) in get_args(hints[one.name])
        if known and value not in known and not (value is None and optional):
            raise ValueError(f"{one.name}={value!r} is not one of {', '.join(map(str, known))}")
