"""One layer: a mixer and a feed-forward network, each with residual connection, norm and
dropout."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from subquad.mixers import CausalMixer, Mixer, State
from subquad.mixers.initialisation import lecun_normal
from subquad.models.config import ModelConfig
from subquad.models.dropout import Dropout
from subquad.models.gelu import tanh_gelu
from subquad.models.norms import make_norm
from subquad.shapes import Mask, Sequence

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": tanh_gelu,
    "exact": nn.functional.gelu,
    "silu": nn.functional.silu,
    "relu": nn.functional.relu,
}


class FeedForward(nn.Module):
    """Linear, activation, linear, applied to each token separately; the inner layer may be gated
    (Shazeer 2020, arXiv 2002.05202: GEGLU and SwiGLU), ``inner`` then being (W_g, W_i)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        wide = 2 * config.ff if config.glu else config.ff
        self.inner = nn.Linear(config.d, wide, bias=config.biases)
        self.outer = nn.Linear(config.ff, config.d, bias=config.biases)
        self.gelu = _ACTIVATIONS[config.gelu]
        self.glu = config.glu

    def forward(self, x: Sequence) -> Sequence:
        h = self.inner(x)
        if self.glu:
            gate, h = h.chunk(2, dim=-1)
            h = self.gelu(gate) * h
        else:
            h = self.gelu(h)
        out: Sequence = self.outer(h)
        return out


class Block(nn.Module):
    """Post-norm: x ← LN(x + mix(x)), x ← LN(x + ff(x)). Pre-norm: x ← x + mix(LN(x)), x ← x +
    ff(LN(x))."""

    def __init__(self, config: ModelConfig, mixer: str, *, causal: bool, length: int) -> None:
        super().__init__()
        self.mixer = config.build_mixer(mixer, causal=causal, length=length)
        self.dense = nn.Linear(config.d, config.d) if config.mixer_dense else nn.Identity()
        self.ff = FeedForward(config)
        self.norm_mixer = make_norm(config)
        self.norm_ff = make_norm(config)
        self.dropout = Dropout(config.dropout)
        self.pre = config.norm == "pre"

    def forward(self, x: Sequence, mask: Mask | None = None) -> Sequence:
        return self._sublayers(x, lambda h: self.dense(self.mixer(h, mask)))

    def scan(
        self, x: Sequence, state: State | None = None, mask: Mask | None = None
    ) -> tuple[Sequence, State]:
        """The causal block over more tokens, continuing from ``state`` (``CausalMixer.scan``)."""
        mixer = self.mixer
        assert isinstance(mixer, CausalMixer), "only a causal block can stream"
        mixed: list[State] = []

        def mix(h: Tensor) -> Tensor:
            y, after = mixer.scan(h, state, mask)
            mixed.append(after)
            out: Tensor = self.dense(y)
            return out

        y = self._sublayers(x, mix)
        return y, mixed[0]

    def _sublayers(self, x: Sequence, mix: Callable[[Tensor], Tensor]) -> Sequence:
        x = self._residual(x, mix, self.norm_mixer)
        return self._residual(x, self.ff, self.norm_ff)

    def _residual(
        self, x: Sequence, sublayer: Callable[[Tensor], Tensor], norm: nn.Module
    ) -> Sequence:
        """The residual stream stays in fp32 under autocast; half precision would lose updates."""
        if self.pre:
            return x + self.dropout(sublayer(norm(x)))
        out: Sequence = norm(x + self.dropout(sublayer(x)))
        return out


def blocks(config: ModelConfig, *, causal: bool, length: int) -> nn.ModuleList:
    """All layers, from bottom to top, for sequences of up to ``length`` tokens. With
    ``share_mixers``, layers with the same mixer share one module."""
    names = config.layer_mixers()
    made = [Block(config, name, causal=causal, length=length) for name in names]
    if config.embedding_norm:
        made[0].norm_mixer = nn.Identity()
    if config.share_mixers:
        first: dict[str, Mixer] = {}
        for name, block in zip(names, made, strict=True):
            block.mixer = first.setdefault(name, block.mixer)
    return nn.ModuleList(made)


def initialise(model: nn.Module, how: str = "plain") -> None:
    """Initialise all weights of a model; this is the only place where that happens.

    ===========================  ===================================================
    embeddings, linear weights   normal, σ = 0.02 (BERT, FNet and Fastformer alike)
    linear biases                zero
    layer norm                   scale one, bias zero
    ===========================  ===================================================

    ``how="fnet"`` differs where FNet's official code does:

    ===========================  ===================================================
    inner bias of feed-forward   normal, σ = 0.02
    projection of embeddings     LeCun normal: variance 1/d, truncated at two σ
    biases of pretraining heads  normal, σ = 0.02
    ===========================  ===================================================
    """
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    if how == "fnet":
        for name, parameter in model.named_parameters():
            if name.endswith(("ff.inner.bias", "masked.bias", "order.bias")):
                nn.init.normal_(parameter, std=0.02)
            if name.endswith("embedding.projection.weight"):
                with torch.no_grad():
                    parameter.copy_(lecun_normal(len(parameter)))
    for parameter in model.parameters():
        assert parameter.is_meta or torch.isfinite(parameter).all()
