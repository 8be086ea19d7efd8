"""Loads the weights of Fastformer's released PyTorch code.

The biases of its scores (``query_att``, ``key_att``, ``att_fc2``) are ignored: they have no effect,
since a softmax does not change when a constant is added.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from subquad.models.config import ModelConfig
from subquad.models.model import Classifier

#: Released name → our name, within a layer.
_LAYER = {
    "attention.output.dense": "dense",
    "attention.output.LayerNorm": "norm_mixer",
    "intermediate.dense": "ff.inner",
    "output.dense": "ff.outer",
    "output.LayerNorm": "norm_ff",
}
#: Released name → our name, outside the layers, for the encoder and the example's classifier.
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
    """``config`` with the architecture of the released encoder and unchanged sizes. The released
    classifier uses ``pooling="attention"``."""
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
    """Convert the released ``FastSelfAttention`` (``query``, ``query_att``, ``key``, ``key_att``,
    ``transform``) to the ``state_dict`` of a ``Fastformer``.

    Raises:
        ValueError: names are missing or unknown; the message lists them.
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
    """Convert a released encoder, or the example's classifier, to our names.

    Raises:
        ValueError: a name does not exist in the released code.
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
    """Load released weights into ``model``, which was built with ``released(config)``. If they have
    no word embedding or head, the model keeps its own.

    Raises:
        ValueError: names or shapes do not match (the message lists them); nothing is changed.
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
        raise ValueError(f"released weights have the wrong shape: {', '.join(sorted(wrong))}")
    model.load_state_dict(own | found)


def _same_names(found: set[str], wanted: set[str]) -> None:
    missing, extra = sorted(wanted - found), sorted(found - wanted)
    if missing or extra:
        raise ValueError(
            f"released weights do not match: missing {', '.join(missing) or 'none'}; "
            f"unexpected {', '.join(extra) or 'none'}"
        )
