"""A tokenizer as a page needs it: its tokens, and a way to encode that is exact."""

from typing import Any

from subquad.data.alphabets import FIRST, PAD, SEPARATOR, UNKNOWN, Bytes, Chars
from subquad.data.tokenizers import Tokenizer
from subquad.errors import UsageError
from subquad.export import characters
from subquad.export.pieces import pieces


def vocabulary(tokenizer: Tokenizer) -> dict[str, Any]:
    """``kind`` (how to encode) and, for characters, ``tokens``: the text of each id, specials
    empty, and ``unknown``: the id of any other character.

    Raises:
        UsageError: the page cannot encode as this tokenizer does.
    """
    if isinstance(tokenizer.alphabet, Bytes):
        return {"kind": "bytes", "first": FIRST}
    if not isinstance(tokenizer.alphabet, Chars):
        raise UsageError(
            "a page encodes bytes and chars exactly; this run's tokenizer is another: train with "
            "--tokenizer bytes or chars"
        )
    return _listed("chars", tokenizer)


def reading(tokenizer: Tokenizer) -> dict[str, Any]:
    """The same for a page that reads and never writes, which knows the others too.

    Raises:
        UsageError: the page cannot encode as this tokenizer does.
    """
    if tokenizer.alphabet is not None:
        return vocabulary(tokenizer)
    if not tokenizer.has_words:
        found = pieces(tokenizer)
        if found is None:
            raise UsageError(
                "a page encodes words, bytes, chars, and bpe and unigram as trained here; this "
                "run's tokenizer is another: --to onnx exports it"
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
