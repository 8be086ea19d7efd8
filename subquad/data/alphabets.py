"""Tokenizers whose tokens are single bytes or characters. ``tokenizers`` describes them; NumPy,
which needs no list of words to find a byte, encodes them some ten times as fast."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers

#: Fills rows up; its id is 0 in every trained tokenizer.
PAD = "<pad>"
#: Starts a text, and stands between two; its id is 1.
SEPARATOR = "<sep>"
#: Stands for what the vocabulary lacks, where it can lack something; its id is 2.
UNKNOWN = "<unk>"

#: Id of byte 0; byte b is FIRST + b.
FIRST = 2

_ANY = r"[\s\S]"


@dataclass(frozen=True)
class Bytes:
    """Byte b of UTF-8 is id FIRST + b."""

    def encode(self, text: str, length: int | None) -> npt.NDArray[np.int32]:
        ids = np.frombuffer(text[:length].encode(), dtype=np.uint8).astype(np.int32) + FIRST
        return ids[:length]


@dataclass(frozen=True)
class Chars:
    """Character c is id ``table[ord(c)]``."""

    table: npt.NDArray[np.int32]

    def encode(self, text: str, length: int | None) -> npt.NDArray[np.int32]:
        points = np.frombuffer(text[:length].encode("utf-32-le"), dtype="<u4")
        return cast(npt.NDArray[np.int32], self.table[points])


def bytes_tokenizer() -> tokenizers.Tokenizer:
    """256 bytes and two specials; nothing to learn."""
    vocabulary = {PAD: 0, SEPARATOR: 1} | {c: FIRST + b for b, c in enumerate(byte_names())}
    inner = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    return with_specials(inner, PAD, SEPARATOR)


def chars_tokenizer(texts: Iterable[str], size: int) -> tokenizers.Tokenizer:
    """The most frequent characters, ids in the order of their code points."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    ranked = sorted(counts, key=lambda c: (-counts[c], c))[: size - 3]
    specials = (PAD, SEPARATOR, UNKNOWN)
    vocabulary = {token: i for i, token in enumerate((*specials, *sorted(ranked)))}
    inner = tokenizers.Tokenizer(models.WordLevel(vocab=vocabulary, unk_token=UNKNOWN))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(_ANY), "isolated")
    inner.decoder = decoders.Fuse()
    return with_specials(inner, *specials)


def of(inner: tokenizers.Tokenizer) -> Bytes | Chars | None:
    """The fast twin of a tokenizer that this module made, also after saving and loading."""
    made = json.loads(inner.to_str())
    model, split = made["model"], made["pre_tokenizer"]
    if made["normalizer"] is not None or split is None:
        return None
    vocabulary = model.get("vocab")
    if model["type"] == "BPE" and split["type"] == "ByteLevel":
        same = not model["merges"] and vocabulary == bytes_tokenizer().get_vocab()
        return Bytes() if same and not split["use_regex"] else None
    if model["type"] == "WordLevel" and split.get("pattern") == {"Regex": _ANY}:
        table = np.full(0x110000, vocabulary[UNKNOWN], dtype=np.int32)
        for token, i in vocabulary.items():
            if len(token) == 1:
                table[ord(token)] = i
        return Chars(table)
    return None


def with_specials(inner: tokenizers.Tokenizer, *names: str) -> tokenizers.Tokenizer:
    inner.add_special_tokens([AddedToken(name, special=True) for name in names])
    return inner


def byte_names() -> list[str]:
    """The characters that GPT-2 writes for bytes 0..255: printable ones for themselves, the others
    from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(b if b in printable else next(others)) for b in range(256)]
