"""Text → token ids and back, learned from the training split only, through ``tokenizers``.

| kind | a token is | text survives |
|---|---|---|
| bytes | a byte of UTF-8; id = byte + 2 | exactly |
| chars | a character seen in training | exactly, if its characters were seen |
| words | a word or a mark of punctuation | no: NFKC, lower case, rare words unknown; for classes |
| bpe | bytes merged by frequency | exactly |
| unigram | bytes grouped by likelihood | exactly |

Ids 0 and 1 are ``<pad>`` and ``<sep>`` in every trained one; text that spells them out is ordinary
text. Every kind is a ``tokenizer.json`` that the ``tokenizers`` library reads by itself.
"""

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal, Self, get_args

import numpy as np
import numpy.typing as npt
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from subquad.data import alphabets, sentencepiece, tokenizer_json, words
from subquad.data.alphabets import PAD, SEPARATOR
from subquad.data.framing import Frame
from subquad.data.ragged import Ragged
from subquad.errors import SubquadError, UsageError

Kind = Literal["words", "bpe", "unigram", "chars", "bytes"]
KINDS: tuple[str, ...] = get_args(Kind)

#: BERT's specials: the start of a row, the end of a segment, a token to be guessed.
CLS, SEP, MASK = "[CLS]", "[SEP]", "[MASK]"

#: Stands between two texts that belong together, as Unicode's unit separator is meant to.
PAIR = "\x1f"

#: Characters encoded at a time: the library's records of a batch take some 50 bytes for each.
CHUNK = 1 << 21


