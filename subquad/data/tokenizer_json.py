"""A ``tokenizer.json`` of anybody's: its ids as the file has them, and whether text survives it.

The ``tokenizers`` library numbers added tokens anew when it reads a file, behind as many ids as the
model has tokens. Where ids have gaps, that is another number than the file's, or another token's.
"""

import json
from collections.abc import Iterator

import tokenizers

from subquad.data import alphabets
from subquad.errors import SubquadError

#: Words of the vocabulary that are tried to see whether text survives.
TRIED = 48
#: What normalisers change, one from each of their kinds: case, accents, compatible forms, spaces,
#: control characters, marks of typesetters, and letters that have no case at all.
_HARD = "AÉéßİıſ①ﬁＡ２½™…µΩΩÅ\u00a0\u3000\u200b\u200d\ufeff\t\n\r\x07\u0301‘”–—'\"`▁_Ġ😀👍🏽漢가אع्"


def parse(text: str, name: object) -> tokenizers.Tokenizer:
    """The tokenizer of a file's ``text``, its tokens with the ids that they have there; ``name`` is
    the file's, for messages.

    Raises:
        SubquadError: two tokens have one id, or an id cannot be kept.
        Exception: it is not a tokenizer.json (the library's own, of no narrower kind).
    """
    inner = tokenizers.Tokenizer.from_str(text)
    about = json.loads(text)
    added = {str(t["content"]): int(t["id"]) for t in about.get("added_tokens") or ()}
    if moved := [token for token, i in added.items() if inner.token_to_id(token) != i]:
        words = about["model"].get("vocab")
        if not isinstance(words, dict):
            raise SubquadError(
                f"{name}: the added token {moved[0]!r} has id {added[moved[0]]}, which leaves a "
                f"gap in the ids of a {about['model']['type']}: number its tokens without gaps"
            )
        about["model"]["vocab"] = words | {token: added[token] for token in moved}
        inner = tokenizers.Tokenizer.from_str(json.dumps(about))
    _refuse_doubles(inner, name)
    return inner


def _refuse_doubles(inner: tokenizers.Tokenizer, name: object) -> None:
    seen: dict[int, str] = {}
    for token, i in sorted(inner.get_vocab().items()):
        if (other := seen.setdefault(i, token)) != token:
            raise SubquadError(f"{name}: the tokens {other!r} and {token!r} have the same id, {i}")


def size(inner: tokenizers.Tokenizer) -> int:
    """Rows that an embedding needs: the largest id and one, however many ids are not used."""
    return max(inner.get_vocab().values(), default=-1) + 1


def with_specials(inner: tokenizers.Tokenizer, *names: str) -> tokenizers.Tokenizer:
    """A copy with these specials, those that it lacks behind the largest id."""
    about = json.loads(inner.to_str())
    words = about["model"].get("vocab")
    if isinstance(words, dict) and size(inner) > int(inner.get_vocab_size()):
        lacking = [name for name in names if inner.token_to_id(name) is None]
        words |= {name: size(inner) + i for i, name in enumerate(lacking)}
    copy = parse(json.dumps(about), "the tokenizer")
    return alphabets.with_specials(copy, *names)


def unknown(inner: tokenizers.Tokenizer) -> int | None:
    """The id of what the vocabulary lacks, by the model's own account; None if it has none."""
    model = json.loads(inner.to_str())["model"]
    if model.get("unk_id") is not None:
        return int(model["unk_id"])
    named = model.get("unk_token") or alphabets.UNKNOWN
    found = inner.token_to_id(named)
    return None if found is None else int(found)


def is_exact(inner: tokenizers.Tokenizer, unknown: int | None) -> bool:
    """Whether text survives, but for unknown tokens: found by trying. What normalisers,
    pre-tokenizers and decoders lose is too various to be read off their names."""
    if _replaces_by_rule(inner):
        return False
    return all(_survives(inner, text, unknown) for text in _trials(inner))


def _survives(inner: tokenizers.Tokenizer, text: str, unknown: int | None) -> bool:
    ids = inner.encode(text, add_special_tokens=False).ids
    return unknown in ids or inner.decode(ids, skip_special_tokens=True) == text


def _trials(inner: tokenizers.Tokenizer) -> Iterator[str]:
    vocabulary: dict[str, int] = inner.get_vocab()
    ids = sorted(vocabulary.values())
    added = inner.get_added_tokens_decoder().values()
    plain = [token.content for token in added if not token.special]
    some = (inner.decode([i]) for i in ids[:: max(1, len(ids) // TRIED)])
    words = [word for text in some if (word := text.strip())]
    for word in (*words, *plain, *_patterns(json.loads(inner.to_str()))):
        yield from (word, word.upper(), word.title(), f" {word}", f"{word} ", f"{word}  {word}")
        yield from (
            f"{word}, {word}.",
            f"{word} . {word}",
            f"a {word}{word} b",
            f"{word}\r\n{word}",
        )
    for character in _HARD:
        yield from (character, f"a{character}b", f"a {character} b")


def _patterns(part: object) -> Iterator[str]:
    """The texts that a part replaces, wherever it names them."""
    if isinstance(part, dict):
        if part.get("type") == "Replace" and "String" in part["pattern"]:
            yield part["pattern"]["String"]
        for inside in part.values():
            yield from _patterns(inside)
    if isinstance(part, list):
        for inside in part:
            yield from _patterns(inside)


def _replaces_by_rule(inner: tokenizers.Tokenizer) -> bool:
    """Whether a normaliser replaces what a regular expression finds: nobody can try that out."""
    about = json.loads(inner.to_str())["normalizer"] or {}
    parts = about.get("normalizers", [about])
    return any(
        "Regex" in part.get("pattern", {}) for part in parts if part.get("type") == "Replace"
    )
