"""Reads and writes FNet models in the format of the ``transformers`` library.

A folder contains ``config.json`` and ``model.safetensors``. Tensors keep their values and layout;
only names change, so that a round trip is exact to the byte. Old files are supported: LayerNorm's
``gamma`` and ``beta``, a saved ``position_ids``, DFT matrices, and tied weights saved twice.

========================================  ===============================================
here                                      there (without ``fnet.`` in a bare FNetModel)
========================================  ===============================================
encoder.embedding.tokens, .positions      fnet.embeddings.word_, .position_embeddings
encoder.embedding.types                   fnet.embeddings.token_type_embeddings
encoder.embedding.norm, .projection       fnet.embeddings.LayerNorm, .projection
encoder.blocks.i.norm_mixer               fnet.encoder.layer.i.fourier.output.LayerNorm
encoder.blocks.i.ff.inner, .outer         fnet.encoder.layer.i.intermediate, .output .dense
encoder.blocks.i.norm_ff                  fnet.encoder.layer.i.output.LayerNorm
pooler.dense                              fnet.pooler.dense
masked.dense, .norm, .bias                cls.predictions.transform.dense, .LayerNorm, .bias
order                                     cls.seq_relationship
head                                      classifier, or qa_outputs
========================================  ===============================================
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from subquad.errors import SubquadError
from subquad.models import shards
from subquad.models.config import ModelConfig
from subquad.models.model import Classifier
from subquad.models.pretraining import Pretraining, TokenClassifier
from subquad.storage import refuse_no_numbers, write_tensors, write_text

CONFIG, WEIGHTS = "config.json", "model.safetensors"

_RULES = (
    (r"encoder\.embedding\.tokens", "fnet.embeddings.word_embeddings"),
    (r"encoder\.embedding\.positions", "fnet.embeddings.position_embeddings"),
    (r"encoder\.embedding\.types", "fnet.embeddings.token_type_embeddings"),
    (r"encoder\.embedding\.norm", "fnet.embeddings.LayerNorm"),
    (r"encoder\.embedding\.projection", "fnet.embeddings.projection"),
    (r"encoder\.blocks\.(\d+)\.norm_mixer", r"fnet.encoder.layer.\1.fourier.output.LayerNorm"),
    (r"encoder\.blocks\.(\d+)\.ff\.inner", r"fnet.encoder.layer.\1.intermediate.dense"),
    (r"encoder\.blocks\.(\d+)\.ff\.outer", r"fnet.encoder.layer.\1.output.dense"),
    (r"encoder\.blocks\.(\d+)\.norm_ff", r"fnet.encoder.layer.\1.output.LayerNorm"),
    (r"pooler\.dense", "fnet.pooler.dense"),
    (r"masked\.dense", "cls.predictions.transform.dense"),
    (r"masked\.norm", "cls.predictions.transform.LayerNorm"),
    (r"masked(?=\.bias$)", "cls.predictions"),
    (r"order", "cls.seq_relationship"),
)

#: For each transformers class: our model, its heads, and transformers' name of the head.
ARCHITECTURES: dict[str, tuple[type[nn.Module], tuple[str, ...], str]] = {
    "FNetModel": (Pretraining, (), ""),
    "FNetForPreTraining": (Pretraining, ("masked", "order"), ""),
    "FNetForMaskedLM": (Pretraining, ("masked",), ""),
    "FNetForNextSentencePrediction": (Pretraining, ("order",), ""),
    "FNetForSequenceClassification": (Classifier, (), "classifier"),
    "FNetForMultipleChoice": (Classifier, (), "classifier"),
    "FNetForTokenClassification": (TokenClassifier, (), "classifier"),
    "FNetForQuestionAnswering": (TokenClassifier, (), "qa_outputs"),
}

#: transformers' field → our field, and transformers' default.
_FIELDS: dict[str, tuple[str, Any]] = {
    "hidden_size": ("d", 768),
    "num_hidden_layers": ("layers", 12),
    "intermediate_size": ("ff", 3072),
    "hidden_dropout_prob": ("dropout", 0.1),
    "type_vocab_size": ("types", 4),
    "layer_norm_eps": ("norm_eps", 1e-12),
    "pad_token_id": ("pad", 3),
}
_TANH_GELU = ("gelu_new", "gelu_pytorch_tanh")


@dataclass(frozen=True)
class Exchanged:
    """A model, with what is needed to save it for ``transformers``."""

    architecture: str
    config: ModelConfig
    model: nn.Module
    vocabulary: int
    length: int
    labels: tuple[str, ...] = ()


def load(folder: str | Path, *, padding: str = "fixed") -> Exchanged:
    """Load a model saved by ``transformers``, in evaluation mode.

    Args:
        folder: contains ``config.json`` and ``model.safetensors``.
        padding: ``"fixed"`` pads all sequences to the maximum length, as in pretraining;
            ``"own-length"`` makes results independent of padding, but computes another function.

    Raises:
        SubquadError: it is not an FNet, or a setting or tensor is not supported; it is named.
    """
    folder = Path(folder)
    about = _about(folder)
    architecture = _architecture(about, folder)
    where = folder / CONFIG
    length = int(_number(about, "max_position_embeddings", 512, where))
    options = {"padding": padding} | ({"length": length} if padding == "fixed" else {})
    given: dict[str, Any] = {
        ours: _number(about, theirs, usual, where) for theirs, (ours, usual) in _FIELDS.items()
    }
    config = ModelConfig(
        mixers=("fnet",),
        mixer_options={"fnet": options},
        projection=True,
        initialisation="fnet",
        heads=1,
        **given,
    )
    try:
        config.check(causal=False)
    except ValueError as error:
        raise SubquadError(f"{where}: {error}") from None
    found = _tensors(folder / WEIGHTS)
    head = ARCHITECTURES[architecture][2]
    classes = len(found.get(f"{head}.weight", ())) if head else 0
    vocabulary = int(_number(about, "vocab_size", 32000, where))
    model = _model(architecture, config, vocabulary, length, classes)
    _fill(model, found, architecture, folder / WEIGHTS)
    names = about.get("id2label") or {}
    if not isinstance(names, dict):
        raise SubquadError(f"{where}: id2label is {names!r}; expected an object of names by number")
    labels = tuple(str(names.get(str(i), i)) for i in range(classes))
    return Exchanged(architecture, config, model.eval(), vocabulary, length, labels)


def save(given: Exchanged, folder: str | Path) -> None:
    """Save a model for ``transformers``, to be loaded with the class ``given.architecture``.

    Raises:
        SubquadError: transformers has no such model, or the folder cannot be written.
    """
    folder, config = Path(folder), given.config
    _same_function(given)
    names = {name: _theirs(name, given.architecture) for name in given.model.state_dict()}
    tensors = {
        names[name]: tensor.detach().cpu().contiguous().clone()
        for name, tensor in given.model.state_dict().items()
    }
    about: dict[str, Any] = {
        "architectures": [given.architecture],
        "model_type": "fnet",
        "vocab_size": given.vocabulary,
        "max_position_embeddings": given.length,
        "hidden_act": _TANH_GELU[0],
        "tie_word_embeddings": True,
        "use_tpu_fourier_optimizations": False,
    }
    about |= {theirs: getattr(config, ours) for theirs, (ours, _) in _FIELDS.items()}
    if given.labels:
        about["id2label"] = {str(i): label for i, label in enumerate(given.labels)}
        about["label2id"] = {label: i for i, label in enumerate(given.labels)}
    write_tensors(folder / WEIGHTS, tensors, {"format": "pt"})
    write_text(folder / CONFIG, json.dumps(about, indent=2, ensure_ascii=False) + "\n")


def _about(folder: Path) -> dict[str, Any]:
    try:
        about: dict[str, Any] = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SubquadError(f"{folder / CONFIG} cannot be read: {error}") from None
    if not isinstance(about, dict) or about.get("model_type") != "fnet":
        kind = about.get("model_type") if isinstance(about, dict) else about
        raise SubquadError(f"{folder} contains a model of type {kind!r}, not 'fnet'")
    act = about.get("hidden_act") or _TANH_GELU[0]
    if act not in _TANH_GELU:
        raise SubquadError(
            f"{folder / CONFIG}: hidden_act {act!r} is not supported; expected "
            f"{' or '.join(_TANH_GELU)}"
        )
    return about


def _number(about: Mapping[str, Any], name: str, usual: Any, where: Path) -> Any:
    """A numeric field; ``usual`` if it is absent or null, as in transformers.

    Raises:
        SubquadError: it is not a number; the message names the field.
    """
    value = about.get(name)
    if value is None:
        return usual
    kind = float if isinstance(usual, float) else int
    if isinstance(value, bool) or not isinstance(value, (int, kind)) or value < 0:
        what = "number" if kind is float else "whole number"
        raise SubquadError(f"{where}: {name} is {value!r}; expected a {what}")
    return kind(value)


def _architecture(about: dict[str, Any], folder: Path) -> str:
    named = about.get("architectures") or ["FNetModel"]
    found = named[0] if isinstance(named, list) else named
    if found not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise SubquadError(f"{folder / CONFIG}: architecture {found!r} is not one of {known}")
    return str(found)


def _model(
    architecture: str, config: ModelConfig, vocabulary: int, length: int, classes: int
) -> nn.Module:
    cls, heads, _ = ARCHITECTURES[architecture]
    if cls is Pretraining:
        return Pretraining(config, vocabulary=vocabulary, length=length, heads=heads)
    if cls is TokenClassifier:
        return TokenClassifier(config, vocabulary=vocabulary, length=length, classes=classes)
    return Classifier(
        config, vocabulary=vocabulary, length=length, classes=classes, pooling="pooler"
    )


def _tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by current names, without constants and duplicates of tied weights."""
    raw = shards.read(path)
    refuse_no_numbers(path, raw)
    found = {}
    for name, tensor in raw.items():
        name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
        name = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name).removeprefix("fnet.")
        if not name.endswith(("position_ids", "dft_mat_hidden", "dft_mat_seq")):
            found[name] = tensor
    decoder = found.pop("cls.predictions.decoder.weight", None)
    words = found.get("embeddings.word_embeddings.weight")
    if decoder is not None and words is not None and not torch.equal(decoder, words):
        raise SubquadError(f"{path}: the decoder is not tied to the word embeddings")
    bias = found.pop("cls.predictions.decoder.bias", None)
    if bias is not None and not torch.equal(found.setdefault("cls.predictions.bias", bias), bias):
        raise SubquadError(f"{path}: cls.predictions.bias and its decoder's bias differ")
    return found


