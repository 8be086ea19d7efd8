"""Byte-level subword tokenizers (BPE and Unigram, with GPT-2's pre-tokenization) for a page."""

import json
from typing import Any

from subquad.data.alphabets import byte_names
from subquad.data.tokenizers import Tokenizer
from subquad.export import characters

#: Settings that would change the tokenization; only these default values are supported.
_PLAIN: dict[str, dict[str, Any]] = {
    "BPE": {
        "dropout": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "byte_fallback": False,
        "ignore_merges": False,
    },
    "Unigram": {"byte_fallback": False},
}


def subwords(tokenizer: Tokenizer) -> dict[str, Any] | None:
    """The tokenizer as JSON-serialisable data, or None if pages do not support it.

    There is a ``kind`` and tables for splitting text; for BPE, ``bytes`` (the id of each byte) and
    ``merges`` (ids of the left, the right and the merged token, by priority, flattened); for
    Unigram, ``pieces`` and their ``scores``.
    """
    made = json.loads(tokenizer.to_json())
    model, kind = made["model"], made["model"]["type"]
    plain = _PLAIN.get(kind)
    if plain is None or made["normalizer"] is not None or not _split(made["pre_tokenizer"]):
        return None
    if any(model.get(name, usual) != usual for name, usual in plain.items()):
        return None
    if not all(token["special"] for token in made["added_tokens"]):
        return None
    found = _pairs(model) if kind == "BPE" else _scored(model)
    if found is None:
        return None
    letter, number, space = characters.classes(r"\p{L}", r"\p{N}", r"\s")
    return found | {"letter": letter, "number": number, "space": space, "unknown": None}


def _split(made: dict[str, Any] | None) -> bool:
    usual = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    return made is not None and all(made.get(name) == value for name, value in usual.items())


def _pairs(model: dict[str, Any]) -> dict[str, Any] | None:
    ids = model["vocab"]
    names = byte_names()
    if not all(name in ids for name in names):
        return None
    merges = [ids[name] for left, right in model["merges"] for name in (left, right, left + right)]
    return {"kind": "bpe", "bytes": [ids[name] for name in names], "merges": merges}


def _scored(model: dict[str, Any]) -> dict[str, Any] | None:
    texts = [text for text, _ in model["vocab"]]
    if model["unk_id"] is not None or not set(byte_names()) <= set(texts):
        return None
    scores = [score for _, score in model["vocab"]]
    return {"kind": "unigram", "pieces": texts, "scores": scores, "names": byte_names()}
