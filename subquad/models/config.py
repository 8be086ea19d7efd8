"""The shape of a model: every choice that is not the data's, with its default in the field."""

from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from subquad.mixers import Mixer, build, options


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """What a model is made of. Tasks override some defaults (``subquad.tasks``)."""

    mixers: tuple[str, ...] = ("linear",)
    """Mixer of each layer, bottom first; a single name serves all layers."""
    mixer_options: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Options of a mixer beside ``heads``: ``{"linear": {"feature_map": "relu"}}``."""
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
    positions: Literal["learned", "sinusoidal", "none"] = "learned"
    """How a token's place is known; only learned ones limit the length."""
    pooling: Literal["mean", "cls"] = "mean"
    """How a classifier sums up a row: the mean over real tokens, or a leading token of its own."""
    dropout: float = 0.1
    """Part of the values dropped in training, after the embedding and each sublayer."""
    token_dropout: float | None = 0.0
    """Part of a row's tokens that a classifier does not see in training, drawn anew each time;
    None = by the length of the texts, and said."""
    tied: bool = False
    """Causal head shares its weights with the embedding."""

    def layer_mixers(self) -> tuple[str, ...]:
        """One mixer name per layer.

        Raises:
            ValueError: the list is neither one name nor one per layer.
        """
        if len(self.mixers) == 1:
            return self.mixers * self.layers
        if len(self.mixers) != self.layers:
            raise ValueError(
                f"{len(self.mixers)} mixers ({','.join(self.mixers)}) for layers={self.layers}: "
                "give one, or one per layer"
            )
        return self.mixers

    def build_mixer(self, name: str, *, causal: bool, length: int | None = None) -> Mixer:
        """The mixer ``name`` with this model's width, heads and options; one that is fixed to a
        length takes ``length``, the longest row's, unless told otherwise."""
        chosen = dict(self.mixer_options.get(name, {}))
        if "heads" in options(name, causal=causal):
            chosen.setdefault("heads", self.heads)
        if chosen.get("padding") == "fixed" and length is not None:
            chosen.setdefault("length", length)
        return build(name, self.d, causal=causal, **chosen)

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
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name}={getattr(self, name)!r} is not one of {', '.join(known)}")
        for name in ("dropout", "token_dropout"):
            if not 0 <= (getattr(self, name) or 0) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 0 and below 1")
        kind = "causal model" if causal else "classifier"
        for name in _BIDIRECTIONAL_ONLY if causal else _CAUSAL_ONLY:
            usual = type(self).__dataclass_fields__[name].default
            if getattr(self, name) != usual:
                raise ValueError(f"{name}={getattr(self, name)!r} means nothing to a {kind}")
        used = self.layer_mixers()
        for name in self.mixer_options:
            if name not in used:
                raise ValueError(f"options for mixer {name!r}, which no layer uses ({used})")
        for name in dict.fromkeys(used):
            try:
                with torch.device("meta"):  # nothing is allocated
                    self.build_mixer(name, causal=causal, length=length)
            except TypeError as error:
                raise ValueError(f"mixer {name!r}: {error}") from None


_BIDIRECTIONAL_ONLY = ("pooling", "token_dropout")
_CAUSAL_ONLY = ("tied",)
_CHOICES = {
    "norm": ("pre", "post"),
    "positions": ("learned", "sinusoidal", "none"),
    "pooling": ("mean", "cls"),
}
