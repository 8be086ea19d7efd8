"""A SentencePiece model file (``spiece.model``) as a tokenizer of the ``tokenizers`` library.

The file is a protocol buffer, read here by hand: pieces with scores and kinds, the algorithm
(Unigram or BPE: the file says which), and how text is normalised first. A ``tokenizer_config.json``
beside it, as ``transformers`` writes it, says whether text is put into lower case and loses its
accents; without one it keeps both, as FNet's does.
"""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers

from subquad.errors import SubquadError

#: Kinds of pieces.
UNKNOWN, CONTROL, USER, BYTE = 2, 3, 4, 6
UNIGRAM, BPE = 1, 2
_SPACE = "▁"
#: Special in BERT's family, whatever the file calls them.
_SPECIAL = ("[CLS]", "[SEP]", "[MASK]", "<pad>", "<unk>", "<s>", "</s>")


@dataclass(frozen=True)
class Piece:
    text: str
    score: float
    kind: int


@dataclass(frozen=True)
class Model:
    """What a file holds."""

    pieces: tuple[Piece, ...]
    algorithm: int
    byte_fallback: bool
    characters: bytes
    """The compiled map of characters to their normal form; empty = none."""
    prefix: bool
    squeeze: bool
    """Runs of spaces become one, and none stands at the ends."""


def load(path: Path) -> tokenizers.Tokenizer:
    """Read a model file.

    Raises:
        SubquadError: it is missing, not one, or of an algorithm that is neither Unigram nor BPE.
    """
    try:
        model = parse(path.read_bytes())
        about = _beside(path)
        return _tokenizer(model, path, about)
    except OSError as error:
        raise SubquadError(f"{path}: {error.strerror or error}") from None
    except (ValueError, IndexError, struct.error) as error:
        raise SubquadError(f"{path} is not a SentencePiece model: {error}") from None


def parse(data: bytes) -> Model:
    """The parts of the protocol buffer that decide how text is encoded."""
    pieces, trainer, normalizer = [], {}, {}
    for number, value in _fields(data):
        if number == 1:
            piece = dict(_fields(_bytes(value)))
            (score,) = struct.unpack("<f", _bytes(piece.get(2, bytes(4))))
            pieces.append(Piece(_bytes(piece[1]).decode(), score, int(piece.get(3, 1))))
        elif number == 2:
            trainer = dict(_fields(_bytes(value)))
        elif number == 3:
            normalizer = dict(_fields(_bytes(value)))
    if not pieces:
        raise ValueError("it has no pieces")
    return Model(
        tuple(pieces),
        algorithm=int(trainer.get(3, UNIGRAM)),
        byte_fallback=bool(trainer.get(35, 0)),
        characters=_bytes(normalizer.get(2, b"")),
        prefix=bool(normalizer.get(3, 1)),
        squeeze=bool(normalizer.get(4, 1)),
    )


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """(field number, value) of a message: an int, or the bytes of the others."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == 2:
            size, at = _varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire} at byte {at}")
        if at + size > len(data):
            raise ValueError(f"{size} bytes at byte {at} go beyond its end")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError(f"a number ({value}) stands where text is due")
    return value


def _beside(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.with_name("tokenizer_config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return found if isinstance(found, dict) else {}


def _tokenizer(model: Model, path: Path, about: dict[str, Any]) -> tokenizers.Tokenizer:
    unknown = next((i for i, p in enumerate(model.pieces) if p.kind == UNKNOWN), None)
    if unknown is None:
        raise ValueError("it has no unknown piece")
    inner: Any
    if model.algorithm == UNIGRAM:
        scores = [(p.text, p.score) for p in model.pieces]
        inner = models.Unigram(scores, unknown, model.byte_fallback)
    elif model.algorithm == BPE:
        inner = models.BPE(
            {p.text: i for i, p in enumerate(model.pieces)},
            merges(model.pieces),
            unk_token=model.pieces[unknown].text,
            fuse_unk=True,
            byte_fallback=model.byte_fallback,
        )
    else:
        raise SubquadError(f"{path} is of algorithm {model.algorithm}, neither Unigram nor BPE")
    made = tokenizers.Tokenizer(inner)
    made.normalizer = normalizers.Sequence(list(_normalizers(model, about)))
    scheme = "always" if model.prefix else "never"
    made.pre_tokenizer = pre_tokenizers.Metaspace(_SPACE, scheme)
    made.decoder = decoders.Metaspace(_SPACE, scheme)
    special = [p.text for p in model.pieces if p.kind in (UNKNOWN, CONTROL) or p.text in _SPECIAL]
    made.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in special])
    return made


def _normalizers(model: Model, about: dict[str, Any]) -> Iterator[Any]:
    if about:  # transformers' tokenizer of FNet and ALBERT
        yield normalizers.Replace("``", '"')
        yield normalizers.Replace("''", '"')
    if not about.get("keep_accents", True):
        yield normalizers.NFKD()
        yield normalizers.StripAccents()
    if about.get("do_lower_case", False):
        yield normalizers.Lowercase()
    if model.characters:
        yield normalizers.Precompiled(model.characters)
    if model.squeeze:
        yield normalizers.Strip()
        yield normalizers.Replace(Regex(" {2,}"), " ")


def merges(pieces: tuple[Piece, ...]) -> list[tuple[str, str]]:
    """The merges that a BPE model's pieces stand for, best first: a piece's score is its rank."""
    place = {p.text: i for i, p in enumerate(pieces)}
    found = []
    for piece in pieces:
        if piece.kind in (UNKNOWN, CONTROL, BYTE):
            continue
        parts = [(piece.text[:i], piece.text[i:]) for i in range(1, len(piece.text))]
        known = [(place[a], place[b], a, b) for a, b in parts if a in place and b in place]
        found += [(-piece.score, a, b) for _, _, a, b in sorted(known)]
    return [(a, b) for _, a, b in sorted(found, key=lambda merge: merge[0])]
