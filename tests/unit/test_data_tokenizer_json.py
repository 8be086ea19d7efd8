"""Others' tokenizers: gaps in their ids, specials added behind them, and what of a text is lost."""

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from subquad.data import tokenizer_json
from subquad.data.masking import Specials
from subquad.data.tokenizers import CLS, MASK, SEP, Tokenizer
from subquad.errors import SubquadError
from subquad.export.vocabulary import reading

LETTERS = "abcdefgh"


def added(i: int, content: str, *, special: bool = True) -> dict[str, Any]:
    usual = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return usual | {"id": i, "content": content, "special": special}


def saved(folder: Path, model: Any, *tokens: dict[str, Any], **parts: Any) -> Path:
    inner = tokenizers.Tokenizer(model)
    for name, part in parts.items():
        setattr(inner, name, part)
    about = json.loads(inner.to_str()) | {"added_tokens": list(tokens)}
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(about))
    return path


def word_level(folder: Path) -> Path:
    words = {"<unk>": 0, "a": 1, "b": 2, "c": 5, "d": 900}
    model = models.WordLevel(vocab=words, unk_token="<unk>")
    return saved(folder, model, pre_tokenizer=pre_tokenizers.WhitespaceSplit())


def bpe(folder: Path) -> Path:
    words = {c: i for i, c in enumerate(LETTERS)} | {"ab": 9, "abcd": 900, "cd": 11}
    model = models.BPE(vocab=words, merges=[("a", "b"), ("c", "d"), ("ab", "cd")])
    return saved(folder, model, decoder=decoders.Fuse())


def word_piece(folder: Path) -> Path:
    words = {"[UNK]": 0, "a": 1, "##b": 2, "c": 5, "d": 900}
    model = models.WordPiece(vocab=words, unk_token="[UNK]")
    return saved(folder, model, pre_tokenizer=pre_tokenizers.WhitespaceSplit())


def added_far_behind(folder: Path) -> Path:
    words = {"<unk>": 0, "a": 1, "b": 2}
    model = models.WordLevel(vocab=words, unk_token="<unk>")
    tokens = (added(20, "[CLS]"), added(900, "c", special=False))
    return saved(folder, model, *tokens, pre_tokenizer=pre_tokenizers.WhitespaceSplit())


GAPS = [word_level, bpe, word_piece, added_far_behind]


@pytest.mark.parametrize("make", GAPS)
def test_gaps_in_the_ids(tmp_path: Path, make: Any) -> None:
    tokenizer = Tokenizer.load(make(tmp_path))
    assert len(tokenizer) == 901
    ids = tokenizer.encode(["abcd" if make is bpe else "a d c"])[0]
    assert max(ids) == 900
    assert [tokenizer.token(i) for i in (7, 300)] == (["h", ""] if make is bpe else ["", ""])
    tokenizer.save(tmp_path / "again.json")
    again = Tokenizer.load(tmp_path / "again.json")
    assert again.encode(["a d c abcd"]) == tokenizer.encode(["a d c abcd"])


@pytest.mark.parametrize("make", GAPS)
def test_specials_take_no_other_tokens_id(tmp_path: Path, make: Any) -> None:
    before = Tokenizer.load(make(tmp_path))
    after = before.with_specials(CLS, SEP, MASK)
    new = [after.special(name) for name in (CLS, SEP, MASK)]
    assert len(set(new)) == 3
    text = "abcdefgh" if make is bpe else "a b c d"
    assert after.encode([text]) == before.encode([text])
    assert not {*after.encode([text])[0]} & {*new}
    assert len(after) == 901 + sum(i >= 901 for i in new if i is not None)
    ordinary = set(Specials.of(after).ordinary.tolist())
    assert ordinary == after.ids() - after.specials()


