"""A page's tokenizers find the ids that the run's find, for any text that there can be."""

import json
import random
import subprocess
from importlib.resources import files

import pytest
import tokenizers

from subquad.data.tokenizers import Tokenizer
from subquad.export.vocabulary import reading

pytestmark = pytest.mark.usefixtures("need_node")

#: All code points that a text can hold; of the planes without characters some.
POINTS = [
    *(*range(0xD800), *range(0xE000, 0x34000), *range(0x34000, 0xE0000, 97)),
    *(*range(0xE0000, 0xE1000), *range(0xE1000, 0x110000, 97)),
]
#: What words are made of, and what could be taken for it.
DANGEROUS = (
    "aZ09_'\u2019-.!<&>\"`\\ \t\n\r\x00\x1c\x1f\x7f\x85\xa0\xad\xb2\xb5\xbd\xdf\xaa"
    "\u0130\u0131\u017f\u03a3\u03c2\u03c3\u1e9e\u2126\u212a\ufb01\u01c5\u2163\u3300\u337f\u32ff"
    "\u0301\u0323\u0334\u0345\u0344\u093c\u05b0\u1ab0\u1ae0\u1acf\u3099\u1100\u1161\u11a8\uac00"
    "\u200b\u200c\u200d\u2028\u2060\u3000\ufeff\ufe0f\uff21\uff07\uff40\uffff\ufdfa"
    "\U0001d400\U0001f469\U0001f3fd\U0001f1e9\U00010400\U0001e900\U000e0100\U00020000\U0010ffff"
    "\U00011935\U00011930\U00010781\U0001ccd6\U000105d2"
)


def asked(expression, given, texts):
    """What a page's code makes of each text; ``t`` is the tokenizer."""
    page = files("subquad.export").joinpath("page")
    sources = [page.joinpath(name).read_text("utf-8") for name in ("tokens.js", "subwords.js")]
    script = f"""{"".join(sources)}
        const {{ v, texts }} = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
        const t = new TOKENIZERS[v.kind](v);
        console.log(JSON.stringify(texts.map((text) => {expression})));"""
    given = json.dumps({"v": given, "texts": texts})
    done = subprocess.run(
        ["node", "-e", script], input=given, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def library():
    """A tokenizer of words, of which normaliser and splitter matter."""
    return Tokenizer.train("words", ["a"], 300)


def differing(tokenizer, texts):
    """Texts of which a page makes other words than the library, with both."""
    inner = tokenizer._inner
    split, normal = inner.pre_tokenizer.pre_tokenize_str, inner.normalizer.normalize_str
    wanted = [[word for word, _ in split(normal(text))] for text in texts]
    found = asked("t.split(t.fold(text))", reading(tokenizer), texts)
    return [both for both in zip(texts, found, wanted, strict=True) if both[1] != both[2]]


def test_every_character(library):
    """Alone, after a letter and before a mark."""
    chunks = (POINTS[i : i + 256] for i in range(0, len(POINTS), 256))
    texts = ["".join(f"{chr(c)} a{chr(c)}\u0301 " for c in chunk) for chunk in chunks]
    assert differing(library, texts) == []


def test_every_character_among_marks(library):
    """Where the order of marks is settled, and what stands beside them is composed."""
    known = [*range(1, 0xD800), *range(0xE000, 0x20000), *range(0xE0000, 0xE0200)]
    chunks = (known[i : i + 256] for i in range(0, len(known), 256))
    texts = ["".join(f"e\u0345{chr(c)}\u0323\u0334'{chr(c)} " for c in part) for part in chunks]
    assert differing(library, texts) == []


def test_every_pair_of_dangerous_characters(library):
    assert differing(library, [f"{a}{b} x{b}{a}y" for a in DANGEROUS for b in DANGEROUS]) == []


def test_random_mixtures_of_words(library):
    draw = random.Random(4)
    texts = ["".join(draw.choices(DANGEROUS, k=draw.randrange(30))) for _ in range(5000)]
    assert differing(library, texts) == []


@pytest.mark.parametrize("kind", ["words", "chars", "bytes"])
def test_ids_are_the_runs(kind):
    draw = random.Random(3)
    texts = ["".join(draw.choices(DANGEROUS, k=draw.randrange(12))) for _ in range(2000)]
    texts += ["<pad> <sep> <unk>", "__proto__ constructor", "x" * 5000]
    tokenizer = Tokenizer.train(kind, texts[::2], 100_000)
    assert asked("t.encode(text)", reading(tokenizer), texts) == tokenizer.encode(texts)


def test_a_table_that_is_wrong_is_noticed(library):
    """The comparison bites: a character that is no word character any more."""
    tables = reading(library)
    tables["word"] = [tables["word"][0] + 1, tables["word"][1] - 1, *tables["word"][2:]]
    assert asked("t.split(t.fold(text))", tables, ["10 01"]) == [["1", "0", "0", "1"]]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_pieces_are_the_runs(kind):
    draw = random.Random(5)
    texts = ["".join(draw.choices(DANGEROUS, k=draw.randrange(30))) for _ in range(2000)]
    words = [
        "it's",
        "they're",
        "WE'LL",
        "I'd",
        "'sting",
        "12,345",
        "x²",
        "",
        "two",
        "",
        "",
        "spaces\n\n",
        "end",
        "\u3000",
        "naïve",
    ]
    texts += [" ".join(draw.choices([*words, ""], k=12)) for _ in range(2000)]
    texts += [
        "",
        " ",
        "  ",
        "a ",
        " a",
        "<pad><sep>",
        "aaaaaaa" * 300,
        "".join(map(chr, POINTS[:99])),
    ]
    tokenizer = Tokenizer.train(kind, texts[::3], 900)
    assert asked("t.encode(text)", reading(tokenizer), texts) == tokenizer.encode(texts)


@pytest.mark.parametrize("seed", range(5))
def test_merges_in_any_order_are_joined_as_by_the_library(seed):
    """Also where a merge makes what an earlier one has made, or needs what a later one makes."""
    draw = random.Random(seed)
    parts = [*"abc", "ab", "ba", "aa", "bc", "ca", "abc", "aab", "aba", "bca"]
    pairs = [(x, y) for x in parts for y in parts if x + y in parts]
    draw.shuffle(pairs)
    made = json.loads(Tokenizer.train("bpe", ["x"], 258).to_json())
    ids = made["model"]["vocab"]
    ids |= {part: len(ids) + i for i, part in enumerate(parts[3:])}
    made["model"]["merges"] = pairs
    tokenizer = Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(made)))
    texts = ["".join(draw.choices("abc", k=draw.randrange(14))) for _ in range(3000)]
    assert asked("t.encode(text)", reading(tokenizer), texts) == tokenizer.encode(texts)


def test_every_character_is_split_as_by_the_library():
    tokenizer = Tokenizer.train("bpe", ["a"], 300)
    chunks = (POINTS[i : i + 256] for i in range(0, len(POINTS), 256))
    texts = ["".join(f"a{chr(c)}1{chr(c)}! {chr(c)}" for c in part) for part in chunks]
    split = tokenizer._inner.pre_tokenizer.pre_tokenize_str
    wanted = [[texts[n][a:b] for _, (a, b) in split(text)] for n, text in enumerate(texts)]
    assert asked("t.split(text)", reading(tokenizer), texts) == wanted
