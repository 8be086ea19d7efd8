"""BERT and its relatives with the same layers: BERT (Devlin et al. 2018; MiniLM, E5, BGE and GTE
too), RoBERTa (Liu et al. 2019; XLM-RoBERTa, CamemBERT), DistilBERT (Sanh et al. 2019).

All are post-norm with learned positions and exact GELU. RoBERTa counts positions from
``pad_token_id`` + 1: the rows below are never used, so that they are dropped here and written as
zeros.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from subquad.mixers import ATTENTION
from subquad.models.config import ModelConfig
from subquad.models.foreign.about import About
from subquad.models.foreign.family import Family, Shape
from subquad.models.foreign.names import Table

_GELU = {"gelu": "exact", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh"}
_LAYER, _OURS = "encoder.layer.{i}", "encoder.blocks.{i}"

_BERT: Table = (
    ("encoder.embedding.tokens", "embeddings.word_embeddings"),
    ("encoder.embedding.positions", "embeddings.position_embeddings"),
    ("encoder.embedding.types", "embeddings.token_type_embeddings"),
    ("encoder.embedding.norm", "embeddings.LayerNorm"),
    (
        f"{_OURS}.mixer.projections.qkv",
        f"{_LAYER}.attention.self.query",
        f"{_LAYER}.attention.self.key",
        f"{_LAYER}.attention.self.value",
    ),
    (f"{_OURS}.mixer.projections.out", f"{_LAYER}.attention.output.dense"),
    (f"{_OURS}.norm_mixer", f"{_LAYER}.attention.output.LayerNorm"),
    (f"{_OURS}.ff.inner", f"{_LAYER}.intermediate.dense"),
    (f"{_OURS}.ff.outer", f"{_LAYER}.output.dense"),
    (f"{_OURS}.norm_ff", f"{_LAYER}.output.LayerNorm"),
    ("pooler.dense", "pooler.dense"),
)
_DISTIL_LAYER = "transformer.layer.{i}"
_DISTILBERT: Table = (
    ("encoder.embedding.tokens", "embeddings.word_embeddings"),
    ("encoder.embedding.positions", "embeddings.position_embeddings"),
    ("encoder.embedding.norm", "embeddings.LayerNorm"),
    (
        f"{_OURS}.mixer.projections.qkv",
        f"{_DISTIL_LAYER}.attention.q_lin",
        f"{_DISTIL_LAYER}.attention.k_lin",
        f"{_DISTIL_LAYER}.attention.v_lin",
    ),
    (f"{_OURS}.mixer.projections.out", f"{_DISTIL_LAYER}.attention.out_lin"),
    (f"{_OURS}.norm_mixer", f"{_DISTIL_LAYER}.sa_layer_norm"),
    (f"{_OURS}.ff.inner", f"{_DISTIL_LAYER}.ffn.lin1"),
    (f"{_OURS}.ff.outer", f"{_DISTIL_LAYER}.ffn.lin2"),
    (f"{_OURS}.norm_ff", f"{_DISTIL_LAYER}.output_layer_norm"),
)


def _bert(about: About, *, eps: float, pad: int, types: int) -> Shape:
    _plain(about)
    length = about.whole("max_position_embeddings", 512)
    config = ModelConfig(
        mixers=(ATTENTION,),
        d=about.whole("hidden_size", 768),
        layers=about.whole("num_hidden_layers", 12),
        heads=about.whole("num_attention_heads", 12),
        ff=about.whole("intermediate_size", 3072),
        norm="post",
        norm_eps=about.number("layer_norm_eps", eps),
        gelu=_GELU[about.one_of("hidden_act", "gelu", tuple(_GELU))],  # type: ignore[arg-type]
        positions="learned",
        types=about.whole("type_vocab_size", types),
        pad=about.whole("pad_token_id", pad),
        dropout=about.number("hidden_dropout_prob", 0.1),
    )
    return Shape(config, length, about.whole("vocab_size", 30522))


def _plain(about: About) -> None:
    about.one_of("position_embedding_type", "absolute", ("absolute",))
    about.one_of("is_decoder", False, (False,))
    about.one_of("add_cross_attention", False, (False,))


def _roberta(about: About) -> Shape:
    """514 rows of positions are 512 that can be used, as pad_token_id is 1."""
    shape = _bert(about, eps=1e-12, pad=1, types=2)
    return Shape(shape.config, shape.length - shape.config.pad - 1, shape.vocabulary)


def _distilbert(about: About) -> Shape:
    about.one_of("sinusoidal_pos_embds", False, (False, True))  # saved as a table either way
    config = ModelConfig(
        mixers=(ATTENTION,),
        d=about.whole("dim", 768),
        layers=about.whole("n_layers", 6),
        heads=about.whole("n_heads", 12),
        ff=about.whole("hidden_dim", 3072),
        norm="post",
        norm_eps=1e-12,  # in transformers' code, not in its configuration
        gelu=_GELU[about.one_of("activation", "gelu", tuple(_GELU))],  # type: ignore[arg-type]
        positions="learned",
        pad=about.whole("pad_token_id", 0),
        dropout=about.number("dropout", 0.1),
    )
    return Shape(
        config, about.whole("max_position_embeddings", 512), about.whole("vocab_size", 30522)
    )


_POSITIONS = "encoder.embedding.positions.weight"


def _without_unused(tensors: Mapping[str, Tensor], shape: Shape) -> dict[str, Tensor]:
    return {**tensors, _POSITIONS: tensors[_POSITIONS][shape.config.pad + 1 :]}


def _with_unused(tensors: Mapping[str, Tensor], shape: Shape) -> dict[str, Tensor]:
    rows = tensors[_POSITIONS]
    unused = rows.new_zeros(shape.config.pad + 1, rows.shape[1])
    return {**tensors, _POSITIONS: torch.cat([unused, rows])}


def _bert_settings(shape: Shape) -> dict[str, object]:
    c = shape.config
    return {
        "vocab_size": shape.vocabulary,
        "hidden_size": c.d,
        "num_hidden_layers": c.layers,
        "num_attention_heads": c.heads,
        "intermediate_size": c.ff,
        "hidden_act": "gelu" if c.gelu == "exact" else "gelu_new",
        "hidden_dropout_prob": c.dropout,
        "attention_probs_dropout_prob": c.dropout,
        "max_position_embeddings": shape.length,
        "type_vocab_size": c.types,
        "layer_norm_eps": c.norm_eps,
        "pad_token_id": c.pad,
    }


def _roberta_settings(shape: Shape) -> dict[str, object]:
    return _bert_settings(shape) | {"max_position_embeddings": shape.length + shape.config.pad + 1}


def _distilbert_settings(shape: Shape) -> dict[str, object]:
    c = shape.config
    return {
        "vocab_size": shape.vocabulary,
        "dim": c.d,
        "n_layers": c.layers,
        "n_heads": c.heads,
        "hidden_dim": c.ff,
        "activation": "gelu" if c.gelu == "exact" else "gelu_new",
        "dropout": c.dropout,
        "attention_dropout": c.dropout,
        "max_position_embeddings": shape.length,
        "pad_token_id": c.pad,
        "sinusoidal_pos_embds": False,
    }


#: Heads of task models, which start anew.
_HEADS = ("cls.", "classifier.", "lm_head.", "qa_outputs.", "pre_classifier.", "vocab_")

BERT = Family(
    name="bert",
    architecture="BertModel",
    prefix="bert.",
    table=_BERT,
    heads=_HEADS,
    read=lambda about: _bert(about, eps=1e-12, pad=0, types=2),
    settings=_bert_settings,
    pooling="first",
)
ROBERTA = Family(
    name="roberta",
    architecture="RobertaModel",
    prefix="roberta.",
    table=_BERT,
    heads=_HEADS,
    read=_roberta,
    settings=_roberta_settings,
    pooling="first",
    coming=_without_unused,
    going=_with_unused,
)
XLM_ROBERTA = replace(ROBERTA, name="xlm-roberta", architecture="XLMRobertaModel")
CAMEMBERT = replace(ROBERTA, name="camembert", architecture="CamembertModel")
DISTILBERT = Family(
    name="distilbert",
    architecture="DistilBertModel",
    prefix="distilbert.",
    table=_DISTILBERT,
    heads=_HEADS,
    read=_distilbert,
    settings=_distilbert_settings,
    pooling="first",
)