def test_ids_that_cannot_be_kept(tmp_path: Path) -> None:
    pieces = models.Unigram([("<unk>", 0.0), ("a", -1.0), ("b", -2.0)], 0, False)
    path = saved(tmp_path, pieces, added(10, "[CLS]"))
    with pytest.raises(SubquadError, match=r"'\[CLS\]' has id 10, which leaves a gap .* Unigram"):
        Tokenizer.load(path)
    model = models.WordLevel(vocab={"<unk>": 0, "a": 1, "b": 2}, unk_token="<unk>")
    path = saved(tmp_path, model, added(1, "[CLS]"))
    with pytest.raises(SubquadError, match=r"'\[CLS\]' and 'a' have the same id, 1"):
        Tokenizer.load(path)


def test_a_page_lists_no_token_where_there_is_a_gap(tmp_path: Path) -> None:
    Tokenizer.train("chars", ["abc"], 10).save(tmp_path / "a.json")
    about = json.loads((tmp_path / "a.json").read_text())
    about["model"]["vocab"] |= {"z": 12}
    (tmp_path / "a.json").write_text(json.dumps(about))
    listed = reading(Tokenizer.load(tmp_path / "a.json"))
    assert listed["tokens"] == ["", "", "", *"abc", *[""] * 6, "z"]
    assert listed["unknown"] == 2


def bert(folder: Path, **options: bool) -> Path:
    words = ["[UNK]", "[CLS]", "[SEP]", *"abcdeABCDE,.\"'", *(f"##{c}" for c in "abcdeABCDE")]
    model = models.WordPiece(vocab={w: i for i, w in enumerate(words)}, unk_token="[UNK]")
    return saved(
        folder,
        model,
        normalizer=normalizers.BertNormalizer(**options),
        pre_tokenizer=pre_tokenizers.BertPreTokenizer(),
        decoder=decoders.WordPiece(),
    )


@pytest.mark.parametrize("lowercase", [True, False])
def test_word_pieces_lose_text_and_say_so(tmp_path: Path, lowercase: bool) -> None:
    tokenizer = Tokenizer.load(bert(tmp_path, lowercase=lowercase))
    assert not tokenizer.exact
    assert tokenizer.unknown == 0
    assert tokenizer.encode(["z a"])[0][0] == 0


BYTES = {
    "pre_tokenizer": pre_tokenizers.ByteLevel(add_prefix_space=False),
    "decoder": decoders.ByteLevel(),
}
ALPHABET = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}


@pytest.mark.parametrize(
    ("exact", "parts"),
    [
        (True, {}),
        (False, {"normalizer": normalizers.NFKC()}),
        (False, {"normalizer": normalizers.NFC()}),
        (False, {"normalizer": normalizers.Lowercase()}),
        (False, {"normalizer": normalizers.Strip()}),
        (False, {"normalizer": normalizers.StripAccents()}),
        (False, {"normalizer": normalizers.Replace("``", '"')}),
        (False, {"normalizer": normalizers.Replace(Regex("q{3}"), "q")}),
        (False, {"pre_tokenizer": pre_tokenizers.ByteLevel(add_prefix_space=True)}),
        (False, {"decoder": decoders.Metaspace()}),
    ],
)
def test_whether_text_survives(tmp_path: Path, exact: bool, parts: dict[str, Any]) -> None:
    path = saved(tmp_path, models.BPE(vocab=ALPHABET, merges=[]), **(BYTES | parts))
    assert Tokenizer.load(path).exact is exact


def test_text_survives_what_is_trained_here() -> None:
    text = ["The cat's ①  mat\n\t Ünï-cödé 😀\r\n"] * 20
    for kind, exact in (("bpe", True), ("unigram", True), ("chars", True), ("bytes", True)):
        assert Tokenizer.train(kind, text, 400).exact is exact, kind
    assert not Tokenizer.train("words", text, 400).exact


def test_characters_that_a_model_drops(tmp_path: Path) -> None:
    path = saved(tmp_path, models.BPE(vocab={"a": 0, "b": 1}, merges=[]), decoder=decoders.Fuse())
    assert not tokenizer_json.is_exact(Tokenizer.load(path)._inner, None)
