"""Pages under node: they compute what torch computes, and refuse what they cannot."""

import base64
import re

import numpy as np
import pytest

from subquad.errors import UsageError
from subquad.export.check import ask
from subquad.export.web import web
from subquad.generation import Request, Sampling, images, write
from tests.browser.conftest import language, pixels

pytestmark = pytest.mark.usefixtures("need_node")
NAMES = ["bytes", "chars", "learned", "grey", "colours", "mixture"]


@pytest.mark.parametrize("precision", ["f16", "f32", "int8"])
@pytest.mark.parametrize("name", NAMES)
def test_tokens_and_outputs_are_torchs(runs, tmp_path, name, precision):
    web(runs[name], tmp_path / "page.html", precision)
    outcome = ask(tmp_path / "page.html", {"kind": "check"})[-1]
    assert outcome["passed"], outcome
    assert outcome["worst"] < 1e-4
    assert min(outcome["tokens"]) >= 8


def test_its_own_sha_256_is_sha_256(pages):
    """Used over plain http, where a browser withholds its own."""
    import hashlib
    import json
    import subprocess

    worker = pages["bytes"].read_text("utf-8").split('<script id="worker" type="text/plain">')[1]
    source = worker.split("</script>")[0]
    lengths = [0, 1, 55, 56, 63, 64, 65, 1000, 70_001]
    script = (
        f"globalThis.onmessage = null;\n{source}\nconsole.log(JSON.stringify({lengths}"
        ".map((n) => sha256(Uint8Array.from({ length: n }, (_, i) => (i * 7) % 256)))))"
    )
    done = subprocess.run(["node", "-"], input=script, capture_output=True, text=True, check=True)
    wanted = [hashlib.sha256(bytes(i * 7 % 256 for i in range(n))).hexdigest() for n in lengths]
    assert json.loads(done.stdout) == wanted


def weights_of(page):
    return re.search(r'<script id="weights" type="text/plain">([^<]*)<', page).group(1)


def changed(page, out, *, hashed):
    """The page with one weight doubled; with ``hashed`` it says that this is right."""
    import hashlib

    text = page.read_text("utf-8")
    old = weights_of(text)
    numbers = np.frombuffer(base64.b64decode(old), np.float32).copy()
    before = hashlib.sha256(numbers.tobytes()).hexdigest()
    numbers[np.abs(numbers).argmax()] *= 2
    text = text.replace(old, base64.b64encode(numbers.tobytes()).decode())
    if hashed:
        text = text.replace(before, hashlib.sha256(numbers.tobytes()).hexdigest())
    out.write_text(text, "utf-8")
    return out


def test_one_wrong_weight_fails_the_self_test(pages, tmp_path):
    page = changed(pages["bytes"], tmp_path / "page.html", hashed=True)
    outcome = ask(page, {"kind": "check"})[-1]
    assert outcome["kind"] == "checked"
    assert not outcome["passed"]
    assert outcome["worst"] > 1e-3


def test_tampered_weights_are_refused(pages, tmp_path):
    page = changed(pages["bytes"], tmp_path / "page.html", hashed=False)
    (answer,) = ask(page)
    assert answer["kind"] == "error"
    assert "weights of this page have been changed" in answer["message"]


def ask_text(page, prompt, length, stop="", **how):
    message = {"kind": "write", "prompt": prompt, "length": length, "stop": stop, "how": how}
    answers = ask(page, message)
    return "".join(a["piece"] for a in answers if a["kind"] == "text"), answers[-1]


HOSTILE = [
    "",
    "<script>alert(1)</script><!--",
    "🦊 é 漢字 👩‍👩‍👧",
    "\ufeff\x00\u2028\r\n",
    "</textarea>&amp;",
]


@pytest.mark.parametrize("prompt", HOSTILE)
@pytest.mark.parametrize("name", ["bytes", "chars"])
def test_it_writes_what_the_run_writes(runs, pages, name, prompt):
    how = {"temperature": 0.9, "top_k": 20, "top_p": 0.9, "seed": 3}
    (wanted,) = write(runs[name], Request(prompts=[prompt], length=80), Sampling(**how)).texts
    text, done = ask_text(pages[name], prompt, 80, **how)
    assert prompt + text == wanted.text
    assert done["ended"] == wanted.ended


def test_a_stop_text_ends_it_before(pages):
    hows = [{"temperature": 0.9, "seed": seed} for seed in range(4)]
    texts = [ask_text(pages["chars"], "a", 80, **how)[0] for how in hows]
    whole = max(texts, key=len)
    how, stop = hows[texts.index(whole)], whole[len(whole) // 2 :][:2]
    assert len(stop) == 2
    text, done = ask_text(pages["chars"], "a", 80, stop, **how)
    assert text == whole[: whole.find(stop)]
    assert done["ended"] == "stop"


def test_a_hundred_thousand_characters(runs, pages):
    prompt = "<é🦊 " * 25_000
    text, done = ask_text(pages["bytes"], prompt, 5, temperature=0)
    (wanted,) = write(
        runs["bytes"], Request(prompts=[prompt], length=5), Sampling(temperature=0.0)
    ).texts
    assert prompt + text == wanted.text
    assert done["kind"] == "done"
    _, refused = ask_text(pages["learned"], prompt, 5)
    assert "exceed the 64 positions" in refused["message"]


def test_half_a_character_is_refused(pages):
    _, refused = ask_text(pages["bytes"], "\ud83e", 5)
    assert (
        refused["message"] == "The prompt contains an incomplete character (an unpaired surrogate)."
    )


@pytest.mark.parametrize("name", ["grey", "colours", "mixture"])
def test_it_draws_and_completes_what_the_run_does(runs, pages, name):
    run, how = runs[name], Sampling(seed=7, temperature=0.8)
    whole = images(run, 1, how).pixels
    answers = ask(
        pages[name], {"kind": "draw", "given": [], "how": {"seed": 7, "temperature": 0.8}}
    )
    drawn = [v for a in answers if a["kind"] == "pixels" for v in a["values"]]
    assert drawn == whole.ravel().tolist()
    done = images(run, 1, how, given=whole, keep=0.5).pixels.ravel().tolist()
    half = whole.shape[1] // 2 * int(np.prod(whole.shape[2:]))
    message = {"kind": "draw", "given": done[:half], "how": {"seed": 7, "temperature": 0.8}}
    answers = ask(pages[name], message)
    assert [v for a in answers if a["kind"] == "pixels" for v in a["values"]] == done[half:]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda p: language(p, mixers=("softmax",)), "layer 0 is CausalSoftmaxAttention"),
        (lambda p: language(p, "bpe"), "the tokenizers bytes and chars"),
        (lambda p: pixels(p, shape=(3, 3, 2)), "3×3×2"),
        (lambda p: language(p, scale=1e9), "a weight exceeds 65504"),
    ],
)
def test_what_no_page_can_do_is_refused(tmp_path, make, why):
    with pytest.raises(UsageError, match=why):
        web(make(tmp_path / "run"), tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
