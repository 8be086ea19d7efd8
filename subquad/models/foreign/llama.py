"""Llama (Touvron et al. 2023; SmolLM2 too) and its relatives Mistral and Qwen2: pre-norm with RMS
norms, rotary positions, gated feed-forward networks with SiLU, keys and values in fewer heads."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from subquad.mixers import ATTENTION
from subquad.models.config import ModelConfig
from subquad.models.foreign.about import About
from subquad.models.foreign.family import Family, Shape
from subquad.models.foreign.names import Table

_TABLE: Table = (
    ("embedding.tokens", "embed_tokens"),
    ("blocks.{i}.norm_mixer", "layers.{i}.input_layernorm"),
    (
        "blocks.{i}.mixer.projections.qkv",
        "layers.{i}.self_attn.q_proj",
        "layers.{i}.self_attn.k_proj",
        "layers.{i}.self_attn.v_proj",
    ),
    ("blocks.{i}.mixer.projections.out", "layers.{i}.self_attn.o_proj"),
    ("blocks.{i}.norm_ff", "layers.{i}.post_attention_layernorm"),
    ("blocks.{i}.ff.inner", "layers.{i}.mlp.gate_proj", "layers.{i}.mlp.up_proj"),
    ("blocks.{i}.ff.outer", "layers.{i}.mlp.down_proj"),
    ("norm", "norm"),
    ("head", "lm_head"),
)


def _shape(about: About, biases: str, **usual: Any) -> Shape:
    about.one_of("hidden_act", "silu", ("silu",))
    about.one_of("mlp_bias", False, (False,))
    about.one_of("rope_scaling", None, (None,))
    d, heads = about.whole("hidden_size", 4096), about.whole("num_attention_heads", 32)
    if heads and about.whole("head_dim", d // heads) * heads != d:
        about.one_of("head_dim", d // heads, (d // heads,))
    options = {
        "kv_heads": about.whole("num_key_value_heads", heads),
        "biases": biases,
        "rotary": _rotary(about),
    }
    config = ModelConfig(
        mixers=(ATTENTION,),
        mixer_options={ATTENTION: options},
        d=d,
        layers=about.whole("num_hidden_layers", 32),
        heads=heads,
        ff=about.whole("intermediate_size", 11008),
        norm="pre",
        norm_eps=about.number("rms_norm_eps", 1e-6),
        gelu="silu",
        glu=True,
        rms=True,
        biases=False,
        positions="none",
        pad=about.whole("pad_token_id", 0),
        dropout=0.0,
        tied=bool(about.one_of("tie_word_embeddings", usual.get("tied", False), (True, False))),
    )
    length = about.whole("max_position_embeddings", usual.get("length", 2048))
    return Shape(config, length, about.whole("vocab_size", 32000))


def _rotary(about: About) -> float:
    """The base of rotary positions; transformers 5 keeps it in an object."""
    given = about.found.get("rope_parameters")
    if given is None:
        return about.number("rope_theta", 10_000.0)
    inner = About(about.where, given if isinstance(given, dict) else {})
    inner.one_of("rope_type", "default", ("default",))
    return inner.number("rope_theta", 10_000.0)


def _llama(about: About) -> Shape:
    about.one_of("attention_bias", False, (False,))
    return _shape(about, "none")


def _mistral(about: About) -> Shape:
    length = about.whole("max_position_embeddings", 4096 * 32)
    window = about.whole("sliding_window", length)
    if window < length:
        about.one_of("sliding_window", None, (None,))
    return _shape(about, "none", length=length)


def _qwen2(about: About) -> Shape:
    about.one_of("use_sliding_window", False, (False,))
    return _shape(about, "qkv", length=32768)


def _settings(shape: Shape) -> dict[str, object]:
    c = shape.config
    options = c.mixer_options[ATTENTION]
    return {
        "vocab_size": shape.vocabulary,
        "hidden_size": c.d,
        "num_hidden_layers": c.layers,
        "num_attention_heads": c.heads,
        "num_key_value_heads": options["kv_heads"],
        "intermediate_size": c.ff,
        "hidden_act": "silu",
        "rms_norm_eps": c.norm_eps,
        "rope_parameters": {"rope_type": "default", "rope_theta": options["rotary"]},
        "max_position_embeddings": shape.length,
        "tie_word_embeddings": c.tied,
    }


def _without_tied(tensors: Mapping[str, Tensor], shape: Shape) -> dict[str, Tensor]:
    """A tied output layer is in some files a second time."""
    return {n: t for n, t in tensors.items() if not (shape.config.tied and n == "head.weight")}


LLAMA = Family(
    name="llama",
    architecture="LlamaForCausalLM",
    prefix="model.",
    table=_TABLE,
    heads=("score.", "qa_outputs."),
    read=_llama,
    settings=_settings,
    causal=True,
    coming=_without_tied,
)
MISTRAL = replace(
    LLAMA,
    name="mistral",
    architecture="MistralForCausalLM",
    read=_mistral,
    settings=lambda shape: _settings(shape) | {"sliding_window": None},
)
QWEN2 = replace(LLAMA, name="qwen2", architecture="Qwen2ForCausalLM", read=_qwen2)
