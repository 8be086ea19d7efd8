"""Weights of Fastformer's released PyTorch code, under its names, into models of ours.

Two of its parameters have no place here because they change nothing: the biases of the scores
(``query_att``, ``key_att``, ``att_fc2``), which a softmax takes off again.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from subquad.models.config import ModelConfig
from subquad.models.model import Classifier

#: Released name → ours, inside one layer.
_LAYER = {
    "attention.output.dense": "dense",
    "attention.output.LayerNorm": "norm_mixer",
    "intermediate.dense": "ff.inner",
    "output.dense": "ff.outer",
    "output.LayerNorm": "norm_ff",
}
#: Released name → ours, around the layers. The encoder comes alone, or in the example's classifier.
_AROUND = {
    "position_embeddings": "encoder.embedding.positions",
    "LayerNorm": "encoder.embedding.norm",
    "poolers.0.att_fc1": "pooler.inner",
    "poolers.0.att_fc2": "pooler.score",
    "word_embedding": "encoder.embedding.tokens",
    "dense_linear": "head",
}
_SCORES = ("query_att", "key_att", "att_fc2")
_MODEL = "fastformer_model."


def released(config: ModelConfig) -> ModelConfig:
    """``config`` with the form of the released encoder; its sizes stay. Its classifier sums a row
    up by attention (``pooling="attention"``)."""
    return replace(
        config,
        mixers=("fastformer",),
        norm="post",
        norm_eps=1e-12,
        mixer_dense=True,
        gelu="exact",
        positions="learned",
    )


def mixer_weights(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The released ``FastSelfAttention`` (``query``, ``query_att``, ``key``, ``key_att``,
    ``transform``) as the ``state_dict`` of a ``Fastformer``.

    Raises:
        ValueError: names are missing or unknown; they are listed.
    """
    names = ("query", "query_att", "key", "key_att", "transform")
    wanted = {f"{name}.{kind}" for name in names for kind in ("weight", "bias")}
    _same_names(set(state), wanted)
    return {
        "qk.weight": torch.cat([state["query.weight"], state["key.weight"]]),
        "qk.bias": torch.cat([state["query.bias"], state["key.bias"]]),
        "score_q.weight": state["query_att.weight"],
        "score_k.weight": state["key_att.weight"],
        "transform.weight": state["transform.weight"],
        "transform.bias": state["transform.bias"],
    }


def classifier_weights(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A released encoder, alone or in the example's classifier, under the names of ours.

    Raises:
        ValueError: a name that the released code does not have.
    """
    ours: dict[str, Tensor] = {}
    layers: dict[str, dict[str, Tensor]] = {}
    for full, tensor in state.items():
        name, _, kind = full.removeprefix(_MODEL).rpartition(".")
        part, _, rest = name.partition(".")
        number, _, inside = rest.partition(".")
        if part == "encoders" and inside.startswith("attention.self."):
            short = inside.removeprefix("attention.self.")
            layers.setdefault(number, {})[f"{short}.{kind}"] = tensor
        elif part == "encoders" and inside in _LAYER:
            ours[f"encoder.blocks.{number}.{_LAYER[inside]}.{kind}"] = tensor
        elif name not in _AROUND:
            raise ValueError(f"{full!r} is not a parameter of the released Fastformer")
        elif not (name.endswith(_SCORES) and kind == "bias"):
            ours[f"{_AROUND[name]}.{kind}"] = tensor
    for number, layer in layers.items():
        for name, tensor in mixer_weights(layer).items():
            ours[f"encoder.blocks.{number}.mixer.{name}"] = tensor
    return ours


def load_released(model: Classifier, state: Mapping[str, Tensor]) -> None:
    """Put released weights into ``model``, made with ``released(config)``. An encoder without word
    embedding or head leaves the model's own.

    Raises:
        ValueError: names or shapes do not fit; they are listed, and nothing is changed.
    """
    found, own = classifier_weights(state), model.state_dict()
    optional = {"encoder.embedding.tokens.weight", "head.weight", "head.bias"}
    _same_names(set(found) | optional, set(own))
    wrong = [
        f"{name}: {tuple(tensor.shape)} for {tuple(own[name].shape)}"
        for name, tensor in found.items()
        if tensor.shape != own[name].shape
    ]
    if wrong:
        raise ValueError(f"released weights of another shape: {', '.join(sorted(wrong))}")
    model.load_state_dict(own | found)


def _same_names(found: set[str], wanted: set[str]) -> None:
    missing, extra = sorted(wanted - found), sorted(found - wanted)
    if missing or extra:
        raise ValueError(
            f"released weights do not fit: missing {', '.join(missing) or 'none'}; "
            f"unexpected {', '.join(extra) or 'none'}"
        )
