"""The architecture of a model: every choice that does not depend on the data, with its default."""

from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch

from subquad.mixers import ATTENTION, MIXERS, Mixer, build, class_of, options


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The architecture of a model. Tasks override some of the defaults (``subquad.tasks``)."""

    mixers: tuple[str, ...] = ("linear",)
    """Mixer of each layer, separated by commas, from bottom to top; the last one is used for all
    remaining layers."""
    mixer_options: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Options of a mixer other than ``heads``: ``{"linear": {"feature_map": "relu"}}``."""
    hybrid: str | None = None
    """Use softmax attention in N of the layers: top:N, bottom:N, middle:N or mixed:N (evenly
    spaced)."""
    layers: int = 2
    """Number of blocks, each a mixer and a feed-forward network."""
    d: int = 256
    """Model width (hidden size)."""
    heads: int = 4
    """Number of heads, for mixers that have heads."""
    ff: int = 512
    """Hidden width of the feed-forward networks."""
    norm: Literal["pre", "post"] = "post"
    """Layer normalisation before each sublayer (pre), or after each residual connection (post, as
    in all three papers)."""
    norm_eps: float = 1e-5
    """Epsilon of the layer norms."""
    share_mixers: bool = False
    """Share weights between layers with the same mixer (as in Fastformer's paper, but not in its
    code)."""
    mixer_dense: bool = False
    """Add a linear layer after each mixer, as in Fastformer's released encoder."""
    gelu: Literal["tanh", "exact", "silu", "relu"] = "tanh"
    """Activation of the feed-forward networks: GELU by its tanh approximation (as in FNet's code),
    exact GELU (as in Fastformer's), SiLU or ReLU."""
    glu: bool = False
    """Gate the feed-forward networks: act(W_g x) times W_i x (as in Llama and ModernBERT)."""
    rms: bool = False
    """RMS norm in place of layer norm (as in Llama)."""
    biases: bool = True
    """Biases in feed-forward networks, norms and the output layer."""
    embedding_norm: bool = False
    """In models with pre-norm: normalise the embedding, and not again before the first mixer (as in
    ModernBERT)."""
    positions: Literal["learned", "sinusoidal", "none"] | None = field(
        default="learned", metadata={"omitted": "depends on the mixers"}
    )
    """Positional encoding. Learned positions limit the sequence length; the others do not. If the
    choice depends on the mixers, it is none where the bottom layer is a convolution, which already
    encodes order, and learned otherwise; a note says which."""
    types: int = 0
    """Number of segment types that get an embedding (BERT's token types); 0 for none."""
    projection: bool = False
    """Add a linear layer after the embedding's layer norm, as in FNet."""
    initialisation: Literal["plain", "fnet"] = "plain"
    """Weight initialisation: plain, or as in FNet's official code."""
    pad: int = 0
    """Token id used for padding; its embedding matters only to mixers that include padding."""
    dropout: float = 0.1
    """Dropout rate, applied after the embedding and after each sublayer."""
    tied: bool = False
    """Tie the output layer's weights to the embedding."""

    def __post_init__(self) -> None:
        """Replaces former names of mixers by their current ones."""
        options = {MIXERS.canonical(name): chosen for name, chosen in self.mixer_options.items()}
        object.__setattr__(self, "mixers", tuple(map(MIXERS.canonical, self.mixers)))
        object.__setattr__(self, "mixer_options", options)

    def layer_mixers(self) -> tuple[str, ...]:
        """One mixer name per layer, from bottom to top.

        Raises:
            ValueError: there are more names than layers, or ``hybrid`` is invalid.
        """
        if self.hybrid is not None:
            if len(self.mixers) != 1:
                raise ValueError(
                    f"hybrid={self.hybrid!r} takes a single mixer, not {','.join(self.mixers)}"
                )
            attention = attention_layers(self.hybrid, self.layers)
            return tuple(
                ATTENTION if i in attention else self.mixers[0] for i in range(self.layers)
            )
        if not 0 < len(self.mixers) <= self.layers:
            raise ValueError(
                f"{len(self.mixers)} mixers ({','.join(self.mixers)}) for layers={self.layers}: "
                "name at least one, and at most one per layer"
            )
        return self.mixers + self.mixers[-1:] * (self.layers - len(self.mixers))

    def mixing(self) -> list[tuple[str, dict[str, Any]]]:
        """The mixer of each layer with its options, from bottom to top."""
        return [(name, self.mixer_options.get(name, {})) for name in self.layer_mixers()]

    def attention_options(self, mixer: str, *, causal: bool) -> dict[str, Any]:
        """The options of this model's attention that ``mixer`` has too (rotary positions, grouped
        keys, biases): without them, weights that are copied would mean something else."""
        known = options(mixer, causal=causal)
        return {n: v for n, v in self.mixer_options.get(ATTENTION, {}).items() if n in known}

    def placed(self) -> "ModelConfig":
        """This configuration with ``positions`` decided by the mixers if it is None."""
        if self.positions is not None:
            return self
        lowest = MIXERS[self.layer_mixers()[0]].cls(True)
        local = lowest is not None and lowest.local
        return replace(self, positions="none" if local else "learned")

    def build_mixer(self, name: str, *, causal: bool, length: int) -> Mixer:
        """Build the mixer ``name`` with this model's width and options; ``heads`` and ``length``
        are filled in where the mixer needs them."""
        given = {"heads": self.heads, "length": length}
        return build(name, self.d, causal=causal, **self._completed(name, causal, given))

    def _completed(self, name: str, causal: bool, given: dict[str, Any]) -> dict[str, Any]:
        chosen = self.mixer_options.get(name, {})
        return class_of(name, causal=causal).completed(chosen, given)

    def with_data(self, *, causal: bool, **given: Any) -> "ModelConfig":
        """This configuration with mixer options filled in from the data: ``row``, the number of
        values per row of an image."""
        made = {name: self._completed(name, causal, given) for name in self.layer_mixers()}
        made = {name: chosen for name, chosen in made.items() if chosen}
        return replace(self, mixer_options=self.mixer_options | made)

    def check(self, *, causal: bool, length: int = 1) -> None:
        """Check this configuration for sequences of up to ``length`` tokens, before any work is
        done.

        Raises:
            ValueError: a value is invalid; the message names the field and what is allowed.
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
            raise ValueError(
                f"--share-mixers: no two layers have the same mixer ({','.join(used)})"
            )
        for name in self.mixer_options:
            if name not in used:
                raise ValueError(
                    f"options were given for mixer {name!r}, but the layers use {','.join(used)}"
                )
        for name in dict.fromkeys(used):
            try:
                with torch.device("meta"):  # nothing is allocated
                    self.build_mixer(name, causal=causal, length=length)
            except TypeError as error:
                raise ValueError(f"mixer {name!r}: {error}") from None


def attention_layers(hybrid: str, layers: int) -> frozenset[int]:
    """Which of the ``layers`` (0 is the bottom) use softmax attention: exactly N of them. ``mixed``
    spaces them evenly from the bottom. If N divides the number of layers, this is the official
    code's ``i % (L/N) == 0``, which otherwise gives more than N.

    Raises:
        ValueError: ``hybrid`` is not LAYOUT:N, or N is larger than ``layers``.
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
    """The values allowed by ``Literal[…]`` or ``Literal[…] | None``; () for other types."""
    for part in (annotation, *get_args(annotation)):
        if get_origin(part) is Literal:
            return get_args(part)
    return ()


def check_choices(config: Any) -> None:
    """Check that each field with a ``Literal`` type has one of the values listed.

    Raises:
        ValueError: it has not; the message names the field and lists the values.
    """
    hints = get_type_hints(type(config))
    for one in fields(config):
        known, value = literals(hints[one.name]), getattr(config, one.name)
        optional = type(None) in get_args(hints[one.name])
        if known and value not in known and not (value is None and optional):
            raise ValueError(f"{one.name}={value!r} is not one of {', '.join(map(str, known))}")
