"""GPT-2 (Radford et al. 2019): pre-norm, learned positions from 0, tanh GELU, and an output
layer tied to the embedding. Its linear layers are stored as [in, out]."""

from collections.abc import Mapping

from torch import Tensor

from subquad.mixers import ATTENTION
from subquad.models.config import ModelConfig
from subquad.models.foreign.about import About
from subquad.models.foreign.family import Family, Shape
from subquad.models.foreign.names import Table

_ACTIVATIONS = {"gelu_new": "tanh", "gelu_pytorch_tanh": "tanh", "gelu": "exact", "relu": "relu"}
_TABLE: Table = (
    ("embedding.tokens", "wte"),
    ("embedding.positions", "wpe"),
    ("blocks.{i}.norm_mixer", "h.{i}.ln_1"),
    ("blocks.{i}.mixer.projections.qkv", "h.{i}.attn.c_attn"),
    ("blocks.{i}.mixer.projections.out", "h.{i}.attn.c_proj"),
    ("blocks.{i}.norm_ff", "h.{i}.ln_2"),
    ("blocks.{i}.ff.inner", "h.{i}.mlp.c_fc"),
    ("blocks.{i}.ff.outer", "h.{i}.mlp.c_proj"),
    ("norm", "ln_f"),
)
_LINEAR = (".qkv.weight", ".out.weight", ".inner.weight", ".outer.weight")


def _read(about: About) -> Shape:
    for name in ("scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn"):
        about.one_of(name, False, (False,))
    about.one_of("add_cross_attention", False, (False,))
    about.one_of("scale_attn_weights", True, (True,))
    about.one_of("tie_word_embeddings", True, (True,))
    d = about.whole("n_embd", 768)
    config = ModelConfig(
        mixers=(ATTENTION,),
        d=d,
        layers=about.whole("n_layer", 12),
        heads=about.whole("n_head", 12),
        ff=about.whole("n_inner", 4 * d),
        norm="pre",
        norm_eps=about.number("layer_norm_epsilon", 1e-5),
        gelu=_ACTIVATIONS[about.one_of("activation_function", "gelu_new", tuple(_ACTIVATIONS))],  # type: ignore[arg-type]
        positions="learned",
        dropout=about.number("resid_pdrop", 0.1),
        tied=True,
    )
    return Shape(config, about.whole("n_positions", 1024), about.whole("vocab_size", 50257))


def _settings(shape: Shape) -> dict[str, object]:
    c = shape.config
    names = {"tanh": "gelu_new", "exact": "gelu", "relu": "relu"}
    return {
        "vocab_size": shape.vocabulary,
        "n_positions": shape.length,
        "n_embd": c.d,
        "n_layer": c.layers,
        "n_head": c.heads,
        "n_inner": c.ff,
        "activation_function": names[c.gelu],
        "layer_norm_epsilon": c.norm_eps,
        "resid_pdrop": c.dropout,
        "embd_pdrop": c.dropout,
        "attn_pdrop": c.dropout,
    }


def _transposed(tensors: Mapping[str, Tensor], shape: Shape) -> dict[str, Tensor]:  # noqa: ARG001
    return {n: t.mT.contiguous() if n.endswith(_LINEAR) else t for n, t in tensors.items()}


GPT2 = Family(
    name="gpt2",
    architecture="GPT2LMHeadModel",
    prefix="transformer.",
    table=_TABLE,
    heads=("lm_head.", "score.", "multiple_choice_head."),
    read=_read,
    settings=_settings,
    causal=True,
    coming=_transposed,
    going=_transposed,
)
