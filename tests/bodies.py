"""Tiny bodies in the format of transformers, with random weights."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import tokenizers
import torch
from tokenizers import models, normalizers, pre_tokenizers, processors

transformers = pytest.importorskip("transformers")

_WORDS = "a good bad film plot is was not the very it great poor . , ! and but of in"
WORDS = tuple(_WORDS.split())
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def write_tokenizer(path: Path, words: Sequence[str] = WORDS) -> None:
    """A WordPiece tokenizer as BERT's: lower case, accents stripped, [CLS] … [SEP]."""
    vocabulary = {word: i for i, word in enumerate((*SPECIAL, *words))}
    made = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    made.save(str(path))


def tiny_bert(folder: Path, *, layers: int = 2, d: int = 16, length: int = 64) -> Path:
    """A folder with a BERT of random weights."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(SPECIAL) + len(WORDS),
        hidden_size=d,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=d,
        max_position_embeddings=length,
        initializer_range=0.3,
    )
    model = transformers.BertModel(config, add_pooling_layer=False)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.1)
    model.save_pretrained(folder)
    write_tokenizer(folder / "tokenizer.json")
    return folder


def texts(n: int, words: int, seed: int = 0) -> list[str]:
    """Texts of random words, of ``words`` / 2 to ``words`` words each."""
    found = []
    random = torch.Generator().manual_seed(seed)
    for _ in range(n):
        size = int(torch.randint(words // 2, words + 1, (1,), generator=random))
        picks = torch.randint(len(WORDS), (size,), generator=random).tolist()
        found.append(" ".join(WORDS[i] for i in picks))
    return found
