"""A tokenizer as data for a page, which must encode exactly as the tokenizer does."""

from typing import Any

from subquad.data.alphabets import FIRST, PAD, SEPARATOR, UNKNOWN, Bytes, Chars
from subquad.data.tokenizers import Tokenizer
from subquad.errors import UsageError
from subquad.export import characters
from subquad.export.subwords import subwords


def vocabulary(tokenizer: Tokenizer) -> dict[str, Any]:
    """The tokenizer of a page that generates: ``kind`` (how to encode) and, for characters,
    ``tokens`` (the text of each id, empty for special tokens) and ``unknown`` (the id of all other
    characters).

    Raises:
        UsageError: pages that generate do not support this tokenizer.
    """
    if isinstance(tokenizer.alphabet, Bytes):
        return {"kind": "bytes", "first": FIRST}
    if not isinstance(tokenizer.alphabet, Chars):
        raise UsageError(
            "a page that generates only supports the tokenizers bytes and chars, and this run has "
            "another: train with --tokenizer bytes or chars"
        )
    return _listed("chars", tokenizer)


def reading(tokenizer: Tokenizer) -> dict[str, Any]:
    """The tokenizer of a page that only reads text, which supports words and subwords, too.

    Raises:
        UsageError: pages do not support this tokenizer.
    """
    if tokenizer.alphabet is not None:
        return vocabulary(tokenizer)
    if not tokenizer.has_words:
        found = subwords(tokenizer)
        if found is None:
            raise UsageError(
                "a page only supports the tokenizers words, bytes and chars, and bpe and unigram "
                "as trained by subquad, and this run has another: use --to onnx"
            )
        return found
    word, space = characters.classes(r"\w", r"\s")
    tables = {"word": word, "space": space} | characters.foldings()
    return _listed("words", tokenizer) | tables


def _listed(kind: str, tokenizer: Tokenizer) -> dict[str, Any]:
    texts = [tokenizer.token(i) for i in range(len(tokenizer))]
    never = {texts[i] for i in tokenizer.specials()} | {PAD, SEPARATOR, UNKNOWN}
    return {
        "kind": kind,
        "tokens": ["" if text in never else text for text in texts],
        "unknown": tokenizer.unknown,
    }
