"""ModernBERT (Warner et al. 2024, arXiv 2412.13663): pre-norm without biases, gated feed-forward
networks, rotary positions, and softmax attention that is local in most layers."""

from typing import Any

from subquad.mixers import ATTENTION, LOCAL_ATTENTION
from subquad.models.config import ModelConfig
from subquad.models.foreign.about import About
from subquad.models.foreign.family import Family, Shape
from subquad.models.foreign.names import Table

_TABLE: Table = (
    ("encoder.embedding.tokens", "embeddings.tok_embeddings"),
    ("encoder.embedding.norm", "embeddings.norm"),
    ("encoder.blocks.{i}.norm_mixer", "layers.{i}.attn_norm"),
    ("encoder.blocks.{i}.mixer.projections.qkv", "layers.{i}.attn.Wqkv"),
    ("encoder.blocks.{i}.mixer.projections.out", "layers.{i}.attn.Wo"),
    ("encoder.blocks.{i}.norm_ff", "layers.{i}.mlp_norm"),
    ("encoder.blocks.{i}.ff.inner", "layers.{i}.mlp.Wi"),
    ("encoder.blocks.{i}.ff.outer", "layers.{i}.mlp.Wo"),
    ("encoder.norm", "final_norm"),
)
_KINDS = {"full_attention": ATTENTION, "sliding_attention": LOCAL_ATTENTION}
_GLOBAL, _LOCAL = _KINDS


def _read(about: About) -> Shape:
    for name in ("norm_bias", "attention_bias", "mlp_bias"):
        about.one_of(name, False, (False,))
    about.one_of("hidden_activation", "gelu", ("gelu",))
    layers = about.whole("num_hidden_layers", 22)
    mixers = _mixers(about, layers)
    options: dict[str, dict[str, Any]] = {
        ATTENTION: {"biases": "none", "rotary": _rotary(about, _GLOBAL, "global", 160_000.0)},
        LOCAL_ATTENTION: {
            "width": about.whole("local_attention", 128) // 2,
            "biases": "none",
            "rotary": _rotary(about, _LOCAL, "local", 10_000.0),
        },
    }
    config = ModelConfig(
        mixers=mixers,
        mixer_options={name: options[name] for name in dict.fromkeys(mixers)},
        d=about.whole("hidden_size", 768),
        layers=layers,
        heads=about.whole("num_attention_heads", 12),
        ff=about.whole("intermediate_size", 1152),
        norm="pre",
        norm_eps=about.number("norm_eps", 1e-5),
        gelu="exact",
        glu=True,
        biases=False,
        embedding_norm=True,
        positions="none",
        pad=about.whole("pad_token_id", 50283),
        dropout=about.number("mlp_dropout", 0.0),
    )
    length = about.whole("max_position_embeddings", 8192)
    return Shape(config, length, about.whole("vocab_size", 50368))


def _mixers(about: About, layers: int) -> tuple[str, ...]:
    """Every third layer is global, unless it is said layer by layer."""
    every = about.whole("global_attn_every_n_layers", 3) or 1
    usual = [_LOCAL if i % every else _GLOBAL for i in range(layers)]
    kinds = about.found.get("layer_types") or usual
    if len(kinds) != layers or any(kind not in _KINDS for kind in kinds):
        about.one_of("layer_types", usual, (usual,))
    return tuple(_KINDS[kind] for kind in kinds)


def _rotary(about: About, kind: str, old: str, usual: float) -> float:
    """The base of rotary positions in layers of this kind; older files have a field for each."""
    given = (about.found.get("rope_parameters") or {}).get(kind)
    if given is None:
        return about.number(f"{old}_rope_theta", usual)
    inner = About(about.where, given)
    inner.one_of("rope_type", "default", ("default",))
    return inner.number("rope_theta", usual)


def _settings(shape: Shape) -> dict[str, object]:
    c = shape.config
    kinds = {mixer: kind for kind, mixer in _KINDS.items()}
    used = c.mixer_options
    rope = {
        kinds[name]: {"rope_type": "default", "rope_theta": options["rotary"]}
        for name, options in used.items()
    }
    usual = {"rope_type": "default", "rope_theta": 10_000.0}
    return {
        "vocab_size": shape.vocabulary,
        "hidden_size": c.d,
        "num_hidden_layers": c.layers,
        "num_attention_heads": c.heads,
        "intermediate_size": c.ff,
        "hidden_activation": "gelu",
        "norm_eps": c.norm_eps,
        "norm_bias": False,
        "attention_bias": False,
        "mlp_bias": False,
        "mlp_dropout": c.dropout,
        "local_attention": 2 * used.get(LOCAL_ATTENTION, {"width": 64})["width"],
        "layer_types": [kinds[name] for name in c.layer_mixers()],
        "rope_parameters": dict.fromkeys(_KINDS, usual) | rope,
        "max_position_embeddings": shape.length,
        "pad_token_id": c.pad,
    }


MODERNBERT = Family(
    name="modernbert",
    architecture="ModernBertModel",
    prefix="model.",
    table=_TABLE,
    heads=("head.", "decoder.", "classifier."),
    mixers=(ATTENTION, LOCAL_ATTENTION),
    read=_read,
    settings=_settings,
    pooling="first",
)
