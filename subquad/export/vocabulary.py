"""A tokenizer as a page needs it: the bytes of each token, and a way to encode that is exact."""

from typing import Any

from subquad.data.alphabets import FIRST, PAD, SEPARATOR, UNKNOWN, Bytes, Chars
from subquad.data.tokenizers import Tokenizer
from subquad.errors import UsageError


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
    texts = [tokenizer.token(i) for i in range(len(tokenizer))]
    specials = (PAD, SEPARATOR, UNKNOWN)
    return {
        "kind": "chars",
        "tokens": ["" if text in specials else text for text in texts],
        "unknown": tokenizer.unknown,
    }