def _theirs(name: str, architecture: str) -> str:
    head = ARCHITECTURES[architecture][2]
    new = name
    for ours, theirs in (*_RULES, *(((r"head", head),) if head else ())):
        new, count = re.subn(f"^{ours}", theirs, name)
        if count:
            break
    else:
        raise SubquadError(f"{architecture} has no place for {name}")
    return new.removeprefix("fnet.") if architecture == "FNetModel" else new


def _fill(model: nn.Module, found: Mapping[str, Tensor], architecture: str, path: Path) -> None:
    wanted = {
        _theirs(name, architecture).removeprefix("fnet."): tensor
        for name, tensor in model.state_dict().items()
    }
    missing, extra = sorted(wanted.keys() - found.keys()), sorted(found.keys() - wanted.keys())
    wrong = sorted(n for n in wanted.keys() & found.keys() if wanted[n].shape != found[n].shape)
    if missing or extra or wrong:
        raise SubquadError(
            f"{path} does not match {architecture}: missing {missing or 'none'}, unexpected "
            f"{extra or 'none'}, wrong shape {wrong or 'none'}"
        )
    for name, tensor in wanted.items():
        tensor.copy_(found[name])


def _same_function(given: Exchanged) -> None:
    """Raise ``SubquadError`` if ``transformers`` would compute something else."""
    config, model = given.config, given.model
    wrong = [
        f"{name} is {getattr(config, name)!r} instead of {theirs!r}"
        for name, theirs in (
            ("norm", "post"),
            ("positions", "learned"),
            ("projection", True),
        )
        if getattr(config, name) != theirs
    ]
    others = sorted(set(config.layer_mixers()) - {"fnet"})
    wrong += [f"it has layers of {', '.join(others)}"] if others else []
    wrong += [] if config.types else ["it has no token types"]
    if isinstance(model, Classifier) and model.pooling != "pooler":
        wrong.append(f"pooling is {model.pooling!r} instead of 'pooler'")
    if (kind := config.mixer_options.get("fnet", {}).get("transform", "fourier")) != "fourier":
        wrong.append(f"the transform is {kind!r}")
    if wrong:
        raise SubquadError(f"transformers' FNet cannot represent this model: {'; '.join(wrong)}")
