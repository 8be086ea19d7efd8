"""Bodies of other people's models: folders in the format of the ``transformers`` library.

A folder contains ``config.json``, ``model.safetensors`` (also in several files) and a tokenizer; of
sentence-transformers, also ``1_Pooling``. Every setting that changes what is computed is either
honoured or refused by name, and every tensor either used or refused; only heads are left out,
because another task needs another.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from subquad.errors import SubquadError
from subquad.models import shards
from subquad.models.config import ModelConfig
from subquad.models.foreign import sentences
from subquad.models.foreign.about import CONFIG, About
from subquad.models.foreign.bert import BERT, CAMEMBERT, DISTILBERT, ROBERTA, XLM_ROBERTA
from subquad.models.foreign.family import Family, Shape
from subquad.models.foreign.gpt2 import GPT2
from subquad.models.foreign.llama import LLAMA, MISTRAL, QWEN2
from subquad.models.foreign.modernbert import MODERNBERT
from subquad.models.foreign.names import to_ours, to_theirs
from subquad.models.model import Pooling
from subquad.storage import refuse_no_numbers, write_tensors, write_text

__all__ = ["FAMILIES", "Body", "Family", "Shape", "is_foreign", "load", "save"]

WEIGHTS = "model.safetensors"
#: Tokenizers, in order of preference.
TOKENIZERS = ("tokenizer.json", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model")

_ENCODERS = (BERT, ROBERTA, XLM_ROBERTA, CAMEMBERT, DISTILBERT, MODERNBERT)
#: model_type → family.
FAMILIES = {family.name: family for family in (*_ENCODERS, GPT2, LLAMA, MISTRAL, QWEN2)}


@dataclass(frozen=True)
class Body:
    """A model without its head.

    Args:
        family: where it comes from.
        shape: architecture and sizes.
        tensors: fp32, under the names that ``Classifier`` (or ``CausalModel``) has for them.
        tokenizer: its file.
        pooling: how its maker summarises a row.
        length: tokens that it is meant to read at most, of those it has positions for.
        ends: the ids that stand before and end a text, of causal bodies.
        heads: how many tensors of heads were left out.
    """

    family: Family
    shape: Shape
    tensors: dict[str, Tensor]
    tokenizer: Path
    pooling: Pooling
    length: int
    heads: int
    ends: tuple[int | None, int | None] = (None, None)

    @property
    def config(self) -> ModelConfig:
        return self.shape.config


def is_foreign(folder: Path) -> bool:
    """Whether a folder has a ``config.json`` of transformers, of whatever model."""
    try:
        found = json.loads((sentences.body_of(folder) / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and "model_type" in found and "task" not in found


def load(folder: str | Path) -> Body:
    """Read a folder.

    Raises:
        SubquadError: a file is missing or damaged, or the model has something that is not
            supported; it is named.
    """
    said = sentences.read(Path(folder))
    folder = said.body
    about = About.read(folder)
    family = FAMILIES.get(str(about.found.get("model_type")))
    if family is None:
        raise SubquadError(
            f"{about.where}: model_type is {about.found.get('model_type')!r}; supported are "
            f"{', '.join(FAMILIES)}"
        )
    shape = family.read(about)
    try:
        shape.config.check(causal=family.causal)
    except ValueError as error:
        raise SubquadError(f"{about.where}: {error}") from None
    tokenizer = _tokenizer(folder)
    path = folder / WEIGHTS
    found, heads = _body(shards.read(path), family)
    refuse_no_numbers(path, found)
    tensors = family.coming(to_ours(family.table, found, str(path)), shape)
    _check_sizes(path, tensors, shape, family)
    length = min(shape.length, said.length or shape.length)
    ends = (about.token("bos_token_id"), about.token("eos_token_id"))
    pooling = said.pooling or family.pooling
    return Body(family, shape, tensors, tokenizer, pooling, length, heads, ends)


def save(body: Body, folder: str | Path) -> None:
    """Write ``config.json`` and ``model.safetensors`` for ``transformers``; the tokenizer is copied
    by whoever has it.

    Raises:
        SubquadError: transformers' model of this family cannot represent the body.
    """
    folder, family = Path(folder), body.family
    if others := sorted(set(body.config.layer_mixers()) - {*family.mixers}):
        raise SubquadError(f"transformers' {family.name} has no layers of {', '.join(others)}")
    tensors = to_theirs(
        family.table, family.going(body.tensors, body.shape), body.config.d, family.name
    )
    about = {
        "architectures": [family.architecture],
        "model_type": family.name,
        "torch_dtype": "float32",
        **family.settings(body.shape),
    }
    write_tensors(folder / WEIGHTS, tensors, {"format": "pt"})
    write_text(folder / CONFIG, json.dumps(about, indent=2) + "\n")


def _tokenizer(folder: Path) -> Path:
    for name in TOKENIZERS:
        if (folder / name).exists():
            return folder / name
    only = " (vocab.txt alone is not enough)" if (folder / "vocab.txt").exists() else ""
    raise SubquadError(
        f"{folder} has no {' or '.join(TOKENIZERS[:2])}{only}: a body cannot read without its "
        "tokenizer; transformers writes it with AutoTokenizer.from_pretrained(FOLDER)"
        ".save_pretrained(FOLDER)"
    )


def _body(raw: dict[str, Tensor], family: Family) -> tuple[dict[str, Tensor], int]:
    """The tensors of the body in fp32, by current names without prefix, and the number of others.

    Old files have LayerNorm's ``gamma`` and ``beta``, and constants such as ``position_ids``.
    """
    found: dict[str, Tensor] = {}
    heads = 0
    for name, tensor in raw.items():
        plain = name.removeprefix(family.prefix)
        if plain.startswith(family.heads):
            heads += 1
            continue
        if plain.endswith((".position_ids", ".token_type_ids", ".attn.bias", ".masked_bias")):
            continue
        plain = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", plain)
        plain = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", plain)
        found[plain] = tensor.to(torch.float32)
    return found, heads


def _check_sizes(path: Path, tensors: dict[str, Tensor], shape: Shape, family: Family) -> None:
    """Compare names and shapes with a model of this shape, which is built without memory."""
    from subquad.models.model import CausalModel, Classifier

    with torch.device("meta"):
        model: torch.nn.Module
        if family.causal:
            model = CausalModel(
                shape.config,
                inputs=shape.vocabulary,
                outputs=shape.vocabulary,
                length=shape.length,
            )
        else:
            model = Classifier(
                shape.config, classes=1, vocabulary=shape.vocabulary, length=shape.length
            )
    wanted = {
        name: list(tensor.shape)
        for name, tensor in model.state_dict().items()
        if family.causal or not name.startswith("head.")
    }
    missing = sorted(wanted.keys() - tensors.keys())
    wrong = [
        f"{n} is {list(tensors[n].shape)} instead of {wanted[n]}"
        for n in sorted(wanted.keys() & tensors.keys())
        if list(tensors[n].shape) != wanted[n]
    ]
    extra = sorted(tensors.keys() - wanted.keys() - {"pooler.dense.weight", "pooler.dense.bias"})
    if missing or wrong or extra:
        parts = [f"it lacks {', '.join(missing[:4])}"] if missing else []
        parts += wrong[:4] + ([f"unexpected {', '.join(extra[:4])}"] if extra else [])
        raise SubquadError(f"{path} does not fit its {CONFIG}: {'; '.join(parts)}")
