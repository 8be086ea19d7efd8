r"""Words and marks: tokens for classification. Lossy on purpose: NFKC, lower case, and words
outside the vocabulary are one token.

``tokenizers`` describes it. On a plain text, where NFKC changes nothing and ``\w`` means the same
to everybody, Python's ``re`` finds the same words several times as fast; every other text goes
through ``tokenizers``.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers
from tokenizers import Regex, models, normalizers, pre_tokenizers

from subquad.data.alphabets import PAD, SEPARATOR, UNKNOWN, with_specials

#: A word with its apostrophes, or one mark.
WORD = r"\w+(?:['’]\w+)*|[^\w\s]"
#: With fewer texts than this, words seen once are learned too.
FEW = 1000

#: ASCII but for four control characters that Python alone takes for spaces, accented letters of
#: Western Europe, and the marks of typesetters.
_PLAIN = re.compile("[\0-\x1b\x20-\x7fÀ-ÖØ-öø-ÿ‘’“”–—]*")
_WORD = re.compile(WORD)


@dataclass(frozen=True)
class Words:
    """The fast twin of a tokenizer of words."""

    inner: tokenizers.Tokenizer
    vocabulary: dict[str, int]
    unknown: int

    @classmethod
    def of(cls, inner: tokenizers.Tokenizer) -> "Words | None":
        """The twin of a tokenizer that this module made, also after saving and loading."""
        made: dict[str, Any] = json.loads(inner.to_str())
        frame = json.loads(_frame({UNKNOWN: 0}).to_str())
        parts = ("normalizer", "pre_tokenizer", "post_processor")
        if made["model"]["type"] != "WordLevel" or any(made[p] != frame[p] for p in parts):
            return None
        vocabulary = made["model"]["vocab"]
        return cls(inner, vocabulary, vocabulary[UNKNOWN])

    def encode(self, text: str, length: int | None) -> npt.NDArray[np.int32]:
        """The ids of a text, cut to ``length``."""
        if not _PLAIN.fullmatch(text):
            ids = self.inner.encode(text, add_special_tokens=False).ids
            return np.array(ids[:length], dtype=np.int32)
        words = _plain_words(text, length)
        get, unknown = self.vocabulary.get, self.unknown
        return np.array([get(word, unknown) for word in words], dtype=np.int32)


def train(texts: Iterable[str], size: int) -> tokenizers.Tokenizer:
    """The most frequent words; ids by frequency, then code points."""
    stream = iter(texts)
    head = list(islice(stream, FEW))
    least = 1 if len(head) < FEW else 2
    inner = _frame({UNKNOWN: 0})
    counts: Counter[str] = Counter()
    for text in chain(head, stream):
        counts.update(_plain_words(text, None) if _PLAIN.fullmatch(text) else _words(inner, text))
    specials = (PAD, SEPARATOR, UNKNOWN)
    ranked = sorted((-n, word) for word, n in counts.items() if n >= least)
    learned = [word for _, word in ranked[: size - len(specials)]]
    vocabulary = {token: i for i, token in enumerate((*specials, *learned))}
    return with_specials(_frame(vocabulary), *specials)


def _frame(vocabulary: dict[str, int]) -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(models.WordLevel(vocab=vocabulary, unk_token=UNKNOWN))
    inner.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(WORD), "removed", invert=True)
    return inner


def _words(inner: tokenizers.Tokenizer, text: str) -> Iterator[str]:
    normal = inner.normalizer.normalize_str(text)
    return (word for word, _ in inner.pre_tokenizer.pre_tokenize_str(normal))


def _plain_words(text: str, length: int | None) -> list[str]:
    """The first ``length`` words. A word is short, so most of a long text need not be read."""
    if length is not None and len(text) > 16 * length:
        words = _WORD.findall(text[: 16 * length].lower())
        if len(words) > length:  # so the last word taken was not cut
            return words[:length]
    return _WORD.findall(text.lower())[:length]
