"""Text → token ids and back, learned from the training split only, through ``tokenizers``."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, Self, get_args

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

Kind = Literal["words", "bpe", "bytes"]
KINDS: tuple[str, ...] = get_args(Kind)

#: Fills rows up; its id is 0 in every tokenizer.
PAD = "<pad>"
#: Stands for what the vocabulary lacks.
UNKNOWN = "<unk>"


class Tokenizer:
    """A trained tokenizer: ``encode`` many texts, ``decode`` one row, ``save`` and ``load``."""

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        self._inner = inner

    @classmethod
    def train(cls, kind: str, texts: Iterable[str], size: int) -> Self:
        """Learn a vocabulary of at most ``size`` tokens."""
        inner, trainer = _untrained(kind, size)
        inner.train_from_iterator(texts, trainer)
        return cls(inner)

    def __len__(self) -> int:
        return int(self._inner.get_vocab_size())

    def encode(self, texts: Sequence[str], length: int | None = None) -> list[list[int]]:
        """Token ids of each text, cut to ``length``."""
        batch = self._inner.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids[:length] for encoding in batch]

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._inner.decode(list(ids), skip_special_tokens=True))

    def save(self, path: Path) -> None:
        self._inner.save(str(path))

    @classmethod
    def load(cls, path: Path) -> Self:
        return cls(tokenizers.Tokenizer.from_file(str(path)))


def _untrained(kind: str, size: int) -> tuple[tokenizers.Tokenizer, trainers.Trainer]:
    if kind == "words":
        inner = tokenizers.Tokenizer(models.WordLevel(unk_token=UNKNOWN))
        inner.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
        inner.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=False)]
        )
        trainer: trainers.Trainer = trainers.WordLevelTrainer(
            vocab_size=size, min_frequency=2, special_tokens=[PAD, UNKNOWN], show_progress=False
        )
        return inner, trainer
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size if kind == "bpe" else 0,
        special_tokens=[PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    return inner, trainer
