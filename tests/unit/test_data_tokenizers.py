"""Tokenizers: round trips, one id for padding, the fast forms equal to the library's."""

from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from subquad.data import tokenizers as ours
from subquad.data.tokenizers import KINDS, Tokenizer
from subquad.errors import SubquadError, UsageError

TEXTS = [
    "The film isn't good, it's great: 10/10! 🎉",
    "Ein schöner Film — «größer» als der letzte…\r\n\tİstanbul ﬁn",
    "<pad> <sep> <unk> are words here\0",
    "नमस्ते 你好 👩‍👩‍👧 é e\u0301",
] * 20
EXACT = ("bytes", "bpe", "unigram")

trained = {kind: Tokenizer.train(kind, TEXTS, 400) for kind in KINDS}  # type: ignore[arg-type]
anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
seen = st.text(sorted(set("".join(TEXTS))), max_size=60)


def library(tokenizer: Tokenizer, path: Path) -> tokenizers.Tokenizer:
    """What another program gets from the saved file."""
    tokenizer.save(path)
    inner = tokenizers.Tokenizer.from_file(str(path))
    inner.encode_special_tokens = True
    return inner


@pytest.mark.parametrize("kind", EXACT)
@given(text=anything)
def test_any_unicode_survives(kind: str, text: str) -> None:
    tokenizer = trained[kind]
    assert tokenizer.decode(tokenizer.encode([text])[0]) == text


@given(text=seen)
def test_seen_characters_survive(text: str) -> None:
    tokenizer = trained["chars"]
    ids = tokenizer.encode([text])[0]
    assert tokenizer.decode(ids) == text
    assert len(ids) == len(text)


@given(text=anything)
def test_bytes_are_their_values(text: str) -> None:
    assert trained["bytes"].encode([text])[0] == [byte + 2 for byte in text.encode()]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=200)
@given(text=st.one_of(anything, seen, st.text(st.characters(max_codepoint=0x17F), max_size=60)))
def test_fast_forms_equal_the_library(
    kind: str, tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    if kind not in libraries:
        path = tmp_path_factory.mktemp("tokenizers") / f"{kind}.json"
        libraries[kind] = library(trained[kind], path)
    expected = libraries[kind].encode(text, add_special_tokens=False).ids
    assert trained[kind].encode([text])[0] == expected
    assert trained[kind].encode([text], 5)[0] == expected[:5]


libraries: dict[str, tokenizers.Tokenizer] = {}


@pytest.mark.parametrize("kind", KINDS)
def test_specials(kind: str) -> None:
    tokenizer = trained[kind]
    assert tokenizer._inner.token_to_id("<pad>") == 0
    assert tokenizer.separator == 1
    ids = tokenizer.encode(["<pad><sep>"])[0]
    assert not {0, 1} & set(ids)  # text is never a control token
    assert tokenizer.decode([0, 1, *ids, 0]) == tokenizer.decode(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded_and_trained_again(kind: str, tmp_path: Path) -> None:
    tokenizer = trained[kind]
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    again = Tokenizer.train(kind, iter(TEXTS), 400)  # type: ignore[arg-type]
    assert len({tokenizer.hash, loaded.hash, again.hash}) == 1
    assert loaded.encode(TEXTS[:4]) == again.encode(TEXTS[:4]) == tokenizer.encode(TEXTS[:4])
    assert len(loaded) == len(tokenizer) <= 400
    assert type(loaded._fast) is type(tokenizer._fast)


def test_words_are_for_classes() -> None:
    tokenizer = Tokenizer.train("words", ["It's GOOD, isn't it?", "ﬁne  good"], 100)
    assert tokenizer.decode(tokenizer.encode(["it's fine, GOOD unseen"])[0]) == "it's fine , good"
    assert tokenizer.encode(["unseen"])[0] == [2]
    many = ["common"] * 2000 + ["once"]
    assert Tokenizer.train("words", many, 100).encode(["common once"])[0] == [3, 2]


def test_words_of_a_long_text_are_cut_exactly() -> None:
    tokenizer = Tokenizer.train("words", ["abc " * 10, "x" * 500], 100)
    for text in ("abc " * 1000, "x" * 500 + " abc" * 100, "ab" * 5000 + " abc"):
        whole = tokenizer.encode([text])[0]
        for length in (1, 3, 50):
            assert tokenizer.encode([text], length)[0] == whole[:length]


def test_vocabulary_size_is_kept() -> None:
    assert len(Tokenizer.train("words", TEXTS, 10)) == 10
    chars = Tokenizer.train("chars", TEXTS, 10)
    assert len(chars) == 10
    assert chars.encode(["T你"])[0] == [2, 2]
    assert len(Tokenizer.train("bpe", TEXTS, 258)) == 258
    for kind, size in (("bpe", 257), ("unigram", 299), ("words", 3), ("chars", 3)):
        with pytest.raises(UsageError, match="too small"):
            Tokenizer.train(kind, TEXTS, size)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="'wordpiece' is not one of words, bpe"):
        Tokenizer.train("wordpiece", TEXTS, 500)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [[], [""], ["a"], [" "]])
def test_little_text(kind: str, texts: list[str]) -> None:
    if kind == "unigram" and not "".join(texts):
        with pytest.raises(SubquadError, match="no text to learn"):
            Tokenizer.train("unigram", texts, 400)
        return
    tokenizer = Tokenizer.train(kind, texts, 400)  # type: ignore[arg-type]
    assert tokenizer.encode(["", "ab"])[0] == []


def test_chunks_do_not_change_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = trained["bpe"].encode(TEXTS)
    monkeypatch.setattr(ours, "CHUNK", 100)
    assert trained["bpe"].encode(TEXTS) == expected
    ragged = trained["bpe"].ragged(iter(TEXTS), 7)
    assert [row.tolist() for row in ragged] == [ids[:7] for ids in expected]


def test_a_foreign_tokenizer(tmp_path: Path) -> None:
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "a": 1}, "[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    inner.enable_truncation(1)
    inner.enable_padding(length=9)
    inner.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.load(tmp_path / "tokenizer.json")
    assert tokenizer.encode(["a b a"]) == [[1, 0, 1]]
    assert tokenizer.separator is None


@pytest.mark.parametrize("content", [None, "", "{}", "[1]", '{"model": 3}', "\udcff"])
def test_not_a_tokenizer(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(SubquadError, match=r"tokenizer\.json"):
        Tokenizer.load(path)
