"""``spiece.model`` files: the ids that SentencePiece itself gave. ``golden_sentencepiece.json``
holds two small models, and their ids of a few texts."""

import base64
import json
from pathlib import Path

import pytest

from subquad.data import sentencepiece
from subquad.data.masking import Specials
from subquad.data.tokenizers import Tokenizer
from subquad.errors import SubquadError

GOLDEN = json.loads((Path(__file__).parent.parent / "golden_sentencepiece.json").read_text("utf-8"))
every_kind = pytest.mark.parametrize("kind", ["unigram", "bpe"])


def written(folder, kind):
    path = folder / "spiece.model"
    path.write_bytes(base64.b64decode(GOLDEN[kind]["model"]))
    return path


@every_kind
def test_ids_are_sentencepieces_also_after_saving(kind, tmp_path):
    tokenizer = Tokenizer.load(written(tmp_path, kind))
    assert tokenizer.encode(GOLDEN["texts"]) == GOLDEN[kind]["ids"]
    tokenizer.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.encode(GOLDEN["texts"]) == GOLDEN[kind]["ids"]
    assert again.decode(again.encode(["a class"])[0]) == "a class"


@every_kind
def test_specials_are_known_and_never_come_from_text(kind, tmp_path):
    tokenizer = Tokenizer.load(written(tmp_path, kind))
    specials = Specials.of(tokenizer)
    assert (specials.pad, specials.cls, specials.sep, specials.mask) == (3, 4, 5, 6)
    ids = tokenizer.encode(["[CLS] a [SEP] b [MASK] <pad>"])[0]
    assert not {3, 4, 5, 6} & set(ids)


@every_kind
def test_case_and_accents_are_kept_unless_the_folder_says_otherwise(kind, tmp_path):
    path = written(tmp_path, kind)
    kept = Tokenizer.load(path)
    assert kept.encode(["CAFÉ"]) != kept.encode(["cafe"])
    about = {"do_lower_case": True, "keep_accents": False}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(about))
    folded = Tokenizer.load(path)
    assert folded.encode(["CAFÉ", "``a''"]) == kept.encode(["cafe", '"a"'])
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    assert Tokenizer.load(path).encode(["CAFÉ"]) == kept.encode(["CAFÉ"])


def test_what_is_no_model_is_refused(tmp_path):
    path = written(tmp_path, "bpe")
    whole = path.read_bytes()
    for damaged in (b"", whole[:-3], b"\xff" * 40, b"not a model"):
        path.write_bytes(damaged)
        with pytest.raises(SubquadError, match=r"spiece\.model is not a SentencePiece model"):
            Tokenizer.load(path)
    with pytest.raises(SubquadError, match="No such file"):
        sentencepiece.load(tmp_path / "none.model")
