"""One layer: a mixer and a feed-forward network, each with its residual, norm and dropout."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from subquad.mixers import CausalMixer, State
from subquad.models.config import ModelConfig
from subquad.shapes import Mask, Sequence


class FeedForward(nn.Module):
    """Linear, GELU (tanh form, as FNet's and BERT's official code), linear: each token alone."""

    def __init__(self, d: int, ff: int) -> None:
        super().__init__()
        self.inner = nn.Linear(d, ff)
        self.outer = nn.Linear(ff, d)

    def forward(self, x: Sequence) -> Sequence:
        out: Sequence = self.outer(nn.functional.gelu(self.inner(x), approximate="tanh"))
        return out


class Block(nn.Module):
    """Post-norm: x ← LN(x + mix(x)); x ← LN(x + ff(x)). Pre-norm: x ← x + mix(LN(x)); and so on."""

    def __init__(
        self, config: ModelConfig, mixer: str, *, causal: bool, length: int | None = None
    ) -> None:
        super().__init__()
        self.mixer = config.build_mixer(mixer, causal=causal, length=length)
        self.ff = FeedForward(config.d, config.ff)
        self.norm_mixer = nn.LayerNorm(config.d, config.norm_eps)
        self.norm_ff = nn.LayerNorm(config.d, config.norm_eps)
        self.dropout = nn.Dropout(config.dropout)
        self.pre = config.norm == "pre"

    def forward(self, x: Sequence, mask: Mask | None = None) -> Sequence:
        return self._sublayers(x, lambda h: self.mixer(h, mask))

    def scan(
        self, x: Sequence, state: State | None = None, mask: Mask | None = None
    ) -> tuple[Sequence, State]:
        """The causal block over the tokens after ``state``."""
        mixer = self.mixer
        assert isinstance(mixer, CausalMixer), "only a causal block streams"
        mixed: list[State] = []

        def mix(h: Tensor) -> Tensor:
            y, after = mixer.scan(h, state, mask)
            mixed.append(after)
            return y

        y = self._sublayers(x, mix)
        return y, mixed[0]

    def _sublayers(self, x: Sequence, mix: Callable[[Tensor], Tensor]) -> Sequence:
        x = self._residual(x, mix, self.norm_mixer)
        return self._residual(x, self.ff, self.norm_ff)

    def _residual(
        self, x: Sequence, sublayer: Callable[[Tensor], Tensor], norm: nn.LayerNorm
    ) -> Sequence:
        """The residual stream stays in fp32 under autocast: half precision would drown it."""
        if self.pre:
            return x + self.dropout(sublayer(norm(x)))
        out: Sequence = norm(x + self.dropout(sublayer(x)))
        return out


def blocks(config: ModelConfig, *, causal: bool, length: int) -> nn.ModuleList:
    """All layers, bottom first, for rows up to ``length``."""
    mixers = config.layer_mixers()
    return nn.ModuleList(Block(config, name, causal=causal, length=length) for name in mixers)


def initialise(model: nn.Module) -> None:
    """The one place where weights get their first values.

    ===========================  =================================================
    embeddings, linear weights   normal, σ = 0.02 (BERT, FNet and Fastformer alike)
    linear biases                zero
    layer norm                   one and zero
    ===========================  =================================================
    """
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    for parameter in model.parameters():
        assert torch.isfinite(parameter).all()