class Tokenizer:
    """A trained tokenizer: ``encode`` many texts, ``decode`` one row, ``save`` and ``load``."""

    def __init__(self, inner: tokenizers.Tokenizer, frame: Frame | None = None) -> None:
        inner.no_padding()
        inner.no_truncation()
        inner.encode_special_tokens = True
        self._inner = inner
        self._frame = frame
        self._fast = alphabets.of(inner) or words.Words.of(inner)
        self._size = tokenizer_json.size(inner)
        #: The id of what the vocabulary lacks, where there is one.
        self.unknown = tokenizer_json.unknown(inner)
        self._spelled = self._never_from_text()

    @classmethod
    def train(cls, kind: str, texts: Iterable[str], size: int) -> Self:
        """Learn a vocabulary of at most ``size`` tokens, specials included (bytes: always 258).

        Raises:
            UsageError: the kind is not known, or the size is too small for it.
        """
        if kind not in KINDS:
            raise UsageError(
                f"tokenizer {kind!r} is not one of {', '.join(KINDS)}; a tokenizer.json is loaded"
            )
        least = {"bpe": 258, "unigram": 300, "words": 4, "chars": 4}.get(kind, 0)
        if size < least:
            raise UsageError(f"a vocabulary of {size} is too small for {kind}: at least {least}")
        if kind == "bytes":
            return cls(alphabets.bytes_tokenizer())
        if kind == "chars":
            return cls(alphabets.chars_tokenizer(texts, size))
        if kind == "words":
            return cls(words.train(texts, size))
        return cls(_bpe(texts, size) if kind == "bpe" else _unigram(texts, size))

    def __len__(self) -> int:
        """Rows of an embedding: the largest id and one, also where ids have gaps."""
        return self._size

    def ids(self) -> set[int]:
        """All ids that stand for a token."""
        return set(self._inner.get_vocab().values())

    @property
    def separator(self) -> int | None:
        """The id that starts a text and stands between two; None in a foreign tokenizer without
        ``<sep>``."""
        found = self._inner.token_to_id(SEPARATOR)
        return None if found is None else int(found)

    def special(self, *names: str) -> int | None:
        """The id of the first of these tokens that there is."""
        found = (self._inner.token_to_id(name) for name in names)
        return next((int(i) for i in found if i is not None), None)

    def specials(self) -> set[int]:
        """The ids of all special tokens: text never encodes to them, but for the unknown one."""
        added = self._inner.get_added_tokens_decoder()
        return {int(i) for i, token in added.items() if token.special}

    def with_specials(self, *names: str) -> Self:
        """The same with these specials, those that it lacks at the end."""
        return type(self)(tokenizer_json.with_specials(self._inner, *names), self._frame)

    def framed(self, before: int, after: int) -> Self:
        """The same, every text between these two ids, which count towards its length; the two texts
        of a pair (``PAIR`` between them) each with the second id behind it."""
        return type(self)(self._inner, Frame((before,), (after,), (after,)))

    def framed_as_its_own(self) -> Self:
        """The same, with the special tokens that the tokenizer itself puts around texts."""
        return type(self)(self._inner, Frame.of(self._inner))

    @property
    def frame(self) -> Frame | None:
        """The special tokens around every text; None if there are none."""
        return self._frame

    @cached_property
    def exact(self) -> bool:
        """Whether text survives, but for unknown tokens: not so with words, which are folded."""
        if self._fast is not None:
            return self.alphabet is not None
        return tokenizer_json.is_exact(self._inner, self.unknown)

    @property
    def alphabet(self) -> alphabets.Bytes | alphabets.Chars | None:
        """What its tokens are, where they are single bytes or characters."""
        return None if isinstance(self._fast, words.Words) else self._fast

    @property
    def has_words(self) -> bool:
        """Whether its tokens are words and signs, as ``words`` has them."""
        return isinstance(self._fast, words.Words)

    def token(self, i: int) -> str:
        """How the vocabulary spells token ``i``; "" where there is none."""
        return str(self._inner.id_to_token(i) or "")

    @property
    def hash(self) -> str:
        """Equal for tokenizers that encode equally because they are the same."""
        frame = "" if self._frame is None else repr(self._frame)
        return hashlib.sha256((self._inner.to_str() + frame).encode()).hexdigest()

    def encode(self, texts: Sequence[str], length: int | None = None) -> list[list[int]]:
        """Token ids of each text, cut to ``length``."""
        return [row.tolist() for row in self.rows(texts, length)]

    def rows(
        self, texts: Iterable[str], length: int | None = None
    ) -> Iterator[npt.NDArray[np.int32]]:
        """The same as arrays, one by one; memory stays small however many texts there are."""
        if self._frame is None:
            yield from self._bare(texts, length)
            return
        sizes: deque[int] = deque()  # of the texts whose parts are on their way

        def parts() -> Iterator[str]:
            for text in texts:
                both = text.split(PAIR, 1)
                sizes.append(len(both))
                yield from both

        encoded = self._bare(parts(), length)
        for first in encoded:
            row = [first, *(next(encoded) for _ in range(sizes.popleft() - 1))]
            yield self._frame.around(row, length)

    def _bare(self, texts: Iterable[str], length: int | None) -> Iterator[npt.NDArray[np.int32]]:
        if self._fast is not None:
            yield from (self._fast.encode(text, length) for text in texts)
            return
        for chunk in _chunks(texts):
            for encoding in self._inner.encode_batch_fast(chunk, add_special_tokens=False):
                row = np.array(encoding.ids[:length], dtype=np.int32)
                if self._spelled is not None and self.unknown is not None:
                    row[np.isin(row, self._spelled)] = self.unknown
                yield row

    def _never_from_text(self) -> npt.NDArray[np.int64] | None:
        """The specials that a model of whole pieces would find where a text spells them out."""
        if isinstance(self._inner.model, models.BPE) or self.unknown is None:
            return None
        return np.array(sorted(self.specials() - {self.unknown}), dtype=np.int64)

    def ragged(self, texts: Iterable[str], length: int | None = None) -> Ragged:
        """The same, together in memory."""
        return Ragged.of(self.rows(texts, length))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these ids; specials are left out."""
        return str(self._inner.decode([int(i) for i in ids], skip_special_tokens=True))

    def to_json(self) -> str:
        """What ``save`` writes, on one line."""
        return str(self._inner.to_str())

    def save(self, path: Path) -> None:
        path.write_text(self._inner.to_str(pretty=True), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Self:
        """A ``tokenizer.json``, ours or another's, or a SentencePiece ``.model``.

        Raises:
            SubquadError: it is missing or not one.
        """
        if path.suffix == ".model":
            return cls(sentencepiece.load(path))
        try:
            inner = tokenizer_json.parse(path.read_text(encoding="utf-8"), path)
        except OSError as e:
            raise SubquadError(f"{path}: {e.strerror or e}") from None
        except SubquadError:
            raise
        except Exception as e:  # the library raises plain Exception
            raise SubquadError(f"{path} is not a tokenizer.json: {e}") from None
        return cls(inner)


def _chunks(texts: Iterable[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for text in texts:
        chunk.append(text)
        size += len(text)
        if size >= CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _byte_level(inner: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return inner


def _bpe(texts: Iterable[str], size: int) -> tokenizers.Tokenizer:
    inner = _byte_level(tokenizers.Tokenizer(models.BPE()))
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=[PAD, SEPARATOR],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(texts, trainer)
    return inner


def _unigram(texts: Iterable[str], size: int) -> tokenizers.Tokenizer:
    inner = _byte_level(tokenizers.Tokenizer(models.Unigram()))
    trainer = trainers.UnigramTrainer(
        vocab_size=size,
        special_tokens=[PAD, SEPARATOR],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(texts, trainer)
    inner.model = _settled(inner)
    return inner


def _settled(inner: tokenizers.Tokenizer) -> models.Unigram:
    """The trained model without what changes from one training to the next, so that the same texts
    give the same tokenizer: parallel sums differ in their last digits, and bytes that never occur
    are ranked by chance, 0.0001 apart. Scores are rounded to 1/8192, which decimals hold exactly.
    """
    vocabulary = json.loads(inner.to_str())["model"]["vocab"]
    if any(score is None for _, score in vocabulary):
        raise SubquadError("there is no text to learn a vocabulary from")
    specials = [(token, score) for token, score in vocabulary if token in (PAD, SEPARATOR)]
    lowest = min(score for _, score in vocabulary)
    learned = [
        (token, round((lowest if len(token) == 1 and s < lowest + 0.03 else s) * 8192) / 8192)
        for token, s in vocabulary[len(specials) :]
    ]
    return models.Unigram(specials + sorted(learned, key=lambda piece: (-piece[1], piece[0])))
